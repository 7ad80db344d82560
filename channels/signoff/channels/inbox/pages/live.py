"""Notifies open pages of changes, by server-sent events.

An event has only the id of an approval that the page's person may see; the page then fetches a part
of itself again. One reader in each process follows the audit for all open pages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.follow import Entry, batches, latest, since
from signoff.channels.inbox.auth.context import AuthContext, Route, SignInFirst, Visit
from signoff.channels.inbox.pages.views import may_see
from signoff.core.base.errors import LedgerError
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

ANYTHING: Final = "*"
"""Sent instead of ids if too many approvals have changed."""

HEARTBEAT: Final = 15.0
"""Seconds between two events; without a change, a page gets an empty one."""

MOST: Final = 1_000
"""The most open pages of one process."""

MOST_EACH: Final = 8
"""The most open pages of one person."""

_KEPT: Final = 50
_CAUGHT_UP: Final = 200
_PAUSE: Final = 0.25
_PATIENCE: Final = 2.0
_STREAM_ID: Final = re.compile(r"[0-9]{1,16}-[0-9]{1,16}")
_HEADERS: Final = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class OpenPage:
    """One open page, about an approval, or ("") about all approvals that the person may see."""

    def __init__(self, person: Person, about: str) -> None:
        self.person = person
        self.wake = asyncio.Event()
        self.closed = False
        self._about = about
        self._changed: dict[str, str] = {}

    def record(self, approval: str, entry: str) -> None:
        """Record that an approval has changed at an entry of the audit."""
        if self._about and approval not in {self._about, ANYTHING}:
            return
        if len(self._changed) == _KEPT and approval not in self._changed:
            self._changed.clear()
            approval = ANYTHING
        self._changed.pop(approval, None)  # keeps the order of the entries
        self._changed[approval] = entry
        self.wake.set()

    def close(self) -> None:
        """End the stream of the page."""
        self.closed = True
        self.wake.set()

    def take(self) -> Mapping[str, str]:
        """Return and forget the changed approvals, each with its entry of the audit."""
        self.wake.clear()
        found, self._changed = self._changed, {}
        return found


class Hub:
    """Follows the audit while there are listeners; after a failure it waits `patience` seconds."""

    def __init__(self, decisions: Decisions, *, patience: float = _PATIENCE) -> None:
        self._decisions = decisions
        self._patience = patience
        self._listeners: set[OpenPage] = set()
        self._reader: asyncio.Task[None] | None = None
        self._begun = asyncio.Event()
        self._closed = False

    def has_room(self, person: Person) -> bool:
        """Return whether a person can have one more open page."""
        theirs = sum(one.person.id == person.id for one in self._listeners)
        return theirs < MOST_EACH and len(self._listeners) < MOST

    def attach(self, listener: OpenPage) -> bool:
        """Add a listener; return whether there is room for it."""
        if not self.has_room(listener.person):
            return False
        self._listeners.add(listener)
        if self._closed:
            listener.close()
        if self._reader is None:
            self._reader = asyncio.create_task(self._read())
        return True

    def detach(self, listener: OpenPage) -> None:
        """Remove a listener."""
        self._listeners.discard(listener)
        if not self._listeners and self._reader is not None:
            self._reader.cancel()
            self._reader = None
            self._begun.clear()

    def close(self) -> None:
        """End all present and later streams, because the process stops."""
        self._closed = True
        for one in self._listeners:
            one.close()

    async def catch_up(self, listener: OpenPage, start: str) -> None:
        """Notify a listener of the changes after an entry of the audit.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        # The reader must have started first, so that no change falls in between.
        await self._begun.wait()
        missed = await since(self._decisions.ledger.store, start, limit=_CAUGHT_UP)
        if len(missed) == _CAUGHT_UP:
            listener.record(ANYTHING, missed[-1][0])
        else:
            await self._notify(missed, [listener])

    async def _read(self) -> None:
        start, reached = "", ""
        while True:
            try:
                start = start or await latest(self._decisions.ledger.store)
                self._begun.set()
                async for batch in batches(self._decisions.ledger.store, start=start):
                    if batch:
                        reached = batch[-1][0]
                        await self._notify(batch, self._listeners)
                        # Only now: while the ledger is away, nobody is notified.
                        start = reached
                        # Changes in quick succession are read together, and notified once.
                        await asyncio.sleep(_PAUSE)
            except LedgerError as error:
                log.warning("live.ledger_unavailable", error=str(error))
                await asyncio.sleep(self._patience)
            except Exception:
                log.exception("live.reader_failed")
                start = reached or start
                await asyncio.sleep(self._patience)

    async def _notify(self, entries: Sequence[Entry], listeners: Iterable[OpenPage]) -> None:
        latest = {event.approval: entry for entry, event in entries if event.approval}
        found = await self._decisions.ledger.readable(list(latest))
        directory = self._decisions.directory
        for one in tuple(listeners):
            # A reload may have changed the person's roles, or removed the person.
            person = directory.get(one.person.id)
            for approval in found:
                if person is not None and may_see(approval, person, directory):
                    one.record(approval.id, latest[approval.id])


class LivePages:
    """The event stream of open pages.

    Args:
        decisions: The ledger and the people.
        auth: Identifies visitors.
        heartbeat: Seconds after which a page without a change gets an empty event.
    """

    def __init__(self, decisions: Decisions, auth: AuthContext, *, heartbeat: float) -> None:
        self._auth = auth
        self._heartbeat = heartbeat
        self._hub = Hub(decisions)

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (("GET", "/live", self.live),)

    async def live(self, request: Request) -> Response:
        """Send a page the changes since it was rendered, until its session ends."""
        try:
            visit = await self._auth.of(request, used=False)
        except SignInFirst:
            # Not a redirect to the sign-in: the browser would reconnect again and again.
            return PlainTextResponse("Nobody is signed in.\n", 401, headers=_HEADERS)
        query = request.query_params
        start = request.headers.get("last-event-id", "") or query.get("since", "")
        listener = OpenPage(visit.person, query.get("about", ""))
        if not self._hub.has_room(visit.person):
            text = "Too many pages are open. Reload this one to see changes.\n"
            return PlainTextResponse(text, 429, headers=_HEADERS)
        request.app.state.closing.add(self._hub.close)
        return StreamingResponse(
            self._events(visit, listener, start), media_type="text/event-stream", headers=_HEADERS
        )

    async def _events(self, visit: Visit, listener: OpenPage, start: str) -> AsyncIterator[str]:
        # Not before the stream begins: a stream that never begins does not detach.
        if not self._hub.attach(listener):
            return
        try:
            yield "retry: 3000\n\n"
            if _STREAM_ID.fullmatch(start):
                async with asyncio.timeout(self._heartbeat):
                    await self._hub.catch_up(listener, start)
            while True:
                if listener.closed or not await self._auth.is_open(visit):
                    # The browser reconnects, perhaps with a new session.
                    return
                told = [
                    f"id: {entry}\nevent: changed\ndata: {approval}\n\n"
                    for approval, entry in listener.take().items()
                ]
                yield "".join(told) or ": here\n\n"
                try:
                    async with asyncio.timeout(self._heartbeat):
                        await listener.wake.wait()
                except TimeoutError:
                    continue
        except (LedgerError, TimeoutError) as error:
            # The browser reconnects automatically, and sends the id of its last event.
            log.warning("live.ledger_unavailable", error=str(error))
        finally:
            self._hub.detach(listener)
