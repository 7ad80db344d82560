"""Outgoing mail with a token instead of a password (XOAUTH2)."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiosmtpd.smtp import SMTP, AuthResult, Session
from pydantic import ValidationError
from structlog.testing import LogCapture

from issuer import Issuer, issuer
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.outbound.smtp import Envelope, SmtpSender
from signoff.channels.email.settings import SmtpSettings
from signoff.core.base.errors import MailDeferred

MAIL = Envelope("a@signoff.example", "mara@example.com", b"Subject: x\r\n\r\ny\r\n")


class Server:
    """A real SMTP server that accepts one token."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.logins: list[str] = []
        self.mails = 0

    async def auth_XOAUTH2(self, server: SMTP, args: list[str]) -> AuthResult:  # noqa: N802 -- aiosmtpd's name
        """Accept ``user=…^Aauth=Bearer …^A^A``."""
        said = base64.b64decode(args[1]).decode()
        self.logins.append(said.split("\x01")[0])
        return AuthResult(success=f"auth=Bearer {self.token}" in said, handled=False)

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802 -- aiosmtpd's name
        """Accept the mail."""
        self.mails += 1
        return "250 OK"


@asynccontextmanager
async def serving(handler: Server) -> AsyncIterator[int]:
    """Serve on a free port."""
    loop, sessions = asyncio.get_running_loop(), list[SMTP]()

    def session() -> SMTP:
        made = SMTP(handler, hostname="mx.example", auth_require_tls=False, loop=loop)
        sessions.append(made)
        return made

    server = await loop.create_server(session, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for made in sessions:
            if made.transport is not None:
                made.transport.close()
        await asyncio.sleep(0)


def settings(made: Issuer, port: int) -> SmtpSettings:
    """Return the settings for an issuer and a server."""
    oauth = {"token_url": made.url, "client_id": "c", "client_secret": "shh"}
    return SmtpSettings(port=port, username="approvals@signoff.example", oauth=oauth)


async def send(made: Issuer, port: int, ledger: Ledger) -> Exception | None:
    """Send one mail, and return the error."""
    smtp = settings(made, port)
    tokens = Tokens.of(smtp.oauth, ledger, timeout=60)
    (error,) = await SmtpSender(smtp, hostname="signoff.example", tokens=tokens).send([MAIL])
    return error


async def test_a_token_logs_in(ledger: Ledger) -> None:
    """The server gets the issuer's token and the name of the account."""
    handler = Server("good")
    with issuer("approvals") as made:
        made.answer = lambda _: (200, {"access_token": "good", "expires_in": 3600})
        async with serving(handler) as port:
            assert await send(made, port, ledger) is None
    assert handler.mails == 1
    assert handler.logins == ["user=approvals@signoff.example"]


async def test_a_refused_token_defers_the_mail(ledger: Ledger) -> None:
    """The mail waits, the error names the settings, and the token is not in it."""
    handler = Server("good")
    with issuer("approvals") as made:
        made.answer = lambda _: (200, {"access_token": "stale", "expires_in": 3600})
        async with serving(handler) as port:
            error = await send(made, port, ledger)
    assert isinstance(error, MailDeferred)
    assert "login" in str(error)
    assert "stale" not in str(error)


async def test_an_issuer_that_refuses_is_an_alarm_of_the_settings(
    ledger: Ledger, log_output: LogCapture
) -> None:
    """Without a token no connection is useful; the log names the table of the settings."""
    with issuer("approvals") as made:
        made.answer = lambda _: (400, {"error": "invalid_client"})
        async with serving(Server("good")) as port:
            error = await send(made, port, ledger)
    assert isinstance(error, MailDeferred)
    assert "[email.smtp.oauth]" in str(error)
    (entry,) = [one for one in log_output.entries if one["event"] == "smtp.unusable"]
    assert entry["setting"] == "[email.smtp.oauth]"


def test_a_password_and_a_token_cannot_both_be_set() -> None:
    """Only one kind of login can be set."""
    oauth = {"token_url": "https://i.example/t", "client_id": "c", "client_secret": "s"}
    with pytest.raises(ValidationError, match="not both"):
        SmtpSettings(username="a", password="b", oauth=oauth)
    with pytest.raises(ValidationError, match="needs a username"):
        SmtpSettings(oauth=oauth)
