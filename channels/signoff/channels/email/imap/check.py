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
    login = "a token is issued and taken" if settings.oauth else "the login is taken"
    if idle and settings.idle:
        news = "it tells of new mail at once (IDLE)"
    elif idle:
        news = f"it is asked every {settings.poll:g} seconds (idle = 0)"
    else:
        news = f"it has no IDLE and is asked every {settings.poll:g} seconds"
    keyword = (
        f"what is stored gets the keyword {KEYWORD}"
        if folder.keywords
        else "it keeps no keywords, so what is stored is not to be seen in the mailbox"
    )
    return f"{settings.where}: {login}, {settings.folder} is there, {news}, {keyword}"
