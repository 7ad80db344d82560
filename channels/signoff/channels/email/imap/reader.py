"""Reads a mailbox: stores every new message, and waits for the next one."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
from collections.abc import Sequence
from typing import Final

import structlog

from signoff.broker.ledger.lease import KeyLease, kept
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.connection import LoginRefused, MailboxMessage, MessageRefused
from signoff.channels.email.imap.cursor import Cursor, lease_key, move_cursor, read_cursor
from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.imap.session import ImapSession
from signoff.channels.email.imap.settings import ImapSettings
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.settings import EmailSettings
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import LeaseLost, LedgerError, MailboxError, MailboxRefused

log = structlog.get_logger(__name__)

_BATCH: Final = 50
_MOST_TRIES: Final = 10
"""After how many attempts, about ten minutes, a message is passed over if others can be fetched."""

_NEVER: Final = (0, "")
"""The attempts that failed for a message, and why: none."""

_SHORTEST, _LONGEST, _LONGEST_REFUSED = 1.0, 300.0, 900.0
_STEADY: Final = 60.0
"""A failure after this many seconds of connection counts as the first one again."""


def pause_after(failures: int, *, refused: bool, shortest: float = _SHORTEST) -> float:
    """Return the seconds until the next attempt, which roughly double with each failure.

    Args:
        failures: How many failures came before this one.
        refused: Whether the server refused, instead of being unavailable; the pause is then longer.
        shortest: Seconds after the first failure.
    """
    first, longest = (15 * shortest, _LONGEST_REFUSED) if refused else (shortest, _LONGEST)
    pause = min(first * 2.0 ** min(failures, 20), longest)
    return pause * random.uniform(0.7, 1.3)  # noqa: S311 -- not a secret


class MailboxReader:
    """Reads the answers from a mailbox in the running asyncio loop, as a listener of the gateway.

    One gateway reads a mailbox under a lease; the others stand by, and take over when it dies. A
    message is stored before the cursor advances, so a crash never loses one. The intake recognises
    a message that is read twice.

    Args:
        settings: The settings, with the mailbox in ``imap``.
        ledger: The ledger, which keeps the mail, the cursor and the lease.
        pause: Seconds until the attempt after a first failure; see `pause_after`.

    Raises:
        ConfigError: The file of certificates cannot be read.
    """

    name = "email.imap"
    remote = True

    def __init__(
        self, settings: EmailSettings, ledger: Ledger, *, pause: float = _SHORTEST
    ) -> None:
        if settings.imap is None:
            raise ValueError("There is no [email.imap].")
        self._imap = settings.imap
        self._largest = settings.inbound.max_bytes
        self._ledger = ledger
        self._shortest = pause
        self._tokens = tokens_for(self._imap, ledger)
        self._imap.tls_context()
        self._task: asyncio.Task[None] | None = None
        self._problem = "it was not started"
        self._failures = 0
        self._failed: dict[int, tuple[int, str]] = {}
        self._one_by_one = False
        self._fetched_others = False

    @property
    def problem(self) -> str:
        """The problem that prevents reading, "" if there is none, also for a standby reader."""
        if self._task is not None and self._task.done():
            return "it died"
        return self._problem

    async def start(self) -> None:
        """Start reading; a server that is down is tried again."""
        self._problem = ""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop reading; messages that are not stored yet are read the next time."""
        task, self._task, self._problem = self._task, None, "it was stopped"
        if task is not None:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    # -- one after the other -------------------------------------------------------------------

    async def _run(self) -> None:
        loop, mailbox = asyncio.get_running_loop(), self._imap.mailbox
        while True:
            began, wait = loop.time(), self._shortest
            try:
                await self._one_session()
            except LeaseLost as error:
                log.warning("imap.lease_lost", mailbox=mailbox, error=str(error))
                wait = self._imap.takeover / 3
            except (MailboxError, LedgerError) as error:
                self._failures = 0 if loop.time() - began > _STEADY else self._failures
                self._problem, wait = str(error), self._pause(error)
                level = log.error if isinstance(error, MailboxRefused) else log.warning
                level("imap.failed", mailbox=mailbox, error=str(error), retry_in=round(wait, 1))
            except Exception as error:
                # A bug of ours must not stop the reader permanently.
                self._problem, wait = f"{type(error).__name__}: {error}", self._pause(error)
                log.exception("imap.broken", mailbox=mailbox, retry_in=round(wait, 1))
            await asyncio.sleep(wait)

    def _pause(self, error: Exception) -> float:
        """Return the delay after an error, and count the failure."""
        refused = isinstance(error, MailboxRefused)
        pause = pause_after(self._failures, refused=refused, shortest=self._shortest)
        self._failures += 1
        return pause

    async def _one_session(self) -> None:
        """Take the lease, read until an error, and release the lease."""
        key, token = lease_key(self._imap.mailbox), secrets.token_hex(8)
        loop, lease = asyncio.get_running_loop(), self._imap.takeover
        asked_at, stands_by = loop.time(), False
        while not await self._ledger.take_lease(key, token, lease=lease):
            # The holder of the lease is alive and renews it.
            if not stands_by:
                log.info("imap.standby", mailbox=self._imap.mailbox)
            self._problem, self._failures, stands_by = "", 0, True
            await asyncio.sleep(lease / 3)
            asked_at = loop.time()
        async with kept(self._ledger, key, token, lease=lease, alive_at=asked_at) as hold:
            await self._read(hold)

    async def _read(self, hold: KeyLease) -> None:
        async with await log_in(self._imap, self._tokens, largest=self._largest) as session:
            mailbox, name = session.mailbox, self._imap.mailbox
            folder = await session.call(mailbox.select)
            idle = self._imap.idle if "IDLE" in await session.call(mailbox.capabilities) else 0
            cursor = await read_cursor(
                self._ledger, name, folder.uidvalidity, uidnext=folder.uidnext
            )
            by, keyword = ("idle" if idle else "polling"), folder.keywords
            log.info("imap.reading", mailbox=name, by=by, keyword=keyword, after=cursor.uid)
            self._problem = ""
            while True:
                uids = await session.call(mailbox.search, cursor.uid, cursor.since)
                cursor = await self._take_all(session, hold, cursor, uids, keyword=keyword)
                if mailbox.has_new_mail:
                    continue
                log.debug("imap.waiting", mailbox=name, after=cursor.uid)
                if not idle:
                    await asyncio.sleep(self._imap.poll)
                    continue
                try:
                    await session.call_for(idle, mailbox.wait, idle)
                except MailboxRefused as error:
                    # Some servers announce IDLE and refuse it; the connection still works.
                    log.warning("imap.polls", mailbox=name, error=str(error))
                    idle = 0

    async def _take_all(
        self,
        session: ImapSession,
        hold: KeyLease,
        cursor: Cursor,
        uids: Sequence[int],
        *,
        keyword: bool,
    ) -> Cursor:
        """Store messages, and advance the cursor behind them, in this order, to lose none.

        Messages that could not be fetched before are tried last, and hold up no other one.

        The UIDs are those of all messages behind the cursor, in ascending order. `keyword` says
        whether messages can be marked.
        """
        self._failed = {uid: self._failed[uid] for uid in uids if uid in self._failed}
        order = sorted(uids, key=lambda uid: self._failed.get(uid, _NEVER)[0])
        size = 1 if self._one_by_one else _BATCH
        for start in range(0, len(order), size):
            batch, left = order[start : start + size], order[start + size :]
            noted, seen = await self._take_in(session, cursor.uidvalidity, batch)
            reached = min(left, default=uids[-1] + 1) - 1
            cursor = await move_cursor(hold, self._imap.mailbox, cursor, reached, noted)
            if keyword and seen:
                await self._mark(session, seen)
        self._one_by_one = False
        return cursor

    async def _take_in(
        self, session: ImapSession, numbering: int, uids: Sequence[int]
    ) -> tuple[list[Event], list[int]]:
        """Store messages.

        Returns:
            Events about messages that are left in the mailbox; and the UIDs to mark.
        """
        tries, problem = self._failed.get(uids[0], _NEVER)
        if tries >= _MOST_TRIES and await self._can_fetch_others(session, uids[0]):
            return [await self._passed_over(numbering, uids[0], problem)], []
        noted: list[Event] = []
        seen: list[int] = []
        try:
            for message in await session.call(session.mailbox.metadata, uids):
                if message.stored:
                    continue
                if problem := await self._one(session, message):
                    noted.append(await self._passed_over(numbering, message.uid, problem))
                seen.append(message.uid)
        except MailboxError as error:
            # Of several messages, it may be any that the server cannot return.
            if self._one_by_one:
                self._failed[uids[0]] = tries + 1, str(error)
            # A server may return no message at all for hours, because of a limit.
            self._fetched_others = self._fetched_others and tries > 0
            self._one_by_one = True
            raise
        self._failed.pop(uids[0], None)
        return noted, seen

    async def _can_fetch_others(self, session: ImapSession, uid: int) -> bool:
        """Return whether the server returns other messages than one that it does not return.

        If no later one has come, the message before it is fetched, and discarded.
        """
        if not self._fetched_others and (
            before := await session.call(session.mailbox.last_before, uid)
        ):
            with contextlib.suppress(MessageRefused):
                self._fetched_others = bool(await session.call(session.mailbox.fetch, before))
        return self._fetched_others

    async def _mark(self, session: ImapSession, uids: Sequence[int]) -> None:
        """Mark messages as stored. The mark is only for people; the cursor has the position."""
        try:
            await session.call(session.mailbox.mark, uids)
        except MessageRefused as error:
            log.warning("imap.not_marked", uids=uids, error=str(error))

    async def _one(self, session: ImapSession, message: MailboxMessage) -> str:
        """Store a message; return the problem if it cannot be stored."""
        if message.size > self._largest:
            await self._store_head(session, message.uid)
            return f"it has {message.size} bytes, and no more than {self._largest} are read"
        raw = await session.call(session.mailbox.fetch, message.uid)
        if raw is None:
            return ""
        self._fetched_others = True
        if len(raw) > self._largest:
            await self._store_head(session, message.uid)
            return f"it has more than the {self._largest} bytes that are read"
        # A mailbox does not keep the envelope; the header has to replace it.
        new = await store(self._ledger, raw, sender=None, recipients=())
        log.info("mail.stored" if new else "mail.known", uid=message.uid, size=len(raw))
        return ""

    async def _store_head(self, session: ImapSession, uid: int) -> None:
        """Store the header of a message that is too large, so that its author is told."""
        head = await session.call(session.mailbox.fetch_head, uid)
        if head is not None:
            await store(self._ledger, head, sender=None, recipients=(), is_cut=True)

    async def _passed_over(self, numbering: int, uid: int, problem: str) -> Event:
        log.warning("imap.passed_over", uid=uid, problem=problem)
        return Event(
            what=What.IGNORED_MAIL,
            at=await self._ledger.now(),
            by="email",
            why=f"it was left in the mailbox: {problem}",
            more={"mailbox": self._imap.mailbox, "uidvalidity": numbering, "uid": uid},
        )


def tokens_for(imap: ImapSettings, ledger: Ledger) -> Tokens | None:
    """Return the source of tokens for a mailbox, None if it uses a password."""
    return Tokens(imap.oauth, ledger, timeout=imap.timeout) if imap.oauth else None


async def log_in(imap: ImapSettings, tokens: Tokens | None, *, largest: int) -> ImapSession:
    """Return a session after the login; a refused token is renewed once.

    Raises:
        MailboxUnavailable, MailboxRefused: The server or the token issuer is down or refuses.
        LedgerUnavailable: Redis cannot be reached.
        ConfigError: The file of certificates cannot be read.
    """
    if tokens is None:
        return await ImapSession.open(imap, largest=largest)
    try:
        return await ImapSession.open(imap, largest=largest, token=await tokens.get())
    except LoginRefused as error:
        log.warning("imap.token_refused", mailbox=imap.mailbox, error=str(error))
        tokens.forget()
    return await ImapSession.open(imap, largest=largest, token=await tokens.get())
