"""Outgoing mail to real SMTP servers that may refuse it."""

import asyncio
import inspect
import os
import shutil
import ssl
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiosmtplib
import aiosmtplib.errors
import pytest
from pydantic import SecretStr
from structlog.testing import LogCapture

from channels.conftest import Sink, SinkFactory, write_certificate
from ports import free_port
from signoff.channels.email.outbound.smtp import FAULTS, Envelope, SmtpSender, translate
from signoff.channels.email.settings import SmtpSettings
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.core.base.errors import (
    ConfigError,
    MailDeferred,
    MailRefused,
    MailThrottled,
    MailUncertain,
)

DATA = b"From: a@signoff.example\r\nTo: mara@example.com\r\nSubject: x\r\n\r\nHello\r\n"


def mail(recipient: str = "mara@example.com", sender: str = "a@signoff.example") -> Envelope:
    """Return a small mail."""
    return Envelope(sender, recipient, DATA)


def sender(sink: Sink, **settings: Any) -> SmtpSender:
    """Return a sender for a sink."""
    return SmtpSender(sink.settings(**settings).smtp, hostname="signoff.example")


async def test_a_batch_uses_one_connection(start_sink: SinkFactory) -> None:
    """All mails of a batch go over one connection."""
    sink = await start_sink()
    assert await sender(sink).send([mail() for _ in range(20)]) == [None] * 20
    assert (len(sink.mails), sink.connections) == (20, 1)


async def test_a_dropped_connection_is_replaced(start_sink: SinkFactory) -> None:
    """If the server hangs up between two mails, the rest uses a new connection."""
    sink = await start_sink(drop_after=2)
    assert await sender(sink).send([mail() for _ in range(4)]) == [None] * 4
    assert (len(sink.mails), sink.connections) == (4, 2)


async def test_starttls_with_login(
    start_sink: SinkFactory, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    """The login uses a connection that is encrypted by STARTTLS."""
    sink = await start_sink(tls=server_tls, auth=True)
    smtp = sender(
        sink,
        host="localhost",
        security="starttls",
        ca_file=certificate,
        username="signoff",
        password=SecretStr("right"),
    )
    assert await smtp.send([mail()]) == [None]
    assert sink.logins == ["signoff"]


async def test_tls_from_the_start(
    start_sink: SinkFactory, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    """A server with implicit TLS is contacted with TLS."""
    sink = await start_sink(tls=server_tls, implicit=True)
    smtp = sender(sink, host="localhost", security="tls", ca_file=certificate)
    assert await smtp.send([mail()]) == [None]


@pytest.mark.parametrize(("security", "implicit"), [("starttls", False), ("tls", True)])
async def test_a_server_with_an_untrusted_certificate_gets_no_mail(
    start_sink: SinkFactory, server_tls: ssl.SSLContext, security: str, implicit: bool
) -> None:
    """A server without a trusted certificate gets no mail; the error names the settings."""
    sink = await start_sink(tls=server_tls, implicit=implicit)
    (error,) = await sender(sink, host="localhost", security=security).send([mail()])
    assert isinstance(error, MailDeferred)
    assert "certificate" in str(error)
    assert "[email.smtp] host" in str(error)
    assert sink.mails == []


async def test_the_certificates_of_a_private_authority_are_read_again(
    start_sink: SinkFactory, server_tls: ssl.SSLContext, certificate: Path, tmp_path: Path
) -> None:
    """They end after some years, and nobody restarts the processes when their file is replaced."""
    file = tmp_path / "authority.pem"
    write_certificate(file)
    os.utime(file, (0, 0))
    sink = await start_sink(tls=server_tls, implicit=True)
    smtp = sender(sink, host="localhost", security="tls", ca_file=file)
    (error,) = await smtp.send([mail()])
    assert isinstance(error, MailDeferred)
    file.write_text("half a file")
    (error,) = await smtp.send([mail()])
    assert isinstance(error, MailDeferred)
    shutil.copyfile(certificate, file)
    os.utime(file, (1, 1))
    assert await smtp.send([mail()]) == [None]


async def test_a_certificate_for_another_name(
    start_sink: SinkFactory,
    server_tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A certificate for another host does not count."""
    sink = await start_sink(tls=server_tls, implicit=True)
    smtp = sender(sink, host="ip6-localhost.localhost", security="tls", ca_file=certificate)

    async def here(
        host: str, port: int, **_: Any
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        return [(2, 1, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", here)
    (error,) = await smtp.send([mail()])
    assert isinstance(error, MailDeferred)
    assert "certificate" in str(error)


async def test_a_server_without_starttls_gets_no_mail(start_sink: SinkFactory) -> None:
    """Mail is never sent unencrypted because the server does not offer TLS."""
    sink = await start_sink()
    (error,) = await sender(sink, security="starttls").send([mail()])
    assert isinstance(error, MailDeferred)
    assert sink.mails == []


async def test_a_wrong_password_is_ours_to_mend(
    start_sink: SinkFactory, server_tls: ssl.SSLContext, certificate: Path
) -> None:
    """A refused login defers every mail, and no recipient becomes unreachable."""
    sink = await start_sink(tls=server_tls, auth=True)
    smtp = sender(
        sink,
        host="localhost",
        security="starttls",
        ca_file=certificate,
        username="signoff",
        password=SecretStr("wrong"),
    )
    errors = await smtp.send([mail(), mail()])
    assert all(isinstance(error, MailDeferred) for error in errors)
    assert "login" in str(errors[0])
    assert "wrong" not in str(errors[0])
    assert sink.connections == 1


async def test_an_unreachable_server_defers_the_batch(log_output: LogCapture) -> None:
    """A missing server defers the batch after one attempt; the error names the settings."""
    port = free_port()
    smtp = SmtpSender(SmtpSettings(port=port, timeout=60), hostname="signoff.example")
    errors = await smtp.send([mail() for _ in range(3)])
    assert all(isinstance(error, MailDeferred) for error in errors)
    assert f"127.0.0.1:{port}" in str(errors[0])
    (entry,) = [one for one in log_output.entries if one["event"] == "smtp.unusable"]
    assert entry["log_level"] == "error"
    assert "[email.smtp]" in entry["setting"]


async def test_a_silent_server_costs_one_timeout_per_batch() -> None:
    """A server that accepts and stays silent costs one timeout per batch."""
    connections: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    server = await asyncio.start_server(
        lambda reader, writer: connections.put_nowait(writer), "127.0.0.1", 0
    )
    port = server.sockets[0].getsockname()[1]
    smtp = SmtpSender(SmtpSettings(port=port, timeout=0.2), hostname="signoff.example")
    errors = await smtp.send([mail() for _ in range(3)])
    (await connections.get()).close()
    server.close()
    assert all(isinstance(error, MailDeferred) for error in errors)
    assert connections.empty()


@pytest.mark.parametrize(
    ("command", "answer", "expected"),
    [
        ("RCPT mara@example.com", "550 5.1.1 No such user", MailRefused),
        ("RCPT mara@example.com", "552 5.2.2 Mailbox full", MailRefused),
        ("RCPT mara@example.com", "450 4.2.1 Greylisted", MailDeferred),
        ("RCPT mara@example.com", "421 4.7.0 Too many", MailDeferred),
        ("DATA", "554 5.7.1 Spam", MailRefused),
        ("DATA", "451 4.3.0 Disk full", MailDeferred),
        ("MAIL", "451 4.3.0 Later", MailDeferred),
        ("MAIL", "550 5.7.1 Not your address", MailDeferred),
        ("MAIL", "552 5.2.2 The sender's mailbox is full", MailDeferred),
        ("DATA", "552 5.3.4 Too large", MailRefused),
    ],
)
async def test_reply_codes_distinguish_temporary_and_permanent_failures(
    start_sink: SinkFactory, command: str, answer: str, expected: type[Exception]
) -> None:
    """4yz is temporary and 5yz permanent; a refused sender is our error, not the person's."""
    sink = await start_sink(answers={command: answer})
    (error,) = await sender(sink).send([mail()])
    assert type(error) is expected
    assert answer[:3] in str(error)


async def test_a_mail_that_is_too_large_for_the_server_does_not_stop_the_others(
    start_sink: SinkFactory,
) -> None:
    """The server refuses it as soon as its size is announced; that is no error of the settings."""
    sink = await start_sink(largest=1000)
    large = replace(mail(), data=DATA + b"x" * 900 + b"\r\n" + b"y" * 900 + b"\r\n")
    errors = await sender(sink).send([mail(), large, mail()])
    assert [type(error) for error in errors] == [type(None), MailRefused, type(None)]
    assert "552" in str(errors[1])


async def test_mails_after_a_421_use_a_new_connection(start_sink: SinkFactory) -> None:
    """A server that closes the connection after one mail still gets the others."""
    sink = await start_sink(answers={"RCPT busy@example.com": "421 4.7.0 Closing"})
    errors = await sender(sink).send([mail("busy@example.com"), mail(), mail()])
    assert [type(error) for error in errors] == [MailDeferred, type(None), type(None)]


async def test_a_server_that_asks_for_less_is_left_alone(
    start_sink: SinkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mail that was throttled is not tried again at once, nor are those after it."""
    sink = await start_sink()
    senders: list[str] = []

    async def accept_one(
        server: Any, session: Any, envelope: Any, address: str, options: list[str]
    ) -> str:
        senders.append(address)
        envelope.mail_from = address
        return "250 OK" if len(senders) == 1 else "451 4.7.1 Slow down"

    monkeypatch.setattr(sink, "handle_MAIL", accept_one)
    errors = await sender(sink).send([mail(), mail(), mail()])
    assert [type(error) for error in errors] == [type(None), MailDeferred, MailThrottled]
    assert len(senders) == 2


async def test_a_mail_is_uncertain_only_if_the_server_had_it_and_did_not_reply(
    start_sink: SinkFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a reply, or without a connection, it is known that the mail was not accepted."""
    sink = await start_sink(answers={"DATA": "451 Later"})
    (refused,) = await sender(sink).send([mail()])

    async def keep_and_hang_up(server: Any, session: Any, envelope: Any) -> str:
        server.transport.abort()
        return "250 OK"

    monkeypatch.setattr(sink, "handle_DATA", keep_and_hang_up)
    (lost,) = await sender(sink).send([mail()])
    sink.port = 1
    (unreachable,) = await sender(sink).send([mail()])
    kinds = [MailDeferred, MailUncertain, MailDeferred]
    assert [type(one) for one in (refused, lost, unreachable)] == kinds


async def test_tokens_are_removed_from_server_errors() -> None:
    """A server that repeats the envelope does not get the token into a log."""
    token = new_token()
    address = f"approvals+{token}@signoff.example"
    for error in (
        aiosmtplib.SMTPSenderRefused(550, f"<{address}> is not yours", address),
        aiosmtplib.SMTPDataError(550, f"<{address.upper()}> is spam"),
    ):
        assert token not in str(translate(error).error).lower()


def _classes() -> list[type[Exception]]:
    return sorted(
        (
            one
            for _, one in inspect.getmembers(aiosmtplib.errors, inspect.isclass)
            if issubclass(one, Exception) and one.__module__ == "aiosmtplib.errors"
        ),
        key=lambda one: one.__name__,
    )


@pytest.mark.parametrize("kind", _classes())
def test_every_exception_of_the_library_is_translated(kind: type[Exception]) -> None:
    """Each class that aiosmtplib raises has a translation."""
    assert kind in FAULTS
    error: Exception
    if issubclass(kind, aiosmtplib.SMTPRecipientsRefused):
        error = kind([aiosmtplib.SMTPRecipientRefused(550, "no", "mara@example.com")])
    elif issubclass(kind, aiosmtplib.SMTPSenderRefused | aiosmtplib.SMTPRecipientRefused):
        error = kind(550, "no", "mara@example.com")
    elif issubclass(kind, aiosmtplib.SMTPResponseException):
        error = kind(550, "no")
    else:
        error = kind("no")
    fault = translate(error)
    assert isinstance(fault.error, MailDeferred | MailRefused)
    assert "no" in str(fault.error)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ConnectionResetError("reset"), MailUncertain),
        (TimeoutError(), MailUncertain),
        (ssl.SSLError("bad"), MailDeferred),
        (RuntimeError("a bug"), MailUncertain),
        (ValueError("prohibited"), MailRefused),
    ],
)
def test_network_and_library_errors_are_translated(
    error: Exception, expected: type[Exception]
) -> None:
    """Network and library errors have a translation too; unknown ones count as temporary."""
    assert type(translate(error).error) is expected


def test_a_file_of_certificates_that_is_not_there(tmp_path: Path) -> None:
    """The error names the setting of an unreadable file."""
    settings = SmtpSettings(host="mx.example.com", security="tls", ca_file=tmp_path / "none.pem")
    with pytest.raises(ConfigError, match=r"email\.smtp\.ca_file"):
        SmtpSender(settings, hostname="signoff.example")
