"""Asks people by mail whose card is in a channel that is not set up any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.heartbeat import states
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.ticks import tick
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Channel, Message, Refused, Result
from signoff.channels.pipeline.results import refuse
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.base.errors import LedgerError
from signoff.core.routing.targets import Reach

log = structlog.get_logger(__name__)

CYCLE: Final = 60.0
_BATCH: Final = 100
_STAGE: Final = stages.deliver("")


class _Removed:
    """A channel that is not set up any more: it refuses everything, so people are asked by mail."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def reason(self) -> str:
        return f"the channel {self.name} is not set up any more"

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Refuse all messages."""
        return [Refused(self.reason) for _ in messages]


class RemovedChannels:
    """Looks for channels with cards or messages that no living process has, and refuses them.

    A channel counts as removed when two checks in a row find it in no channels process, because
    while processes are restarted with new settings, only some of them may have it.
    """

    def __init__(self, ledger: Ledger, delivery: Callable[[Channel], Delivery]) -> None:
        self._ledger = ledger
        self._delivery = delivery
        self._missing: frozenset[str] = frozenset()
        self._asked: frozenset[str] = frozenset()

    async def run_forever(self) -> None:
        """Check every minute until cancelled; retry if the ledger is unavailable."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("removed_channels.ledger_unavailable", error=str(error))
            await tick(CYCLE)

    async def once(self) -> None:
        """Check once.

        Raises:
            LedgerError: Redis cannot be reached.
        """
        work = await self._ledger.backlog()
        used = {one.removeprefix(_STAGE) for one in work if one.startswith(_STAGE)}
        missing, before = frozenset(used - await self._served(used)), self._missing
        self._missing, self._asked = missing, self._asked & missing
        for name in sorted(missing & before):
            removed = _Removed(name)
            if work[stages.deliver(name)]:
                await self._delivery(removed).drain()
            if name not in self._asked:
                await self._ask_by_mail(removed)
                self._asked |= {name}

    async def _served(self, used: set[str]) -> set[str]:
        """Return the channels that some living process may have, of these."""
        found: set[str] = set()
        processes = await states(self._ledger)
        channels = [one for name, one in processes.items() if name.startswith("channels ")]
        for one in channels:
            try:
                found.update(Reach.read(one["reach"]).channels)
            except (KeyError, ValueError):
                return used  # another release, which does not say what it has
        return found if channels else used

    async def _ask_by_mail(self, removed: _Removed) -> None:
        """Mark the open cards in a channel as refused."""
        ids = await self._ledger.store.members("waiting")
        for start in range(0, len(ids), _BATCH):
            for approval in await self._ledger.readable(ids[start : start + _BATCH]):
                for asked in _open_cards(approval, removed.name):
                    attempt = partial(self._refuse, approval.id, asked.key, removed)
                    await self._ledger.decide_again(attempt)

    async def _refuse(self, approval_id: str, person: str, removed: _Removed) -> None:
        approval, now = await self._ledger.approval(approval_id), await self._ledger.now()
        if not any(one.key == person for one in _open_cards(approval, removed.name)):
            return
        log.warning(
            "delivery.refused",
            approval=approval_id,
            channel=removed.name,
            person=person,
            reason=removed.reason,
        )
        change, name = Change(), removed.name
        refuse(change, approval, person, channel=name, reason=removed.reason, now=now)
        await self._ledger.commit(change)


def _open_cards(approval: Approval, channel: str) -> list[Asked]:
    """Return the cards of an approval in a channel, by which its level could be answered."""
    if approval.state is not State.PENDING:
        return []
    here = approval.level_key
    return [
        one
        for one in approval.asked
        if one.channel == channel and one.level_key == here and not one.problem
    ]
