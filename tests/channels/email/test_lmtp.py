"""LMTP (RFC 2033) by swaks and by hand: each recipient always gets an answer."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterable
from datetime import timedelta

import pytest

from builders import present
from services import missing
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import load
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.channels.pipeline.reply_tokens import Holder, issue_token, new_token
from signoff.core.base.errors import LedgerUnavailable

MAIL = b"From: mara@example.com\r\nSubject: Re: x\r\n\r\napprove\r\n"


@pytest.fixture
async def addresses(ledger: Ledger) -> list[str]:
    """Return two addresses with issued tokens."""
    change = Change()
    within = timedelta(hours=1)
    tokens = [
        issue_token(change, Holder("ap_1", who, "email"), within=within) for who in ("mara", "cleo")
    ]
    await ledger.commit(change)
    return [f"approvals+{token}@signoff.example" for token in tokens]


@pytest.fixture
async def server(ledger: Ledger) -> AsyncIterator[MailServer]:
    """Return an LMTP server."""
    inbound = InboundSettings(protocol="lmtp", port=0, max_bytes=16 << 10)
    running = MailServer(
        EmailSettings(mailbox="approvals@signoff.example", inbound=inbound), ledger
    )
    await running.start()
    yield running
    await running.stop()


async def swaks(
    server: MailServer, *recipients: str, body: str = "approve"
) -> tuple[int | None, str]:
    """Send a mail by LMTP with swaks; return its exit code and the conversation."""
    if shutil.which("swaks") is None:
        missing("swaks", "apt-get install swaks")
    process = await asyncio.create_subprocess_exec(
        *("swaks", "--protocol", "LMTP", "--server", "127.0.0.1", "--port", str(server.port)),
        *("--from", "mara@example.com", "--to", ",".join(recipients), "--helo", "mx.example"),
        *("--header", "Subject: Re: x", "--body", body),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    said, _ = await process.communicate()
    return process.returncode, said.decode()


async def talk(
    server: MailServer, *lines: bytes
) -> tuple[list[bytes], asyncio.StreamReader, asyncio.StreamWriter]:
    """Send lines one by one, and return the first line of each reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    answers = [await reader.readline()]
    for line in lines:
        writer.write(line + b"\r\n")
        while (answer := await reader.readline())[3:4] == b"-":
            pass
        answers.append(answer)
    return answers, reader, writer


def opening(addresses: Iterable[str]) -> tuple[bytes, ...]:
    """Return the commands before the mail."""
    recipients = [b"RCPT TO:<" + one.encode() + b">" for one in addresses]
    return (b"LHLO mx.example", b"MAIL FROM:<mara@example.com>", *recipients, b"DATA")


async def test_swaks_delivers_and_each_recipient_has_an_answer(
    server: MailServer, ledger: Ledger, addresses: list[str]
) -> None:
    """One mail is stored, and the reply is repeated for each recipient."""
    code, said = await swaks(server, *addresses)
    assert code == 0, said
    assert said.count("250 2.0.0 OK, stored") == 2
    (item,) = (await ledger.claim(stages.INTAKE)).items
    stored = present(await load(ledger, item.body["mail"]))
    assert list(stored.recipients) == addresses
    assert b"approve" in stored.raw


async def test_swaks_reads_a_5xx_for_an_unknown_token(
    server: MailServer, ledger: Ledger, addresses: list[str]
) -> None:
    """RCPT returns it; the known recipient still gets the mail."""
    code, said = await swaks(server, f"approvals+{new_token()}@signoff.example")
    assert code == 24, said
    assert "550 5.1.1" in said
    code, said = await swaks(server, f"approvals+{new_token()}@signoff.example", addresses[0])
    assert code == 0, said
    assert len((await ledger.claim(stages.INTAKE)).items) == 1


async def test_an_announced_oversize_is_refused_at_mail_from(
    server: MailServer, addresses: list[str]
) -> None:
    """MAIL FROM with a larger SIZE gets 552, and otherwise 250 (RFC 1870)."""
    answers, _, writer = await talk(
        server,
        b"LHLO mx.example",
        b"MAIL FROM:<mara@example.com> SIZE=99999999",
        b"MAIL FROM:<mara@example.com> SIZE=100",
    )
    writer.close()
    assert [answer[:3] for answer in answers[2:]] == [b"552", b"250"]


@pytest.mark.parametrize(
    ("body", "code"), [((b"x" * 70 + b"\r\n") * 400, b"552"), (b"x" * 80_000 + b"\r\n", b"500")]
)
async def test_an_oversized_mail_is_refused_for_each_recipient(
    server: MailServer, ledger: Ledger, addresses: list[str], body: bytes, code: bytes
) -> None:
    """A client that expects two replies gets two, and can continue in the same connection."""
    _, reader, writer = await talk(server, *opening(addresses))
    writer.write(MAIL + body + b".\r\n")
    refused = [(await reader.readline())[:3] for _ in addresses]
    writer.write(b"RSET\r\n")
    again = (await reader.readline())[:3]
    writer.close()
    assert (refused, again) == ([code, code], b"250")
    assert (await ledger.claim(stages.INTAKE)).items == ()


@pytest.mark.parametrize("error", [LedgerUnavailable("away"), KeyError("a bug")])
async def test_a_failure_defers_the_mail_for_each_recipient(
    server: MailServer,
    ledger: Ledger,
    addresses: list[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
) -> None:
    """If Redis fails in between, or Signoff has a bug, nothing is lost."""

    async def commit(change: Change) -> None:
        raise error

    monkeypatch.setattr(ledger, "commit", commit)
    _, reader, writer = await talk(server, *opening(addresses))
    writer.write(MAIL + b".\r\n")
    deferred = [(await reader.readline())[:3] for _ in addresses]
    writer.write(b"NOOP\r\n")
    after = (await reader.readline())[:3]
    writer.close()
    assert (deferred, after) == ([b"451", b"451"], b"250")


async def test_an_endless_line_is_hung_up_on(
    server: MailServer, ledger: Ledger, addresses: list[str]
) -> None:
    """A client that keeps sending beyond the size does not fill the memory."""
    _, _, writer = await talk(server, *opening(addresses))

    async def go_on() -> None:
        while True:
            writer.write(b"x" * (1 << 16))
            await writer.drain()

    with pytest.raises(ConnectionError):
        await go_on()
    writer.close()
    assert (await ledger.claim(stages.INTAKE)).items == ()


async def test_too_many_recipients(server: MailServer, addresses: list[str]) -> None:
    """The twenty-first is deferred to another mail; the others are accepted."""
    commands = opening(addresses[:1] * 21)
    answers, _, writer = await talk(server, *commands)
    writer.close()
    assert [answer[:3] for answer in answers[3:]] == [b"250"] * 20 + [b"452", b"354"]
