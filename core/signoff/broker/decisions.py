"""The desk: where answers, deadlines and withdrawals become commits, whatever they came by."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Final

import structlog
from pydantic import JsonValue, ValidationError

from signoff.broker.absences import People
from signoff.broker.effects import Cards, moved, send_work
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.rotation import TurnKeeper
from signoff.broker.work import StaffStage
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import Run, Watch
from signoff.core.base.errors import (
    Conflict,
    DecisionRefused,
    GrantRefused,
    IllegalMove,
    InvalidRun,
    PayloadError,
    RecordUnreadable,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.routing.escalation import advance, is_due, pass_on

log = structlog.get_logger(__name__)

Step = Callable[[Approval, datetime], tuple[Approval, tuple[Event, ...]]]
"""A move of an approval, given the present."""

Noted = Callable[[Change, Approval], None]
"""Adds to a change what whoever made a move is told of it."""

REFUSALS: Final = (DecisionRefused, GrantRefused, IllegalMove, PayloadError)
"""What says that an answer or a move does not count."""


class Desk:
    """Submits runs and ends approvals; every channel, the command line and the timers use it.

    Args:
        ledger: The truth.
        directory: The people.

    Attributes:
        cards: Makes cards, where the channels are at hand: when a level begins because another is
            over, its cards are then in the same commit. Elsewhere the stage `route` makes them.
    """

    cards: Cards | None = None

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self.ledger = ledger
        self.directory = directory
        self.turns = TurnKeeper({})
        self.people = People(ledger, directory)

    async def look(self) -> None:
        """Take in who is away by now, and whose turn it is in the queues.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        try:
            self.directory = await self.people.directory()
        except RecordUnreadable as error:
            # Who was away when it could be read still is, and questions go on.
            log.error("desk.absences_unreadable", error=str(error))  # noqa: TRY400 -- the message says it all
        self.turns = await TurnKeeper.read(self.ledger, self.directory)

    async def submit(
        self,
        app: str,
        message: str,
        *,
        user: str,
        session: str = "",
        run_id: str = "",
        watched: Watch = Watch.NO,
        also: Change | None = None,
    ) -> Run:
        """Queue a message for an agent.

        Args:
            app: The name of the agent's folder.
            message: What the user says.
            user: The ADK user id; who it is can never decide what this run asks for.
            session: The ADK session id; a new one is made where none is given.
            run_id: An id of the caller's own, so that submitting again is the same run.
            watched: How the caller looks on; see `signoff.broker.live`.
            also: What must happen in the same commit.

        Returns:
            The run; the earlier one if the id was submitted before.

        Raises:
            InvalidRun: The message is empty or too long, or an id has forbidden characters.
            LeaseLost: What `also` needs is held by somebody else.
        """
        now = await self.ledger.now()
        try:
            run = Run(
                id=run_id or f"run_{secrets.token_hex(8)}",
                app=app,
                user=user,
                session=session or f"s_{secrets.token_hex(8)}",
                message=message,
                submitted_at=now,
                trace=secrets.token_hex(16),
                watched=watched,
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            name = ".".join(str(part) for part in first["loc"])
            raise InvalidRun(f"This cannot be submitted: {name}: {first['msg']}.") from error
        change = Change() if also is None else also.copy()
        change.put(run, was=None).note(run.submitted())
        send_work(change, run)
        try:
            await self.ledger.commit(change)
        except Conflict:
            return await self.ledger.run(run.id)
        return run

    async def approve(
        self,
        approval_id: str,
        person: Person,
        *,
        channel: str,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        also: Change | None = None,
        noted: Noted | None = None,
        more: Mapping[str, JsonValue] | None = None,
        watched: Watch = Watch.NO,
    ) -> Approval:
        """Approve; see `Approval.approve`. What takes two steps is still pending after the first.

        Args:
            approval_id: Which.
            person: Who, as the channel has proven it.
            channel: How it came.
            reason: In the person's words.
            values: For the payload template.
            also: What must happen in the same commit, such as acknowledging what came in.
            noted: Adds what the person is told, such as that this was only the first of two steps.
                Whoever hands this in tells them of a refusal as well, and puts that into the audit;
                otherwise it is done here.
            more: What the audit shall know besides, such as what has proven who it is.
            watched: How whoever answers looks on when the run goes on.

        Raises:
            DecisionRefused: The person may not decide, or may not any more.
            PayloadError: The values do not fit the template.
            LeaseLost: What `also` acknowledges is held by somebody else.
        """

        def step(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
            return approval.approve(
                person, self.directory, channel=channel, now=now, reason=reason, values=values
            )

        return await self._end(
            approval_id,
            step,
            also,
            by=person.id,
            channel=channel,
            in_time=True,
            noted=noted,
            more=more,
            watched=watched,
        )

    async def confirm(
        self,
        approval_id: str,
        person: Person,
        *,
        channel: str,
        mark: str,
        also: Change | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> Approval:
        """Take the second step; see `Approval.confirm`.

        Args:
            approval_id: Which.
            person: Who, as the channel has proven it by a second factor.
            channel: How it came.
            mark: Stands for the first step that the person was shown.
            also: What must happen in the same commit.
            more: What the audit shall know besides, such as which second factor was given.

        Raises:
            DecisionRefused: The person may not decide, or has nothing to confirm.
        """

        def step(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
            return approval.confirm(person, self.directory, channel=channel, now=now, mark=mark)

        return await self._end(
            approval_id, step, also, by=person.id, channel=channel, in_time=True, more=more
        )

    async def reject(
        self,
        approval_id: str,
        person: Person,
        *,
        channel: str,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        also: Change | None = None,
        noted: Noted | None = None,
        more: Mapping[str, JsonValue] | None = None,
        watched: Watch = Watch.NO,
    ) -> Approval:
        """Reject; see `approve` for arguments and errors."""

        def step(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
            return approval.reject(
                person, self.directory, channel=channel, now=now, reason=reason, values=values
            )

        return await self._end(
            approval_id,
            step,
            also,
            by=person.id,
            channel=channel,
            in_time=True,
            noted=noted,
            more=more,
            watched=watched,
        )

    def tick(self, approval: Approval, run: Run, now: datetime) -> Change | None:
        """Return the change that does what is due at this moment; None where nothing is.

        Args:
            approval: As it stands; `look` is to be called before the first of many.
            run: Its run.
            now: The present, by the ledger's clock.

        Raises:
            IllegalMove: Its run does not wait for it.
        """
        if not is_due(approval, now):
            return None
        after, events = advance(approval, self.directory, now=now, turns=self.turns.known)
        turns, begins = self.turns, after.turn != approval.turn
        try:
            return moved(Change(), approval, after, events, run, turns=turns, cards=self.cards)
        except Exception as error:
            if self.cards is None or not begins:
                raise
            # A level begins at its time whatever its cards are; the stage `route` goes on trying
            # to make them, and tells when it cannot.
            log.exception("desk.no_cards", approval=approval.id, error=str(error))
            return moved(Change(), approval, after, events, run, turns=turns)

    async def time_out(self, approval_id: str) -> Approval | None:
        """Do what is due of one approval; None if somebody was faster, or nothing is.

        Raises:
            IllegalMove: It is due, and its run does not wait for it.
        """

        async def attempt() -> Approval | None:
            await self.look()
            approval, run, now = await self.ledger.standing(approval_id)
            change = self.tick(approval, run, now)
            if change is None:
                return None
            await self.ledger.commit(change)
            return change.leaves(approval)

        return await self.ledger.decide_again(attempt)

    async def withdraw(
        self,
        approval_id: str,
        *,
        by: str,
        reason: str,
        requester: Person | None = None,
        also: Change | None = None,
        noted: Noted | None = None,
        more: Mapping[str, JsonValue] | None = None,
    ) -> Approval:
        """Take the question back.

        Args:
            approval_id: Which.
            by: Who does.
            reason: Why.
            requester: The person who does as the requester, None for who runs Signoff or the agent.
            also: What must happen in the same commit.
            noted: Adds what the requester is told; see `approve`.
            more: What the audit shall know besides.

        Raises:
            IllegalMove: It has ended.
            DecisionRefused: The person is not the requester, or it has ended.
        """

        def step(approval: Approval, now: datetime) -> tuple[Approval, tuple[Event, ...]]:
            if requester is not None:
                approval.may_withdraw(requester, self.directory)
            return approval.withdraw(by=by, reason=reason, now=now)

        return await self._end(approval_id, step, also, by=by, noted=noted, more=more)

    async def move(
        self,
        approval_id: str,
        step: Step,
        *,
        by: str = "",
        also: Change | None = None,
        noted: Noted | None = None,
        more: Mapping[str, JsonValue] | None = None,
        audits: bool = True,
    ) -> Approval:
        """Make a move of another kind, of where the approval stands at that moment, in time.

        Args:
            approval_id: Which.
            step: The move.
            by: Who makes it.
            also: What must happen in the same commit.
            noted: Adds what whoever made it is told.
            more: What the audit shall know besides.
            audits: Whether a refusal is put into the audit here.

        Raises:
            DecisionRefused: As the move says.
        """
        return await self._end(
            approval_id,
            step,
            also,
            by=by,
            in_time=True,
            noted=noted,
            more=more,
            audits=audits,
        )

    async def note_refusal(
        self,
        approval_id: str,
        why: object,
        *,
        by: str,
        more: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Put into the audit that an answer or a move does not count.

        Args:
            approval_id: Of what.
            why: What whoever made it is told.
            by: Who has made it.
            more: What the audit shall know besides, such as how it came.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be noted.
        """
        approval, now = await self.ledger.approval(approval_id), await self.ledger.now()
        event = approval.note(
            What.REFUSED_ANSWER, now=now, by=by, why=str(why), more=dict(more or {})
        )
        await self.ledger.commit(Change().note([event]))

    async def _passed(
        self, change: Change, approval: Approval, now: datetime
    ) -> tuple[Approval, tuple[Event, ...]]:
        """Go on to the next stage; where it has nobody to ask, `route` asks the default."""
        await self.look()
        went = pass_on(approval, self.directory, now=now, turns=self.turns.known)
        if went is not None:
            return went
        log.error("desk.stage_without_people", approval=approval.id)
        change.send(StaffStage(approval=approval.id, turn=approval.turn))
        return approval, ()

    async def _end(
        self,
        approval_id: str,
        step: Step,
        also: Change | None,
        *,
        by: str,
        channel: str = "",
        in_time: bool = False,
        noted: Noted | None = None,
        more: Mapping[str, JsonValue] | None = None,
        watched: Watch = Watch.NO,
        audits: bool | None = None,
    ) -> Approval:
        async def attempt() -> Approval:
            was, run, now = await self.ledger.standing(approval_id)
            # An answer is judged against where it stands now, whether or not a sweeper has run.
            if is_due(was, now):
                await self.look()
            here, due = advance(was, self.directory, now=now, turns=self.turns.known)
            if here.state is not State.PENDING:
                here, due = was, ()
            approval, events = step(here, now)
            if more:
                events = tuple(_with_more(event, more) for event in events)
            change = Change() if also is None else also.copy()
            if approval.passed:
                approval, passed = await self._passed(change, approval, now)
                events = (*events, *passed)
            moved(change, was, approval, (*due, *events), run, watched=watched, turns=self.turns)
            if in_time and not here.stays_open:
                # The clock goes on between the reading and the commit; the commit looks again.
                change.before(here.deadline)
            if noted is not None:
                noted(change, approval)
            await self.ledger.commit(change)
            return approval

        try:
            return await self.ledger.decide_again(attempt)
        except REFUSALS as error:
            own = noted is None if audits is None else audits
            if own and not await self._was_done(also):
                came = {"channel": channel} if channel else {}
                await self.note_refusal(approval_id, error, by=by, more={**came, **(more or {})})
            raise

    async def _was_done(self, also: Change | None) -> bool:
        """Say whether what was to be committed along is there: the same thing came before."""
        keys = [] if also is None else also.new_records
        return any([await self.ledger.raw(key) is not None for key in keys])


def _with_more(event: Event, more: Mapping[str, JsonValue]) -> Event:
    return event.model_copy(update={"more": {**more, **event.more}})
