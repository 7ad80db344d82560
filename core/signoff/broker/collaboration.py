"""The moves that decide nothing, as commits: whatever they came by, and whoever is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from pydantic import JsonValue

from signoff.broker.decisions import Desk, Noted, Step
from signoff.broker.ledger.change import Change
from signoff.broker.work import TellMove
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Who
from signoff.core.approvals.events import Event
from signoff.core.approvals.parts import Assurance
from signoff.core.directory.people import Directory, Person


@dataclass(frozen=True, slots=True)
class Along:
    """What goes along with a move, in the same commit.

    Attributes:
        also: What must happen too, such as acknowledging what came in.
        noted: Adds what whoever made the move is told. Whoever hands this in tells them of a
            refusal as well, and puts that into the audit; otherwise it is done here.
        more: What the audit shall know besides, such as what has proven who it is.
        assurance: How well it is known who makes the move.
    """

    also: Change | None = None
    noted: Noted | None = None
    more: Mapping[str, JsonValue] = field(default_factory=dict)
    assurance: Assurance = Assurance.ACCOUNT


NOTHING: Final = Along()


class Handling:
    """Makes the moves of `signoff.core.approvals.collaboration.Handled`.

    Whoever else has to hear of a move does by the stage `route`: what a move means for the cards,
    and for whom, is known to the channels.

    Each method raises what its move raises, and `LeaseLost` where what is to be acknowledged along
    with it is held by somebody else.

    Args:
        desk: The ledger and the people.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    @property
    def _directory(self) -> Directory:
        # The desk reads it anew, with the absences that were set meanwhile.
        return self._desk.directory

    async def claim(
        self,
        approval_id: str,
        person: Person,
        *,
        length: timedelta | None = None,
        along: Along = NOTHING,
    ) -> Approval:
        """Reserve the decision; see `Handled.claim`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.claim(
                one, person, self._directory, now=now, length=length
            ),
            along,
            by=person.id,
        )

    async def release(
        self,
        approval_id: str,
        who: Who,
        *,
        reason: str = "",
        along: Along = NOTHING,
    ) -> Approval:
        """Give a claim back; see `Handled.release`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.release(
                one, who, self._directory, now=now, reason=reason
            ),
            along,
            by=who.id,
        )

    async def comment(
        self,
        approval_id: str,
        who: Who,
        *,
        text: str,
        along: Along = NOTHING,
    ) -> Approval:
        """Say something for all who see the card; see `Handled.comment`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.comment(one, who, self._directory, text=text, now=now),
            along,
            by=who.id,
        )

    async def ask_back(
        self,
        approval_id: str,
        person: Person,
        *,
        text: str,
        along: Along = NOTHING,
    ) -> Approval:
        """Put a question to the requester; see `Handled.ask_back`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.ask_back(
                one, person, self._directory, text=text, now=now
            ),
            along,
            by=person.id,
        )

    async def answer_back(
        self,
        approval_id: str,
        person: Person,
        *,
        text: str,
        along: Along = NOTHING,
    ) -> Approval:
        """Say what the requester answers; see `Handled.answer_back`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.answer_back(
                one, person, self._directory, text=text, now=now
            ),
            along,
            by=person.id,
        )

    async def extend(
        self,
        approval_id: str,
        who: Who,
        *,
        by: timedelta,
        reason: str,
        along: Along = NOTHING,
    ) -> Approval:
        """Move the deadline; see `Handled.extend`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.extend(
                one, who, self._directory, more=by, reason=reason, now=now
            ),
            along,
            by=who.id,
        )

    async def reassign(
        self,
        approval_id: str,
        who: Who,
        *,
        of: Person,
        to: Person,
        reason: str,
        along: Along = NOTHING,
    ) -> Approval:
        """Give a place to another person; see `HandedOn.reassign`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.reassign(
                one,
                who,
                self._directory,
                of=of,
                to=to,
                reason=reason,
                now=now,
                assurance=along.assurance,
            ),
            along,
            by=who.id,
        )

    async def remind(self, approval_id: str, who: Who, *, along: Along = NOTHING) -> Approval:
        """Have those reminded whose answer is awaited; see `HandedOn.remind_now`."""
        return await self._move(
            approval_id,
            lambda one, now: collaboration.remind_now(one, who, self._directory, now=now),
            along,
            by=who.id,
        )

    async def withdraw(
        self,
        approval_id: str,
        person: Person,
        *,
        reason: str = "",
        along: Along = NOTHING,
    ) -> Approval:
        """Take the question back, as the requester; see `Handled.may_withdraw`."""
        return await self._desk.withdraw(
            approval_id,
            by=person.id,
            reason=reason or "the requester has withdrawn it",
            requester=person,
            also=along.also,
            noted=along.noted,
            more=along.more,
        )

    async def _move(
        self,
        approval_id: str,
        step: Step,
        along: Along,
        *,
        by: str,
    ) -> Approval:
        made: list[Event] = []

        def kept(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
            after, events = step(approval, now)
            made[:] = events
            return after, events

        def noted(change: Change, after: Approval) -> None:
            for event in made:
                change.send(TellMove.of(event, version=after.version))
            if along.noted is not None:
                along.noted(change, after)

        return await self._desk.move(
            approval_id,
            kept,
            by=by,
            also=along.also,
            noted=noted,
            more=along.more,
            audits=along.noted is None,
        )
