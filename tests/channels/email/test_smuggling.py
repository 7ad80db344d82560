"""SMTP smuggling: a mail that other servers pass on as one stays one mail."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from builders import present
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.stored import load
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.channels.pipeline.reply_tokens import Holder, issue_token

ENDS = [
    b"\n.\n",
    b"\n.\r\n",
    b"\r\n.\n",
    b"\r.\r",
    b"\r.\r\n",
    b"\r\n.\r",
    b"\n.\r",
    b"\r\n\x00.\r\n",
]
"""Endings that some servers accept and RFC 5321, section 4.1.1.4 does not."""


@pytest.fixture
async def server(ledger: Ledger) -> AsyncIterator[MailServer]:
    """Return a running mail server."""
    mailbox = EmailSettings(mailbox="approvals@signoff.example", inbound=InboundSettings(port=0))
    running = MailServer(mailbox, ledger)
    await running.start()
    yield running
    await running.stop()


@pytest.mark.parametrize("end", ENDS)
async def test_a_mail_inside_of_a_mail_is_text(
    server: MailServer, ledger: Ledger, end: bytes
) -> None:
    """The inner envelope's sender is never a mail's sender, and its commands are not run."""
    change = Change()
    token = issue_token(change, Holder("ap_1", "mara", "email"), within=timedelta(hours=1))
    await ledger.commit(change)
    to = f"approvals+{token}@signoff.example".encode()
    inner = b"MAIL FROM:<mara@example.com>\r\nRCPT TO:<%b>\r\nDATA\r\nFrom: mara@example.com" % to
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"EHLO evil.example\r\nMAIL FROM:<eve@evil.example>\r\nRCPT TO:<%b>\r\n" % to)
    writer.write(b"DATA\r\nFrom: eve@evil.example\r\n\r\nhello" + end + inner)
    writer.write(b"\r\n\r\napprove\r\n.\r\nQUIT\r\n")
    await reader.read()
    writer.close()
    await writer.wait_closed()
    senders = [
        present(await load(ledger, item.body["mail"])).sender
        for item in (await ledger.claim("intake")).items
    ]
    assert senders in ([], ["eve@evil.example"])
