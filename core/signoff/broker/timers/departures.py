"""Finds people who went away, or left the directory, after they were asked."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.change import Change
from signoff.broker.work import AskOthers
from signoff.core.approvals.approval import Approval
from signoff.core.directory.people import Directory
from signoff.core.routing.departures import stand_in

log = structlog.get_logger(__name__)

AGAIN: Final = timedelta(minutes=5)
"""How often all absent people are checked, even if nothing seems to have changed."""

_KEY: Final = "directory"
_INBOX: Final = "inbox:"
_BATCH: Final = 100


class Departures:
    """Sends approvals that wait for absent people to the stage `route`, which asks others.

    Any number of processes may do this. While the settings change, they know different people; only
    the processes with the latest settings decide who has left.
    """

    def __init__(self, roster: Roster) -> None:
        self._roster = roster
        self._ledger = roster.ledger
        self._ids = ""
        self._generation: int | None = None
        self._known: dict[str, str] = {}
        self._all_at: datetime | None = None

    async def _start(self) -> None:
        """Record which people this process knows; all others have left."""

        async def attempt() -> None:
            record = await self._ledger.raw(_KEY)
            if record is not None and json.loads(record[1]).get("people") == self._ids:
                return
            data = json.dumps({"people": self._ids})
            was = record[0] if record is not None else 0
            await self._ledger.commit(Change().put_raw(_KEY, data, was=was))

        await self._ledger.decide_again(attempt)

    async def once(self) -> int:
        """Find who has left or come back since the last call; return how many approvals it sent.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        # Concurrently, so that both are read in one round trip.
        _, now = await asyncio.gather(self._roster.refresh(), self._ledger.now())
        generation = self._roster.people.generation
        if generation != self._generation:
            # At the start, and after each reload of the settings.
            self._ids, self._all_at = _digest(self._roster.directory), None
            await self._start()
            self._generation = generation
        directory = self._roster.directory
        away = {one.id: _absence(directory, one.id, now) for one in directory}
        away = {one: text for one, text in away.items() if text}
        # The time since then is negative if the ledger's clock was set back.
        whole = self._all_at is None or not timedelta() <= now - self._all_at < AGAIN
        changed = {one for one in {*away, *self._known} if away.get(one) != self._known.get(one)}
        people = {*away, *changed, *await self._left(directory)} if whole else changed
        count = await self._send(sorted(people), now)
        self._known = away
        self._all_at = now if whole else self._all_at
        return count

    async def _left(self, directory: Directory) -> list[str]:
        """Return the ids of awaited approvers who are not in the directory."""
        record = await self._ledger.raw(_KEY)
        if record is not None and json.loads(record[1]).get("people") != self._ids:
            return []
        keys = await self._ledger.store.keys(_INBOX)
        ids = (key.removeprefix(_INBOX) for key in keys)
        return [one for one in ids if directory.get(one) is None]

    async def _send(self, people: Iterable[str], now: datetime) -> int:
        """Send approvals that wait for these people to `route`, and return how many."""
        ids: dict[str, None] = {}
        for one in people:
            ids.update(dict.fromkeys(await self._ledger.store.members(_INBOX + one)))
        found, count = list(ids), 0
        for start in range(0, len(found), _BATCH):
            approvals = await self._ledger.readable(found[start : start + _BATCH])
            work = [one for one in approvals if self._concerns(one, now)]
            change = Change()
            for each in work:
                change.send(AskOthers(approval=each.id, level_key=each.level_key))
            if work:
                await self._ledger.commit(change)
                log.info("departures.noticed", approvals=[each.id for each in work])
            count += len(work)
        return count

    def _concerns(self, approval: Approval, now: datetime) -> bool:
        """Say whether an approver of an approval has gone or come back."""
        roster = self._roster
        after, _ = stand_in(approval, roster.directory, now=now, rotations=roster.rotations.known)
        return after is not approval


def _absence(directory: Directory, person_id: str, now: datetime) -> str:
    """Return a text that identifies a person's absence at a moment, "" if they are present."""
    person = directory.get(person_id)
    absence = person.absence(now) if person is not None else None
    return "" if absence is None else absence.model_dump_json()


def _digest(directory: Directory) -> str:
    ids = "\0".join(sorted(one.id for one in directory))
    return hashlib.sha256(ids.encode()).hexdigest()[:16]
