"""No way of a mail writes a token into the logs, so their readers cannot answer for others."""

import base64
import hmac
import json
import logging
from collections.abc import Iterable
from dataclasses import replace

import aiosmtplib
import httpx
import pytest
from structlog.testing import LogCapture

from channels.conftest import Channels
from channels.test_intake import MAILBOX, reply
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.inbound.opening import read_here
from signoff.channels.email.inbound.quarantine import list_quarantine
from signoff.channels.email.inbound.readers import SentTo
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.webhook import PATH, make_mail_router
from signoff.channels.email.parsing.reading import IncomingMail
from signoff.channels.email.settings import EmailSettings, InboundSettings, LimitSettings
from signoff.channels.email.settings import WebhookSettings as Webhook
from signoff.channels.gateway import make_gateway
from signoff.core.base.errors import UnreadableMail

SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()


async def by_smtp(
    channels: Channels, limits: LimitSettings, raws: Iterable[bytes], address: str
) -> list[int]:
    """Send mails by SMTP, more than are accepted."""
    inbound = InboundSettings(port=0)
    server = MailServer(
        EmailSettings(mailbox=MAILBOX, inbound=inbound, limits=limits), channels.ledger
    )
    await server.start()
    refused = []
    for raw in raws:
        try:
            await aiosmtplib.send(
                raw,
                sender=address,
                recipients=[address],
                hostname="127.0.0.1",
                port=server.port,
                start_tls=False,
            )
        except aiosmtplib.SMTPRecipientsRefused as error:
            refused.append(error.recipients[0].code)
    await server.stop()
    return refused


async def by_http(channels: Channels, raw: bytes, secret: str) -> int:
    """Post a mail, and return the response."""
    app = make_gateway(channels.ledger)
    app.include_router(make_mail_router(Webhook(secrets=(SECRET,)), channels.ledger))
    at = str(int((await channels.ledger.now()).timestamp()))
    key = base64.b64decode(secret.removeprefix("whsec_"))
    made = base64.b64encode(hmac.digest(key, f"m.{at}.".encode() + raw, "sha256")).decode()
    headers = {"webhook-id": "m", "webhook-timestamp": at, "webhook-signature": f"v1,{made}"}
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://gateway"
    ) as http:
        return (await http.post(PATH, content=raw, headers=headers)).status_code


async def test_mail_processing_logs_no_token(
    channels: Channels, log_output: LogCapture, caplog: pytest.LogCaptureFixture
) -> None:
    """Asked, answered, refused, limited and quarantined mails, by SMTP and by HTTP."""
    caplog.set_level(logging.DEBUG)
    _, token = await channels.ask()
    local, _, domain = MAILBOX.partition("@")
    address = f"{local}+{token}@{domain}"

    async def read(raw: bytes, sent_to: SentTo, /) -> IncomingMail:
        if b"unreadable" in raw:
            raise UnreadableMail(f"A field holds {address}.")
        if b"broken" in raw:
            raise KeyError(address)
        return await read_here(raw, sent_to)

    limits = LimitSettings(per_token=5)
    texts = ("banana", "unreadable", "broken", "approve", "too much", "refused", "refused")
    raws = [reply(token, text, Message_ID=f"<{n}@m.example>") for n, text in enumerate(texts)]
    raws[4] = reply(token, "approve", sender=f"x <{address}>")
    assert await by_smtp(channels, limits, raws, address) == [451, 451]
    assert await by_http(channels, reply(token, "hello"), SECRET) == 200
    assert await by_http(channels, reply(token, "hello"), SECRET[:-4] + "AAA=") == 401
    intake = Intake(
        channels.decider, mailbox=MAILBOX, read=read, limits=Limits(channels.ledger, limits)
    )
    await intake.drain()
    await channels.delivery.drain()

    (aside,) = await list_quarantine(channels.ledger, limit=10)
    logged = json.dumps(log_output.entries, default=str)
    for expected in ("answer.recorded", "mail.quarantined", "intake.failed", "mail.limited"):
        assert expected in logged
    assert token not in str(replace(aside, raw=b"", recipients=(), sender=""))
    # The log's own redaction handles foreign errors; it recognises addresses with tokens.
    from signoff.cli.log import Redactor

    clean = json.dumps([Redactor()(None, "", dict(one)) for one in log_output.entries], default=str)
    assert token not in clean
    ours = [one for one in log_output.entries if "exc_info" not in one]
    assert token not in json.dumps(ours, default=str)
    assert token not in caplog.text
