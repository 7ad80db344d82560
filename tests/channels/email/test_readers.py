"""Mails are read in separate processes: a costly mail does not hold up the others."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from builders import present
from channels.conftest import Channels
from channels.test_intake import reply
from signoff.broker import stages
from signoff.broker.ledger.follow import follow
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.opening import read_here
from signoff.channels.email.inbound.quarantine import quarantine_key
from signoff.channels.email.inbound.readers import ReaderDied, Readers, SentTo
from signoff.channels.email.inbound.stored import mail_id, store
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.channels.email.parsing.mime import LARGEST_MAIL
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.base.errors import MailTooCostly, MailTooLarge, UnreadableMail

ODD = str(Path(__file__).with_name("odd_reader.py"))
READER = "signoff.channels.email.inbound.reader"
PLAIN = reply("a" * 26, "approve\n\n> quoted\nmine", Date="Sat, 01 Aug 2026 10:00:00 +0000")


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    """Return two processes that read mails."""
    made = Readers()
    yield made
    await made.close()


@pytest.fixture
def gate(tmp_path: Path) -> Path:
    """Return a FIFO: a mail that hangs does so only after `opened`."""
    os.mkfifo(tmp_path / "gate")
    return tmp_path / "gate"


def children(program: str) -> list[psutil.Process]:
    """Return the processes of this one that run a program."""
    found = []
    for one in psutil.Process().children():
        # Another test may have left a process that has ended and has no command line any more.
        with suppress(psutil.NoSuchProcess):
            found += [one] if program in one.cmdline() else []
    return found


async def opened(gate: Path) -> None:
    """Wait until a reader is at a gate, and let it continue."""
    await asyncio.to_thread(gate.write_bytes, b"")


@pytest.fixture
async def odd(gate: Path) -> AsyncIterator[Readers]:
    """Return two readers that follow a mail's instructions, with a second of CPU per mail."""
    made = Readers(seconds=1, wall=600, program=(ODD, str(gate)))
    yield made
    await made.close()


async def test_a_reader_process_returns_the_same_result(readers: Readers) -> None:
    """The result is the same, our lines are recognised, and a process reads many mails."""

    async def mine(recipients: Sequence[str]) -> list[str]:
        assert recipients == read_mail(PLAIN).recipients
        return ["mine"]

    for _ in range(3):
        assert await readers.read(PLAIN) == read_mail(PLAIN)
        assert await readers.read(PLAIN, mine) == read_mail(PLAIN, ["mine"])
    assert len(children(READER)) == 1


async def test_a_reader_process_has_no_secrets_in_its_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An attacker who breaks a parser finds no secrets in the process's environment."""
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "hunter2")
    monkeypatch.setenv("GOOGLE_API_KEY", "hunter2")
    readers = Readers()
    try:
        await readers.read(PLAIN)
        (reader,) = children(READER)
        assert "hunter2" not in reader.environ().values()
    finally:
        await readers.close()


async def test_a_reader_process_raises_the_same_errors(readers: Readers) -> None:
    """A mail that is too large there is too large in this process."""
    with pytest.raises(MailTooLarge, match="bytes"):
        await readers.read(b"x" * (LARGEST_MAIL + 1))
    assert await readers.read(PLAIN) == read_mail(PLAIN)


async def test_a_hanging_mail_is_stopped_and_others_continue(odd: Readers, gate: Path) -> None:
    """Its process is killed; other mails are read meanwhile and afterwards."""
    hanging = asyncio.create_task(odd.read(b"!hang"))
    await asyncio.sleep(0)
    for _ in range(20):
        await odd.read(PLAIN)
    assert not hanging.done()
    await opened(gate)
    with pytest.raises(MailTooCostly, match="1 seconds"):
        await hanging
    await asyncio.gather(*(odd.read(PLAIN) for _ in range(4)))


async def test_a_stalled_mail_is_stopped_and_may_be_retried(gate: Path) -> None:
    """The time on the clock is limited too, but a busy machine may be the reason."""
    hasty = Readers(seconds=1, wall=0.2, program=(ODD, str(gate)))
    try:
        with pytest.raises(ReaderDied, match="hung"):
            await hasty.read(b"!sleep")
        assert children(ODD) == []
    finally:
        await hasty.close()


async def test_memory_is_limited(odd: Readers) -> None:
    """A mail that needs too much memory is refused, and the process reads the next one."""
    with pytest.raises(MailTooCostly, match="memory"):
        await odd.read(b"!eat")
    assert await odd.read(PLAIN) == read_mail(PLAIN)


@pytest.mark.parametrize(("mail", "words"), [(b"!die", "status 3"), (b"!bug", "KeyError")])
async def test_a_mail_may_be_retried_after_an_unrelated_reader_crash(
    odd: Readers, mail: bytes, words: str
) -> None:
    """If its process died of another cause than its limits, the mail may be tried again."""
    with pytest.raises(ReaderDied, match=words):
        await odd.read(mail)
    await odd.read(PLAIN)


async def test_a_process_that_was_killed_idle_is_replaced(readers: Readers) -> None:
    """The next mail does not get a dead process."""
    await readers.read(PLAIN)
    (one,) = children(READER)
    one.kill()
    while readers.alive:  # noqa: ASYNC110 -- no signal announces it
        await asyncio.sleep(0.01)
    await readers.read(PLAIN)


async def test_a_cancelled_reading_does_not_affect_the_next_mail(odd: Readers) -> None:
    """Its answer is not used for the next mail."""
    task = asyncio.create_task(odd.read(b"!hang"))
    while not children(ODD):  # noqa: ASYNC110 -- no signal announces it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await odd.read(PLAIN) == read_mail(PLAIN)


async def test_closing_ends_a_reading(gate: Path) -> None:
    """A process that stops while a mail is read leaves the mail to others."""
    made = Readers(program=(ODD, str(gate)))
    task = asyncio.create_task(made.read(b"!hang"))
    await opened(gate)
    await made.close()
    with pytest.raises(ReaderDied):
        await task
    assert children(ODD) == []


def test_reader_processes_end_with_their_parent(gate: Path) -> None:
    """After kill -9 of the parent, no reader is left, busy or not."""
    script = (
        "import asyncio, sys\n"
        "from signoff.channels.email.inbound.readers import Readers\n"
        "async def main():\n"
        f"    readers = Readers(seconds=1, program={(ODD, str(gate))!r})\n"
        "    await readers.read(b'')\n"
        "    busy = asyncio.create_task(readers.read(b'!hang'))\n"
        "    await asyncio.sleep(0)\n"
        "    await readers.read(b'')\n"
        "    print('up', flush=True)\n"
        "    await busy\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert present(process.stdout).readline() == b"up\n"
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
    assert len(children) == 2
    gate.write_bytes(b"")
    _, left = psutil.wait_procs(children, timeout=60)
    assert left == []


async def test_a_hanging_mail_is_quarantined_without_delaying_others(
    channels: Channels, odd: Readers, gate: Path
) -> None:
    """The next answer of the batch is processed before the hanging mail is stopped."""
    approval, token = await channels.ask()
    bomb = reply(token, "!hang")
    for raw in (bomb, reply(token, "approve", Message_ID="<2@mail.example>")):
        await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    await asyncio.gather(odd.read(PLAIN), odd.read(PLAIN))
    intake = Intake(channels.decider, mailbox="approvals@signoff.example", read=odd.read)
    claim = await channels.ledger.claim(stages.INTAKE)
    working = asyncio.create_task(intake.work(claim.items))
    while (await channels.ledger.approval(approval.id)).state is State.PENDING:
        assert not working.done()
        await asyncio.sleep(0.01)
    key = quarantine_key(mail_id(bomb, sender="mara@example.com", recipients=[]))
    assert await channels.ledger.raw(key) is None
    await opened(gate)
    await working
    assert "seconds of work" in present(await channels.ledger.raw(key))[1]


async def test_mails_are_processed_in_order_of_arrival(
    channels: Channels, readers: Readers
) -> None:
    """If forty approvals follow a rejection, the rejection counts."""
    approval, token = await channels.ask()
    for n in range(41):
        text = "approve" if n else "reject: too dear\n\n" + "\n".join("> x" * 50 for _ in range(90))
        raw = reply(token, text, Message_ID=f"<{n}@mail.example>")
        await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    await readers.read(PLAIN)
    intake = Intake(
        channels.decider, mailbox="approvals@signoff.example", read=readers.read, patience=60
    )
    await intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED


async def test_a_slow_mail_is_processed_before_later_ones_about_its_approval(
    channels: Channels,
) -> None:
    """A rejection that takes long to read counts, and delays no other approval."""
    approval, token = await channels.ask()
    other, others_token = await channels.ask()
    answers = [(token, "reject: too dear"), (token, "approve"), (others_token, "approve")]
    for n, (answered, text) in enumerate(answers):
        raw = reply(answered, text, Message_ID=f"<{n}@mail.example>")
        await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    may_end = asyncio.Event()

    async def read(raw: bytes, sent_to: SentTo) -> IncomingMail:
        mail = await read_here(raw, sent_to)
        if "reject" in mail.own_text:
            await may_end.wait()
        return mail

    intake = Intake(channels.decider, mailbox="approvals@signoff.example", read=read)
    processing = asyncio.create_task(intake.drain())
    async for event in follow(channels.ledger.store, subject=other.id):
        if event.what is What.APPROVED:
            break
    may_end.set()
    await processing
    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED


@pytest.mark.parametrize(
    ("lines", "read"), [(["x" * 100] * 1000, 20_000), (["y" * 70_000], 65_536)]
)
def test_the_scan_is_capped(lines: list[str], read: int) -> None:
    """Only 200 lines and 64 KB of a body are read; a later command does not count."""
    mail = read_mail(reply("a" * 26, "\n".join([*lines, "approve"])))
    assert "approve" not in mail.own_text
    assert len(mail.own_text.replace("\n", "")) <= read


def test_the_errors_are_unreadable_mails() -> None:
    """A setting that quarantines unreadable mail also quarantines these."""
    assert issubclass(MailTooCostly, UnreadableMail)
