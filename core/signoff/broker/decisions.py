"""The one place where a move on an approval is judged, committed, audited and answered.

Every way in uses it: mail, Slack, the page, REST, the ADK API and the command line. A way in says
who acts and how that is proven, and what they want; it gets one outcome to show.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

import structlog
from pydantic import JsonValue

from signoff.broker.directory.absences import People
from signoff.broker.directory.roster import Roster
from signoff.broker.effects import moved
from signoff.broker.freezes import Freezes
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.broker.monitoring import metrics, tracing
from signoff.broker.work import StaffPhase, TellMove
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What, with_details
from signoff.core.approvals.moves import Actor, BreakGlass, Move
from signoff.core.approvals.run import Watch
from signoff.core.base.errors import (
    ApprovalError,
    DecisionRefused,
    GrantRefused,
    IllegalMove,
    NotAnApprover,
    PayloadError,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import Grant, grant_id
from signoff.core.grants.moves import GiveGrant
from signoff.core.routing.escalation import advance, is_due, pass_on

log = structlog.get_logger(__name__)

REFUSALS: Final = (DecisionRefused, GrantRefused, IllegalMove, PayloadError)
"""The errors by which a move is refused."""


@dataclass(frozen=True, slots=True)
class Taken:
    """A move that was made.

    Attributes:
        approval: As it stands after the move. After the first of two steps, or one vote of
            several, it is still pending.
        events: What the move did, as the audit has it.
        grant: The grant that was given or revoked, if the move was about one.
    """

    approval: Approval
    events: tuple[Event, ...] = ()
    grant: Grant | None = None

    def approval_or_raise(self) -> Approval:
        """Return the approval as it stands after the move."""
        return self.approval

    def grant_or_raise(self) -> Grant:
        """Return the grant that was given or revoked."""
        if self.grant is None:
            raise TypeError("The move was not about a grant.")
        return self.grant


@dataclass(frozen=True, slots=True)
class Refused:
    """A move that was refused; nothing was done, and the audit says so.

    Attributes:
        approval: As it was.
        error: Why; its message can be shown to the person who wanted the move.
    """

    approval: Approval
    error: ApprovalError

    def approval_or_raise(self) -> Approval:
        """Raise the reason, for those who speak in exceptions."""
        raise self.error

    def grant_or_raise(self) -> Grant:
        """Raise the reason, for those who speak in exceptions."""
        raise self.error


Outcome = Taken | Refused

OnCommit = Callable[[Change, Outcome], Awaitable[None]]
"""Adds to the commit of an outcome, such as what people are told of it."""


def _never(error: ApprovalError) -> bool:
    del error
    return False


def always(error: ApprovalError) -> bool:
    """Say that what came in is done with, whatever the move was refused for."""
    del error
    return True


@dataclass(frozen=True, slots=True)
class Extras:
    """What goes along with a move.

    Attributes:
        also: Committed with the move, such as the acknowledgement of what came in.
        acknowledges: Says of a refusal whether `also` is committed with it too. Where it is not,
            the same thing may be sent again, corrected.
        on_commit: Adds to the commit of the move, or to that of its refusal.
        watched: How the answerer looks on when the run goes on.
        seen: The approval as it was just read. The commit fails if it has changed since, and is
            then tried with a fresh one.
    """

    also: Change | None = None
    acknowledges: Callable[[ApprovalError], bool] = _never
    on_commit: OnCommit | None = None
    watched: Watch = Watch.NO
    seen: Current | None = None


NOTHING: Final = Extras()


class Decisions:
    """Makes moves.

    Args:
        ledger: The truth.
        directory: The people.

    Attributes:
        roster: The people as they are now.
    """

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self.ledger = ledger
        self.roster = Roster(ledger, directory)
        self._grants = Grants(ledger)

    @property
    def directory(self) -> Directory:
        """The people, as last read."""
        return self.roster.directory

    @property
    def people(self) -> People:
        """Sets absences."""
        return self.roster.people

    async def take(
        self, approval_id: str, move: Move, actor: Actor, extras: Extras = NOTHING
    ) -> Outcome:
        """Make a move on an approval as it stands at that moment, or refuse it.

        What the move does, or that it was refused, is one commit: with the audit, with the work
        that follows and with what people are told.

        Args:
            approval_id: Which.
            move: What is wanted.
            actor: Who wants it, as the channel has proven it.
            extras: What goes along.

        Raises:
            ApprovalNotFound: There is no such approval.
            LeaseLost: What `also` acknowledges is held by somebody else.
            Conflict: Others were faster each time; nothing was done.
            LedgerError: It could not be committed; nothing was done.
        """
        seen = [extras.seen] if extras.seen is not None else []

        async def attempt() -> Outcome:
            here = seen.pop() if seen else await self.ledger.current(approval_id)
            with tracing.span("decide", here.approval, move=move.name, channel=actor.channel):
                return await self._taken(here, move, actor, extras)

        outcome = await self.ledger.decide_again(attempt)
        if isinstance(move, BreakGlass) and isinstance(outcome, Taken):
            app = outcome.approval.origin.app
            log.critical("glass.broken", approval=approval_id, by=actor.by, why=move.reason)
            await Freezes(self.ledger).wake(app)
        return outcome

    async def _taken(self, here: Current, move: Move, actor: Actor, extras: Extras) -> Outcome:
        try:
            change, taken = await self._made(here, move, actor, extras)
        except REFUSALS as error:
            if move.automatic:
                return Refused(here.approval, error)
            return await self._refused(
                here.approval, error, actor, _wanted(move), extras, now=here.now
            )
        await self.ledger.commit(change)
        if not move.automatic:
            metrics.record(metrics.ANSWERS, actor.channel, "taken")
        return taken

    async def check(self, approval_id: str, move: Move, actor: Actor) -> Outcome:
        """Judge a move without making it; a refusal is audited as by `take`.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be judged, or the refusal could not be noted.
        """
        here = await self.ledger.current(approval_id)
        try:
            judged = await self._judged(here, move, actor)
        except REFUSALS as error:
            return await self._refused(here.approval, error, actor, _wanted(move), now=here.now)
        return Taken(judged.after, judged.events)

    async def refuse(
        self,
        approval_id: str,
        error: ApprovalError,
        actor: Actor,
        extras: Extras = NOTHING,
        *,
        wanted: str = "",
    ) -> Refused:
        """Refuse what a channel has judged, such as an answer whose author is not proven.

        Args:
            approval_id: About which approval.
            error: Why.
            actor: Who wanted it.
            extras: What goes along.
            wanted: The name of the move, "" where it is not known.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be noted.
        """
        seen = [extras.seen] if extras.seen is not None else []

        async def attempt() -> Refused:
            if seen:
                here = seen.pop()
                approval, now = here.approval, here.now
            else:
                approval = await self.ledger.approval(approval_id)
                now = await self.ledger.now()
            details = {"verdict": wanted} if wanted else {}
            return await self._refused(approval, error, actor, details, extras, now=now)

        return await self.ledger.decide_again(attempt)

    async def revoke(
        self, grant: str, reason: str, actor: Actor, extras: Extras = NOTHING
    ) -> Outcome:
        """Revoke a grant: it decides no call any more.

        Args:
            grant: Its id, or that of the approval it came from.
            reason: Why.
            actor: Who does.
            extras: What goes along.

        Raises:
            GrantNotFound: There is none.
            LedgerError: It could not be committed; nothing was done.
        """

        async def attempt() -> Outcome:
            was = await self._grants.get(grant)
            approval, now = await self.ledger.approval(was.approval), await self.ledger.now()
            try:
                revoked, events = was.revoke(by=actor.by, why=reason, now=now)
            except GrantRefused as error:
                return await self._refused(
                    approval, error, actor, {"verdict": "revoke"}, extras, now=now
                )
            events = with_details(events, actor.details)
            change = _changes_of(extras).put(revoked, was=was).note(events)
            taken = Taken(approval, events, revoked)
            if extras.on_commit is not None:
                await extras.on_commit(change, taken)
            await self.ledger.commit(change)
            log.info("grant.revoked", grant=revoked.id, by=actor.by)
            return taken

        return await self.ledger.decide_again(attempt)

    async def _made(
        self, seen: Current, move: Move, actor: Actor, extras: Extras
    ) -> tuple[Change, Taken]:
        """Return the change that makes a move, and its outcome.

        Raises:
            ApprovalError: One of `REFUSALS`; nothing is to be done.
        """
        was, run, now = seen
        here, due, approval, events = await self._judged(seen, move, actor)
        own, grant = events, None
        details = {**actor.details, **move.details}
        events = with_details(events, details)
        change = _changes_of(extras)
        if approval.passed:
            approval, passed = await self._pass_on(change, approval, now)
            events = (*events, *passed)
        if events:
            after = (*due, *events)
            approval = self.ledger.sealed(approval, events)
            moved(
                change,
                was,
                approval,
                after,
                run,
                watched=extras.watched,
                rotations=self.roster.rotations,
            )
        if isinstance(move, GiveGrant):
            grant, given = await self._given(move, approval, actor, now)
            given = with_details(given, details)
            change.put(grant, was=None).note(given)
            events = (*events, *given)
        if move.in_time and here.state is State.PENDING and not here.stays_open:
            # The clock goes on between the reading and the commit; the commit looks again.
            change.before(here.deadline)
        if move.in_time and here.state is State.PENDING:
            change.before(here.window)
        if move.announced:
            _announce(change, approval, own)
        taken = Taken(approval, events, grant)
        if extras.on_commit is not None:
            await extras.on_commit(change, taken)
        return change, taken

    async def _judged(self, seen: Current, move: Move, actor: Actor) -> _Judged:
        """Make a move of where an approval stands by now, whether or not a timer has run."""
        was, _, now = seen
        if is_due(was, now) or isinstance(move, BreakGlass):
            await self.roster.refresh()
        roster, who = self.roster, actor.who
        if isinstance(who, Person) and roster.directory.get(who.id) is None:
            raise NotAnApprover(f"{roster.directory.why_missing(who.id)} any more.")
        here, due = advance(was, roster.directory, now=now, rotations=roster.rotations.known)
        if here.state is not State.PENDING:
            here, due = was, ()
        return _Judged(here, due, *move.make(here, actor, roster.directory, now))

    async def _given(
        self, move: GiveGrant, approval: Approval, actor: Actor, now: datetime
    ) -> tuple[Grant, tuple[Event, ...]]:
        """Return the grant that a move gives, of which an approval gives one.

        Raises:
            GrantRefused: It may not be given.
        """
        name = grant_id(approval.id)
        if await self.ledger.raw(f"grant:{name}") is not None:
            raise GrantRefused(
                f"Approval {approval.id} has given the grant {name} already. "
                "Give another one with the next call."
            )
        return move.grant(approval, actor, now)

    async def _pass_on(
        self, change: Change, approval: Approval, now: datetime
    ) -> tuple[Approval, tuple[Event, ...]]:
        """Go on to the next phase; where it has nobody to ask, `route` asks the default."""
        await self.roster.refresh()
        roster = self.roster
        went = pass_on(approval, roster.directory, now=now, rotations=roster.rotations.known)
        if went is not None:
            return went
        log.error("decisions.phase_without_people", approval=approval.id)
        change.send(StaffPhase(approval=approval.id, level_key=approval.level_key))
        return approval, ()

    async def _refused(
        self,
        approval: Approval,
        error: ApprovalError,
        actor: Actor,
        wanted: Mapping[str, JsonValue],
        extras: Extras = NOTHING,
        *,
        now: datetime,
    ) -> Refused:
        refused = Refused(approval, error)
        ends = extras.acknowledges(error)
        if not ends and await self._was_done(extras.also):
            # The same thing came before, and was taken then.
            return refused
        change = _changes_of(extras) if ends else Change()
        more = {**actor.details, **wanted}
        event = approval.note(What.REFUSED_ANSWER, now=now, by=actor.by, why=str(error), more=more)
        change.note([event])
        if extras.on_commit is not None:
            await extras.on_commit(change, refused)
        await self.ledger.commit(change)
        metrics.record(metrics.REFUSALS, actor.channel, type(error).__name__)
        log.info(
            "decision.refused",
            approval=approval.id,
            run=approval.origin.run,
            by=actor.by,
            channel=actor.channel,
            wanted=wanted.get("verdict", ""),
            why=event.why,
        )
        return refused

    async def _was_done(self, also: Change | None) -> bool:
        """Say whether what was to be committed along is there: the same thing came before."""
        keys = [] if also is None else also.new_records
        return any([await self.ledger.raw(key) is not None for key in keys])


class _Judged(NamedTuple):
    """A move, made of where an approval stands by now.

    Attributes:
        here: The approval after what was due.
        due: What was due.
        after: The approval after the move.
        events: What the move did.
    """

    here: Approval
    due: tuple[Event, ...]
    after: Approval
    events: tuple[Event, ...]


def _wanted(move: Move) -> dict[str, JsonValue]:
    return {"verdict": move.name, **move.details}


def _changes_of(extras: Extras) -> Change:
    return Change() if extras.also is None else extras.also.copy()


def _announce(change: Change, approval: Approval, events: Iterable[Event]) -> None:
    """Add to a change that `route` tells of a move the others who have to hear of it."""
    for event in events:
        change.send(TellMove.of(event, version=approval.version))
