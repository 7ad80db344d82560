"""Waits for decisions: one reader of the audit serves all waiting requests of a process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from typing import Final

import structlog

from signoff.broker.ledger import follow
from signoff.broker.ledger.store import Store
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerError

log = structlog.get_logger(__name__)

_ENDS: Final = frozenset(
    {What.APPROVED, What.REJECTED, What.TIMED_OUT, What.WITHDRAWN, What.SUPERSEDED}
)

Read = Callable[[], Awaitable[Approval]]
"""Reads an approval."""


class Waiting:
    """Lets requests wait for decisions.

    Attributes:
        reads: Set while the audit is read, because a request waits.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._follower: asyncio.Task[None] | None = None
        self.reads = asyncio.Event()
        self._closed = False

    async def decided(self, approval_id: str, read: Read, *, within: float) -> Approval:
        """Return an approval once it is decided, or undecided after `within` seconds.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        found = await read()
        if found.state is not State.PENDING or within <= 0 or self._closed:
            return found
        with suppress(TimeoutError):
            async with asyncio.timeout(within), self._watched(approval_id) as ended:
                # The reader sees all commits from here on.
                found = await read()
                if found.state is not State.PENDING:
                    return found
                await ended.wait()
        return await read()

    def close(self) -> None:
        """End all waiting, because the process stops."""
        self._closed = True
        self._wake(self._waiting)

    @asynccontextmanager
    async def _watched(self, approval_id: str) -> AsyncIterator[asyncio.Event]:
        """Yield an event that is set when an approval is decided, once the audit is read."""
        ended = asyncio.Event()
        self._waiting[approval_id].add(ended)
        if self._follower is None:
            self._follower = asyncio.create_task(self._follow())
        try:
            await self.reads.wait()
            yield ended
        finally:
            self._waiting[approval_id].discard(ended)
            if not self._waiting[approval_id]:
                del self._waiting[approval_id]
            if not self._waiting and self._follower is not None:
                self._follower.cancel()
                self._follower = None
                self.reads.clear()

    async def _follow(self) -> None:
        while True:
            try:
                start = await follow.latest(self._store)
                self.reads.set()
                async for batch in follow.batches(self._store, start=start):
                    self._wake(event.approval for _, event in batch if event.what in _ENDS)
            except LedgerError as error:
                log.warning("aap.ledger_unavailable", error=str(error))
                # The waiting requests read their approvals again.
                self._wake(self._waiting)
                await asyncio.sleep(1)

    def _wake(self, approvals: Iterable[str]) -> None:
        for name in approvals:
            for one in self._waiting.get(name, ()):
                one.set()
