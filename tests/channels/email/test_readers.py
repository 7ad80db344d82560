"""Mails are read in processes of their own: what one of them costs, the others do not pay."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import psutil
import pytest

from builders import present
from channels.conftest import Channels
from channels.test_intake import reply
from signoff.broker import stages
from signoff.channels.email.inbound import readers as module
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.quarantine import quarantine_key
from signoff.channels.email.inbound.readers import ReaderDied, Readers
from signoff.channels.email.inbound.stored import mail_id, store
from signoff.channels.email.parsing.mime import LARGEST_MAIL
from signoff.channels.email.parsing.reading import read_mail
from signoff.core.approvals.approval import State
from signoff.core.base.errors import MailTooCostly, MailTooLarge, UnreadableMail

ODD = (str(Path(__file__).with_name("odd_reader.py")),)
PLAIN = reply("a" * 26, "approve\n\n> quoted\nmine", Date="Sat, 01 Aug 2026 10:00:00 +0000")


@pytest.fixture
async def readers() -> AsyncIterator[Readers]:
    """Two processes that read mails."""
    made = Readers()
    yield made
    await made.close()


@pytest.fixture
async def odd() -> AsyncIterator[Readers]:
    """Two that misbehave where a mail says so, with one second for each mail."""
    made = Readers(seconds=1, program=ODD)
    yield made
    await made.close()


async def test_it_reads_as_in_this_process(readers: Readers) -> None:
    """The same value comes out, our own lines are known, and one process serves many mails."""

    async def mine(recipients: Sequence[str]) -> list[str]:
        assert recipients == read_mail(PLAIN).recipients
        return ["mine"]

    for _ in range(3):
        assert await readers.read(PLAIN) == read_mail(PLAIN)
        assert await readers.read(PLAIN, mine) == read_mail(PLAIN, ["mine"])
    assert len(readers._all) == 1


async def test_it_has_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """An attacker who breaks a parser finds none in the environment of its process."""
    monkeypatch.setenv("SIGNOFF_EMAIL__SMTP__PASSWORD", "hunter2")
    monkeypatch.setenv("GOOGLE_API_KEY", "hunter2")
    readers = Readers()
    try:
        await readers.read(PLAIN)
        (reader,) = readers._all
        assert "hunter2" not in psutil.Process(reader._process.pid).environ().values()
    finally:
        await readers.close()


async def test_what_cannot_be_read_is_the_same_error(readers: Readers) -> None:
    """A cap that is broken over there is a cap that is broken."""
    with pytest.raises(MailTooLarge, match="bytes"):
        await readers.read(b"x" * (LARGEST_MAIL + 1))
    assert await readers.read(PLAIN) == read_mail(PLAIN)


async def test_a_mail_that_hangs_is_broken_off_and_the_others_go_on(odd: Readers) -> None:
    """The process is killed; mails beside it are read meanwhile, and after it."""
    hanging = asyncio.create_task(odd.read(b"!hang"))
    await asyncio.sleep(0)
    for _ in range(20):
        await odd.read(PLAIN)
    assert not hanging.done()
    with pytest.raises(MailTooCostly, match="1 seconds"):
        await hanging
    await asyncio.gather(*(odd.read(PLAIN) for _ in range(4)))


async def test_one_that_waits_is_broken_off_too(
    odd: Readers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time runs also where nothing is computed."""
    monkeypatch.setattr(module, "_WALL", 0.2)
    with pytest.raises(MailTooCostly):
        await odd.read(b"!sleep")


async def test_memory_is_limited(odd: Readers) -> None:
    """A mail that blows up is refused, and the process reads on."""
    with pytest.raises(MailTooCostly, match="memory"):
        await odd.read(b"!eat")
    assert await odd.read(PLAIN) == read_mail(PLAIN)


@pytest.mark.parametrize(("mail", "words"), [(b"!die", "status 3"), (b"!bug", "KeyError")])
async def test_other_deaths_are_no_fault_of_the_mail(odd: Readers, mail: bytes, words: str) -> None:
    """What is not the limits' doing may be tried again."""
    with pytest.raises(ReaderDied, match=words):
        await odd.read(mail)
    await odd.read(PLAIN)


async def test_a_process_that_was_killed_idle_is_replaced(readers: Readers) -> None:
    """The next mail does not meet a dead one."""
    await readers.read(PLAIN)
    (one,) = readers._all
    one._process.send_signal(signal.SIGKILL)
    await one._process.wait()
    await readers.read(PLAIN)


async def test_who_gives_up_leaves_no_answer_behind(odd: Readers) -> None:
    """A reading that is cancelled does not become the next mail's."""
    task = asyncio.create_task(odd.read(b"!hang"))
    while not odd._all:  # noqa: ASYNC110 -- no signal for it
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await odd.read(PLAIN) == read_mail(PLAIN)


def test_they_end_with_the_process_that_started_them() -> None:
    """After kill -9 no reader is left, busy or not."""
    script = (
        "import asyncio, sys\n"
        "from signoff.channels.email.inbound.readers import Readers\n"
        "async def main():\n"
        f"    readers = Readers(seconds=1, program={ODD!r})\n"
        "    await readers.read(b'')\n"
        "    busy = asyncio.create_task(readers.read(b'!hang'))\n"
        "    while readers._idle:\n"
        "        await asyncio.sleep(0.01)\n"
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
    _, left = psutil.wait_procs(children, timeout=60)
    assert left == []


async def test_a_hanging_mail_is_quarantined_and_holds_up_nobody(
    channels: Channels, odd: Readers
) -> None:
    """In one batch, the answer behind it is processed before it is even broken off."""
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
    await working
    assert "seconds of work" in present(await channels.ledger.raw(key))[1]


async def test_mails_are_processed_in_the_order_in_which_they_came(
    channels: Channels, readers: Readers
) -> None:
    """Of a no and forty yeses behind it, the no counts."""
    approval, token = await channels.ask()
    for n in range(41):
        text = "approve" if n else "reject: too dear\n\n" + "\n".join("> x" * 50 for _ in range(90))
        raw = reply(token, text, Message_ID=f"<{n}@mail.example>")
        await store(channels.ledger, raw, sender="mara@example.com", recipients=[])
    await readers.read(PLAIN)
    intake = Intake(channels.decider, mailbox="approvals@signoff.example", read=readers.read)
    await intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.REJECTED


@pytest.mark.parametrize(
    ("lines", "read"), [(["x" * 100] * 1000, 20_000), (["y" * 70_000], 65_536)]
)
def test_the_scan_is_capped(lines: list[str], read: int) -> None:
    """Of a body 200 lines and 64 KB are looked at, so a command below them is none."""
    mail = read_mail(reply("a" * 26, "\n".join([*lines, "approve"])))
    assert "approve" not in mail.own_text
    assert len(mail.own_text.replace("\n", "")) <= read


def test_the_errors_are_unreadable_mails() -> None:
    """A setting that quarantines what cannot be read quarantines these too."""
    assert issubclass(MailTooCostly, UnreadableMail)
