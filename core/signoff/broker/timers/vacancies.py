"""Reports seats without a person, once for each seat over all processes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.change import Change
from signoff.broker.timers.ticks import tick
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import LedgerError
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.vacancies import Vacancy, vacancies

log = structlog.get_logger(__name__)

CYCLE: Final = 60.0
_KEY: Final = "vacancies"


class Vacancies:
    """Looks for seats without a person, and reports each new one.

    Args:
        roster: The people.
        policies: The policies whose approvers are checked.
        fallback: The default, whose approvers are checked too.
    """

    def __init__(self, roster: Roster, policies: Sequence[Policy], fallback: Fallback) -> None:
        self._roster = roster
        self._ledger = roster.ledger
        self.use(policies, fallback)

    def use(self, policies: Sequence[Policy], fallback: Fallback) -> None:
        """Check these policies and this default from now on."""
        self._policies = tuple(policies)
        self._fallback = fallback

    async def run_forever(self) -> None:
        """Check every minute until cancelled; retry if the ledger is unavailable."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("vacancies.ledger_unavailable", error=str(error))
            await tick(CYCLE)

    async def once(self) -> list[Vacancy]:
        """Check once, and return the seats that were reported.

        Raises:
            LedgerError: Redis cannot be reached.
        """
        await self._roster.refresh()
        reported = await self._ledger.decide_again(self._report)
        for one in reported:
            log.error("seat.vacant", seat=one.seat, why=one.why)
        return reported

    async def _report(self) -> list[Vacancy]:
        """Record the vacant seats, and return the new ones."""
        now, record = await self._ledger.now(), await self._ledger.raw(_KEY)
        known: list[str] = json.loads(record[1]) if record is not None else []
        found = vacancies(self._policies, self._fallback, self._roster.directory, now=now)
        seats = [one.seat for one in found]
        if seats == known:
            return []
        fresh = [one for one in found if one.seat not in known]
        events = [
            Event(what=What.VACANT, at=now, by="router", why=one.why, more={"seat": one.seat})
            for one in fresh
        ]
        was = record[0] if record is not None else 0
        await self._ledger.commit(Change().put_raw(_KEY, json.dumps(seats), was=was).note(events))
        return fresh
