"""Checks for `signoff doctor` whether and how a mailbox can be read."""

from __future__ import annotations

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.connection import KEYWORD
from signoff.channels.email.imap.reader import log_in, tokens_for
from signoff.channels.email.imap.settings import ImapSettings


async def check(settings: ImapSettings, ledger: Ledger) -> str:
    """Log in and open the folder as the reader does, log out, and return the findings.

    It does not change any message.

    Raises:
        MailboxUnavailable, MailboxRefused: The mailbox cannot be read.
        ConfigError: The file of certificates cannot be read.
        LedgerUnavailable: Redis cannot be reached, which is needed for the token.
    """
    async with await log_in(settings, tokens_for(settings, ledger), largest=1) as session:
        folder = await session.call(session.mailbox.select)
        idle = "IDLE" in await session.call(session.mailbox.capabilities)
    login = "a token is issued and accepted" if settings.oauth else "the login works"
    if idle and settings.idle:
        news = "it reports new mail at once (IDLE)"
    elif idle:
        news = f"Signoff polls it every {settings.poll:g} seconds (idle = 0)"
    else:
        news = f"it has no IDLE, and Signoff polls it every {settings.poll:g} seconds"
    keyword = (
        f"stored messages get the keyword {KEYWORD}"
        if folder.keywords
        else "it cannot store keywords, so the mailbox does not show which messages are stored"
    )
    return f"{settings.where}: {login}, {settings.folder} exists, {news}, {keyword}"
