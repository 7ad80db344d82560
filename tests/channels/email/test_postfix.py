"""Postfix before the gateway, set up as documented, with swaks as the mail program."""

from __future__ import annotations

import asyncio
import secrets

from builders import present
from channels.conftest import Channels
from channels.writing import subject_of
from postfix import needs_root, postfix, swaks
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.core.approvals.approval import State

MAILBOX = "approvals@signoff.example"
SETTINGS = """\
transport_maps = inline:{{ {{ approvals@signoff.example = lmtp:inet:127.0.0.1:{lmtp} }} }}
local_recipient_maps = $alias_maps, inline:{{ approvals=signoff }}
"""


@needs_root
async def test_a_reply_through_postfix_decides(channels: Channels) -> None:
    """A reply by SMTP reaches the gateway by LMTP and decides; an unknown token is refused."""
    approval, token = await channels.ask()
    inbound = InboundSettings(protocol="lmtp", port=0)
    server = MailServer(EmailSettings(mailbox=MAILBOX, inbound=inbound), channels.ledger)
    await server.start()
    try:
        async with postfix(SETTINGS.format(lmtp=server.port)) as port:
            mail = ("--from", "mara@example.com", "--header", f"Subject: {subject_of(token)}")
            body = (
                "--body",
                "approve\nnote: fine by me",
                "--h-Message-Id",
                f"<{secrets.token_hex(4)}@x>",
            )
            sent = await swaks(port, "--to", f"approvals+{token}@signoff.example", *mail, *body)
            assert sent.returncode == 0, sent.stdout
            # Postfix acknowledges a mail before it passes it on.
            async with asyncio.timeout(300):
                while not await channels.intake.drain():  # noqa: ASYNC110 -- no signal announces it
                    await asyncio.sleep(0.05)
            other = await swaks(port, "--to", "somebody@signoff.example", *mail)
            assert "550" in other.stdout
    finally:
        await server.stop()
    after = await channels.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert present(after.decision).reason == "fine by me"
