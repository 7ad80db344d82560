"""Finds a person's direct conversation: Slack is asked once, for all processes."""

from __future__ import annotations

import asyncio
import hashlib
from collections import defaultdict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.web import SlackWeb
from signoff.core.base.errors import Conflict

log = structlog.get_logger(__name__)

_KEPT: Final = timedelta(days=30)
_KEPT_BY_ADDRESS: Final = timedelta(days=1)
"""Entries expire, because an address can pass to another person."""

Ready = Callable[[str], Awaitable[None]]
"""Raises `SlackDeferred` if a method may not be called now; it does not wait."""


class Conversations:
    """Finds the direct conversation with a user.

    Args:
        web: The Web API.
        ledger: Keeps the results for all processes.
        app: The name of the app; each app has its own conversations.
    """

    def __init__(self, web: SlackWeb, ledger: Ledger, *, app: str) -> None:
        self._web = web
        self._ledger = ledger
        self._app = app
        self._from_ledger: set[str] = set()
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def of(self, place: str, ready: Ready) -> str:
        """Return the id of the conversation with a user.

        The place is the user's id, with or without the team's id, or an email address. `ready` is
        called before each method.

        Raises:
            SlackError: Slack cannot answer, or may not be called now.
            LedgerError: Redis cannot be reached.
        """
        # A burst of cards for one person causes one look-up.
        async with self._asking[place]:
            return await self._known(place) or await self._look_up(place, ready)

    async def forget(self, place: str) -> bool:
        """Forget a conversation that Slack no longer knows.

        Returns:
            Whether it came from an earlier look-up, so that a new look-up is worthwhile.

        Raises:
            LedgerError: Redis cannot be reached.
        """
        if place not in self._from_ledger:
            return False
        self._from_ledger.discard(place)
        if (record := await self._ledger.raw(self._key(place))) is not None:
            await self._ledger.commit(Change().put_raw(self._key(place), "", was=record[0]))
        return True

    async def _known(self, place: str) -> str:
        """Return the result of an earlier look-up, "" if there is none or it has expired."""
        record = await self._ledger.raw(self._key(place))
        if record is None:
            self._from_ledger.discard(place)
            return ""
        self._from_ledger.add(place)
        return record[1]

    async def _look_up(self, place: str, ready: Ready) -> str:
        user = place.rpartition("/")[2]
        if "@" in place:
            await ready("users.lookupByEmail")
            user = await self._web.user_of(place)
        await ready("conversations.open")
        found = await self._web.direct(user)
        kept = _KEPT_BY_ADDRESS if "@" in place else _KEPT
        try:
            await self._ledger.commit(Change().put_raw(self._key(place), found, ttl=kept))
        except Conflict:
            log.debug("slack.conversation_known", place=place)  # another process was faster
        return found

    def _key(self, place: str) -> str:
        digest = hashlib.sha256(f"{self._app}\0{place}".encode("utf-8", "replace")).hexdigest()
        return f"slack:conversation:{digest[:32]}"
