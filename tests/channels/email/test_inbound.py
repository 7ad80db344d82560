"""Incoming mail over real connections: it is acknowledged only after it is stored."""

import asyncio
import json
import logging
import shutil
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiosmtplib
import pytest
from structlog.testing import LogCapture

from builders import present
from channels.conftest import write_certificate
from ports import free_port
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import load, mail_id, mail_key
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.channels.pipeline.reply_tokens import Holder, issue_token, new_token
from signoff.core.base.errors import ConfigError

MAILBOX = "approvals@signoff.example"
MAIL = b"From: mara@example.com\r\nSubject: Re: x\r\n\r\napprove\r\n.dot\r\n"


def settings(**inbound: Any) -> EmailSettings:
    """Return settings that listen on a port of the system's choice."""
    return EmailSettings(mailbox=MAILBOX, inbound=InboundSettings(**({"port": 0} | inbound)))


@pytest.fixture
async def server(ledger: Ledger) -> AsyncIterator[MailServer]:
    """Return a running mail server."""
    running = MailServer(settings(), ledger)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
async def address(ledger: Ledger) -> str:
    """Return an address with an issued token."""
    change = Change()
    token = issue_token(change, Holder("ap_1", "mara", "email"), within=timedelta(hours=1))
    await ledger.commit(change)
    return f"approvals+{token}@signoff.example"


async def send(
    server: MailServer,
    recipients: list[str],
    raw: bytes = MAIL,
    sender: str = "mara@example.com",
    **options: Any,
) -> Any:
    """Send a mail as a mail server does."""
    client = aiosmtplib.SMTP(
        hostname="127.0.0.1", port=server.port, local_hostname="mx.example", start_tls=False
    )
    async with client:
        return await client.sendmail(sender, recipients, raw, **options)


async def test_a_mail_is_stored_with_its_envelope(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """An acknowledged mail is in the ledger, byte for byte, with work for the intake."""
    _, answer = await send(server, [address])

    (item,) = (await ledger.claim("intake")).items
    stored = present(await load(ledger, item.body["mail"]))
    assert stored.raw == MAIL
    assert (stored.sender, stored.recipients) == ("mara@example.com", (address,))
    assert item.body["mail"] == mail_key(
        mail_id(MAIL, sender="mara@example.com", recipients=[address])
    )
    assert "stored" in answer


async def test_repeated_mail_is_acknowledged_and_not_stored_again(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """A sender whose connection broke before the answer sends again and gets it."""
    await send(server, [address])
    _, answer = await send(server, [address])
    assert "already have it" in answer
    assert len((await ledger.claim("intake")).items) == 1


@pytest.mark.parametrize(
    "recipient",
    [
        MAILBOX,
        "approvals+aaaaaaaaaaaaaaaaaaaaaaaaaa@signoff.example",
        "approvals+short@signoff.example",
        "somebody@else.example",
        "approvals+x@else.example",
        "postmaster@signoff.example",
    ],
)
async def test_unknown_recipients_get_the_same_response(server: MailServer, recipient: str) -> None:
    """An unknown token, another mailbox and another domain get the same answer."""
    with pytest.raises(aiosmtplib.SMTPRecipientsRefused) as caught:
        await send(server, [recipient])
    (refused,) = caught.value.recipients
    assert (refused.code, refused.message) == (550, "5.1.1 No such mailbox here")


async def test_a_bounce_to_the_plain_mailbox_is_accepted_without_verp(
    ledger: Ledger,
) -> None:
    """With `bounces` off, reports come back to the mailbox or the sender; other mail does not."""
    plain = settings().model_copy(
        update={"bounces": False, "sender": "Signoff <Robot@ERP.Example>"}
    )
    server = MailServer(plain, ledger)
    await server.start()
    for address in (MAILBOX, "robot@erp.example"):
        await send(server, [address], sender="")
        assert len((await ledger.claim("intake")).items) == 1
    with pytest.raises(aiosmtplib.SMTPRecipientsRefused):
        await send(server, [MAILBOX])
    await server.stop()


async def test_an_unknown_recipient_does_not_block_a_known_one(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """A wrong recipient does not prevent delivery to the right one."""
    errors, _ = await send(server, ["nobody@signoff.example", address])
    assert list(errors) == ["nobody@signoff.example"]
    assert len((await ledger.claim("intake")).items) == 1


async def test_case_does_not_matter_in_the_address(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """Mail programs change the case of addresses."""
    await send(server, [address.upper()])
    assert len((await ledger.claim("intake")).items) == 1


async def test_the_empty_sender_of_a_bounce(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """A bounce is accepted like any other mail, and recognised by its empty sender."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    commands = [
        b"HELO mx.example",
        b"MAIL FROM:<>",
        b"RCPT TO:<" + address.encode() + b">",
        b"DATA",
    ]
    for line in (*commands, MAIL + b"."):
        await reader.readline()
        writer.write(line + b"\r\n")
    assert (await reader.readline()).startswith(b"250")
    writer.close()
    await writer.wait_closed()
    (item,) = (await ledger.claim("intake")).items
    stored = present(await load(ledger, item.body["mail"]))
    assert stored.sender == ""
    assert stored.traced.startswith(b"Return-Path: <>\r\n")


async def test_a_mail_that_is_too_large(ledger: Ledger, address: str) -> None:
    """A mail over the limit is refused, announced or not, and is not stored."""
    server = MailServer(settings(max_bytes=16 << 10), ledger)
    await server.start()
    try:
        with pytest.raises(aiosmtplib.SMTPResponseException) as announced:
            await send(server, [address], MAIL + b"x" * (20 << 10))
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        lines = [
            b"HELO mx.example\r\n",
            b"MAIL FROM:<mara@example.com>\r\n",
            b"RCPT TO:<" + address.encode() + b">\r\n",
            b"DATA\r\n",
            (b"x" * 70 + b"\r\n") * 400 + b".\r\n",
        ]
        answers = [await reader.readline()]
        for line in lines:
            writer.write(line)
            answers.append(await reader.readline())
        writer.close()
        await writer.wait_closed()
    finally:
        await server.stop()
    assert announced.value.code == 552
    assert answers[-1].startswith(b"552")
    assert (await ledger.claim("intake")).items == ()


async def test_overlong_lines_are_accepted(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """An answer is accepted although a mail program wrote a long line."""
    await send(server, [address], MAIL + b"x" * 5000 + b"\r\n")
    assert len((await ledger.claim("intake")).items) == 1


async def test_utf8_addresses_and_eight_bit_text(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """SMTPUTF8 is supported (RFC 6531)."""
    await send(
        server,
        [address],
        MAIL + "ü".encode(),
        sender="müller@example.com",
        mail_options=["SMTPUTF8"],
    )
    (item,) = (await ledger.claim("intake")).items
    stored = present(await load(ledger, item.body["mail"]))
    assert stored.sender == "müller@example.com"
    assert not stored.traced.startswith(b"Return-Path")


async def test_lmtp_answers_for_each_recipient(ledger: Ledger, address: str) -> None:
    """After Postfix, each recipient gets its own answer (RFC 2033)."""
    change = Change()
    token = issue_token(change, Holder("ap_1", "cleo", "email"), within=timedelta(hours=1))
    await ledger.commit(change)
    server = MailServer(settings(protocol="lmtp"), ledger)
    await server.start()
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        assert (await reader.readline()).startswith(b"220")
        writer.write(b"LHLO mx.example\r\n")
        while not (await reader.readline()).startswith(b"250 "):
            pass
        answers = []
        for line in (
            b"MAIL FROM:<>\r\n",
            f"RCPT TO:<{address}>\r\n".encode(),
            f"RCPT TO:<approvals+{token}@signoff.example>\r\n".encode(),
            b"RCPT TO:<nobody@signoff.example>\r\n",
            b"DATA\r\n",
        ):
            writer.write(line)
            answers.append((await reader.readline())[:3])
        writer.write(MAIL + b".\r\n")
        answers += [(await reader.readline())[:3], (await reader.readline())[:3]]
        writer.write(b"QUIT\r\n")
        answers.append((await reader.readline())[:3])
        writer.close()
        await writer.wait_closed()
    finally:
        await server.stop()
    assert answers == [b"250", b"250", b"250", b"550", b"354", b"250", b"250", b"221"]


async def test_mail_is_deferred_while_redis_is_unavailable() -> None:
    """While Redis is unavailable, senders are asked to retry, so nothing is lost."""
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0"))
    server = MailServer(settings(), ledger)
    await server.start()
    try:
        with pytest.raises(aiosmtplib.SMTPRecipientsRefused) as caught:
            await send(server, [f"approvals+{new_token()}@signoff.example"])
    finally:
        await server.stop()
        await ledger.close()
    assert caught.value.recipients[0].code == 451


async def test_a_ledger_that_fails_at_the_end_is_not_hidden(
    server: MailServer, ledger: Ledger, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the mail cannot be stored, the answer to its data asks the sender to retry."""
    from signoff.core.base.errors import LedgerUnavailable

    async def commit(change: Change) -> None:
        raise LedgerUnavailable("away")

    monkeypatch.setattr(ledger, "commit", commit)
    with pytest.raises(aiosmtplib.SMTPDataError) as caught:
        await send(server, [address])
    assert caught.value.code == 451


async def test_a_bug_of_ours_is_the_senders_to_try_again(
    server: MailServer, ledger: Ledger, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error asks the sender to retry, and tells nothing about the gateway."""

    async def commit(change: Change) -> None:
        raise KeyError("secret detail")

    monkeypatch.setattr(ledger, "commit", commit)
    with pytest.raises(aiosmtplib.SMTPDataError) as caught:
        await send(server, [address])
    assert (caught.value.code, "secret" in caught.value.message) == (451, False)


async def test_a_mail_with_too_many_recipients_is_refused(
    server: MailServer, ledger: Ledger, address: str
) -> None:
    """A mail with dozens of recipients is not an answer of a person."""
    errors, _ = await send(server, [address] * 25)
    assert {one.code for one in errors.values()} == {452}


async def test_a_port_in_use_is_reported_with_its_setting(
    server: MailServer, ledger: Ledger
) -> None:
    """A second server on the same port says which setting to change."""
    second = MailServer(settings(port=server.port), ledger)
    with pytest.raises(ConfigError, match=r"email\.inbound"):
        await second.start()
    assert second.problem


async def test_the_server_can_be_stopped_and_restarted(ledger: Ledger) -> None:
    """A stopped server can listen again, and stopping twice does no harm."""
    server = MailServer(settings(), ledger)
    with pytest.raises(RuntimeError, match="not started"):
        _ = server.port
    for _ in range(2):
        await server.start()
        assert server.problem == ""
        await server.stop()
        await server.stop()
        assert server.problem == "it does not listen"


async def test_stopping_closes_open_connections(server: MailServer) -> None:
    """An open connection is closed, without waiting for it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    await server.stop()
    assert await reader.read() == b""
    writer.close()
    await writer.wait_closed()


async def test_tokens_are_not_logged(
    server: MailServer,
    ledger: Ledger,
    address: str,
    caplog: pytest.LogCaptureFixture,
    log_output: LogCapture,
) -> None:
    """Neither Signoff nor a library writes a token into a log."""
    caplog.set_level(logging.DEBUG)
    await send(server, [address])
    token = address.partition("+")[2].partition("@")[0]
    assert token not in caplog.text
    assert token not in json.dumps(log_output.entries, default=str)


async def test_garbage_is_survived(server: MailServer, ledger: Ledger, address: str) -> None:
    """After any other bytes than SMTP, the next mail is accepted."""
    for garbage in (b"\x00" * 5000 + b"\r\n", b"MAIL FROM:<" + b"(" * 400 + b"\r\n", b"\r\n" * 50):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        await reader.readline()
        writer.write(b"EHLO x\r\n" + garbage + b"QUIT\r\n")
        await reader.read()
        writer.close()
        await writer.wait_closed()
    await send(server, [address])
    assert len((await ledger.claim("intake")).items) == 1


Start = Callable[..., Awaitable[MailServer]]


@pytest.fixture
async def encrypted(ledger: Ledger, certificate: Path) -> AsyncIterator[Start]:
    """Return a function that starts servers with STARTTLS."""
    running = []

    async def start(**inbound: Any) -> MailServer:
        server = MailServer(settings(**({"certificate": certificate} | inbound)), ledger)
        await server.start()
        running.append(server)
        return server

    yield start
    for server in running:
        await server.stop()


def trusting(certificate: Path) -> ssl.SSLContext:
    """Return TLS for a client that trusts only this certificate."""
    return ssl.create_default_context(cafile=certificate)


async def connected(
    server: MailServer, context: ssl.SSLContext | None, *, start_tls: bool = True
) -> aiosmtplib.SMTP:
    """Return a client after its greeting, encrypted or not."""
    client = aiosmtplib.SMTP(
        hostname="localhost",
        port=server.port,
        local_hostname="mx.example",
        start_tls=start_tls,
        tls_context=context,
    )
    await client.connect()
    await client.ehlo()
    return client


async def test_mail_is_accepted_over_starttls(
    encrypted: Start, ledger: Ledger, address: str, certificate: Path
) -> None:
    """STARTTLS is offered with our certificate, and the mail is stored as usual."""
    server = await encrypted()
    plain = await connected(server, None, start_tls=False)
    assert plain.supports_extension("starttls")
    await plain.quit()
    client = await connected(server, trusting(certificate))
    assert client.get_transport_info("cipher")
    assert not client.supports_extension("starttls")
    await client.sendmail("mara@example.com", [address], MAIL)
    await client.quit()
    assert (await ledger.backlog())["intake"] == 1


async def test_lmtp_offers_starttls(encrypted: Start, address: str, certificate: Path) -> None:
    """The mail server before it may be on another machine."""
    server = await encrypted(protocol="lmtp")
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    writer.write(b"LHLO mx.example\r\n")
    lines = [await reader.readline()]
    while lines[-1][3:4] == b"-":
        lines.append(await reader.readline())
    assert any(b"STARTTLS" in line for line in lines)
    writer.write(b"STARTTLS\r\n")
    assert (await reader.readline()).startswith(b"220")
    await writer.start_tls(trusting(certificate), server_hostname="localhost")
    writer.write(b"LHLO mx.example\r\n")
    assert (await reader.readline()).startswith(b"250")
    writer.close()


async def test_required_tls_refuses_plaintext_mail(
    encrypted: Start, ledger: Ledger, address: str, certificate: Path
) -> None:
    """Without STARTTLS no mail is accepted; commands sent before it do not count after it."""
    server = await encrypted(require_tls=True)
    plain = await connected(server, None, start_tls=False)
    with pytest.raises(aiosmtplib.SMTPException):
        await plain.sendmail("mara@example.com", [address], MAIL)
    plain.close()

    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    await reader.readline()
    smuggled = f"MAIL FROM:<mara@example.com>\r\nRCPT TO:<{address}>\r\n"
    writer.write(b"STARTTLS\r\n" + smuggled.encode())
    assert (await reader.readline()).startswith(b"220")
    await writer.start_tls(trusting(certificate), server_hostname="localhost")
    writer.write(b"EHLO mx.example\r\n")
    while (line := await reader.readline())[3:4] == b"-":
        pass
    assert line.startswith(b"250")
    writer.write(b"DATA\r\n")
    assert (await reader.readline()).startswith(b"503")
    writer.close()
    assert not (await ledger.backlog()).get("intake")


async def test_the_server_offers_no_starttls_without_a_certificate(server: MailServer) -> None:
    """The other settings get an error."""
    plain = await connected(server, None, start_tls=False)
    assert not plain.supports_extension("starttls")
    await plain.quit()


async def test_an_invalid_certificate_is_reported_at_startup(
    ledger: Ledger, tmp_path: Path
) -> None:
    """It is reported at the start, with the setting."""
    broken = tmp_path / "broken.pem"
    broken.write_text("nothing")
    for path in (broken, tmp_path / "missing.pem"):
        with pytest.raises(ConfigError, match=r"email\.inbound\.certificate"):
            await MailServer(settings(certificate=path), ledger).start()
    with pytest.raises(ValueError, match="need a certificate"):
        settings(require_tls=True)


async def test_a_certificate_that_was_renewed_is_used(
    encrypted: Start, address: str, certificate: Path, tmp_path: Path
) -> None:
    """The next connection uses it, unless it cannot be read."""
    path = tmp_path / "mx.pem"
    shutil.copy(certificate, path)
    server = await encrypted(certificate=path)
    await (await connected(server, trusting(certificate))).quit()

    renewed = tmp_path / "renewed.pem"
    write_certificate(renewed)
    path.write_bytes(renewed.read_bytes())
    await (await connected(server, trusting(renewed))).quit()
    path.write_text("half of it")
    await (await connected(server, trusting(renewed))).quit()
