"""The timed changes of an approval: reminders, escalations, ends of claims, and timeouts."""

from __future__ import annotations

from datetime import datetime

import structlog

from signoff.broker.directory.roster import Roster
from signoff.broker.effects import Cards, add_move
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.run import Run
from signoff.core.routing.escalation import advance, is_due

log = structlog.get_logger(__name__)


class DueChanges:
    """Makes the changes that are due.

    Args:
        roster: The people and the rotations.
        cards: Makes cards, in a process with channels. When a level starts because another one has
            ended, its cards are then in the same commit. None leaves them to the stage `route`.
    """

    def __init__(self, roster: Roster, cards: Cards | None = None) -> None:
        self._roster = roster
        self._cards = cards

    def change(
        self, approval: Approval, run: Run, now: datetime, *, unheard: str = ""
    ) -> Change | None:
        """Return the change that is due now, None if there is none or another process must make it.

        Args:
            approval: The approval. Refresh the roster before the first of several.
            run: The run of the approval.
            now: The present, by the ledger's clock.
            unheard: Why silence does not approve it, "" if it may.

        Raises:
            IllegalMove: Its run does not wait for it.
        """
        if not is_due(approval, now):
            return None
        rotations = self._roster.rotations
        after, events = advance(
            approval,
            self._roster.directory,
            now=now,
            rotations=rotations.known,
            unheard=unheard,
        )
        receipts = self._roster.ledger.receipts
        if after.state is State.APPROVED and receipts is not None and not receipts.signs:
            # The timeout approves it, which only a process with the private key can sign.
            return None
        after = self._roster.ledger.sealed(after, events)
        begins = after.level_key != approval.level_key
        try:
            return add_move(
                Change(), approval, after, events, run, rotations=rotations, cards=self._cards
            )
        except Exception as error:
            if self._cards is None or not begins:
                raise
            # A level starts in time even if its cards fail. The stage `route` retries them, and
            # reports a failure.
            log.exception("timers.no_cards", approval=approval.id, error=str(error))
            return add_move(Change(), approval, after, events, run, rotations=rotations)
