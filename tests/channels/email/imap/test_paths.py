"""The same mail arriving more than once, by one path or by two, is processed once."""

from __future__ import annotations

import aiosmtplib
import pytest

from channels.conftest import MAILBOX, Channels
from channels.email.imap.conftest import Box, Log, Reading
from channels.writing import subject_of
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.settings import InboundSettings
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.policies.policy import EmailProof

REPLY = (
    "From: mara@example.com\r\nTo: {to}\r\nSubject: {subject}\r\n"
    "Message-ID: <1@phone.example>\r\nDate: Mon, 2 Mar 2026 10:00:00 +0000\r\n\r\napprove\r\n"
)


def reply_to(token: str) -> tuple[str, bytes]:
    """Return the address of a card and the reply to it."""
    to = MAILBOX.replace("@", f"+{token}@")
    return to, REPLY.format(to=to, subject=subject_of(token)).encode()


async def test_a_mail_delivered_twice_counts_once(
    channels: Channels, box: Box, reading: Reading, log: Log
) -> None:
    """The copies have different trace fields; the reply counts once and gets no error mail."""
    approval, token = await channels.ask(amount=1)
    _, raw = reply_to(token)
    await box.deliver(raw)
    await box.deliver(raw)
    async with reading():
        await log.read_up_to(2)
    await channels.intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    assert (await channels.whats(approval)).count(What.APPROVED) == 1
    assert What.REFUSED_ANSWER not in await channels.whats(approval)


async def test_a_mail_delivered_by_smtp_and_imap_counts_once(
    channels: Channels, box: Box, reading: Reading, log: Log
) -> None:
    """A mail server that forwards a mail and keeps a copy delivers one answer."""
    approval, token = await channels.ask(amount=1)
    to, raw = reply_to(token)
    settings = box.settings().model_copy(update={"inbound": InboundSettings(port=0)})
    server = MailServer(settings, channels.ledger)
    await server.start()
    client = aiosmtplib.SMTP(
        hostname="127.0.0.1", port=server.port, local_hostname="mx.example", start_tls=False
    )
    async with client:
        await client.sendmail("mara@example.com", [to], raw)
    await server.stop()
    await box.deliver(raw, sender="mara@example.com")
    async with reading():
        await log.read_up_to(1)
    await channels.intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
    assert (await channels.whats(approval)).count(What.APPROVED) == 1
    assert What.REFUSED_ANSWER not in await channels.whats(approval)


async def test_a_bounce_in_the_mailbox_is_known_by_its_return_path(
    channels: Channels, box: Box, reading: Reading, log: Log
) -> None:
    """The delivering server recorded an empty sender, so no person wrote the mail."""
    approval, token = await channels.ask(amount=1)
    _, raw = reply_to(token)
    await box.deliver(raw, sender="")
    async with reading():
        await log.read_up_to(1)
    await channels.intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert "Return-Path: <>" in str(log.all("mail.automatic"))


@pytest.mark.parametrize(
    "case",
    [
        ("mara@example.com", EmailProof.TOKEN_FROM),
        ("mara@example.com", EmailProof.TOKEN_FROM_DMARC),
        ("cleo@example.com", EmailProof.TOKEN_FROM_DMARC),
        ("eve@evil.example", EmailProof.TOKEN_FROM),
    ],
)
async def test_author_of_a_mail_that_is_too_large_is_told(
    channels: Channels, box: Box, reading: Reading, log: Log, case: tuple[str, EmailProof]
) -> None:
    """A photo at the end of a yes is no reason to let the person believe that it counted."""
    sender, required = case
    approval, token = await channels.ask(amount=1)
    _, raw = reply_to(token)
    await box.deliver(raw.replace(b"mara@example.com", sender.encode()) + b"x" * (1 << 20))
    async with reading():
        await log.read_up_to(1)
    await Intake(channels.decider, mailbox=MAILBOX, required=required).drain()
    channels.channel.delivered.clear()
    await channels.delivery.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.PENDING
    assert What.REFUSED_ANSWER in await channels.whats(approval)
    told = {one.person: one.headline for one in channels.channel.delivered}
    if sender == "mara@example.com":
        assert told == {"mara": "Not read: your mail about reimburse is too large"}
    else:
        assert "Somebody else" in told["mara"]
        assert "too large" not in str(told)
    # The answer without the photo counts.
    await store(channels.ledger, raw, sender="mara@example.com", recipients=())
    await channels.intake.drain()
    assert (await channels.ledger.approval(approval.id)).state is State.APPROVED
