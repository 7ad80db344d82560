"""The one place that checks, commits and audits every move on an approval, and answers it.

All channels use it: mail, Slack, the page, REST, the ADK API and the command line. A channel says
who acts, how their identity is proven and what they want. It gets one outcome to show.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Final, NamedTuple, TypeGuard

import structlog
from pydantic import JsonValue

from signoff.broker.directory.absences import People
from signoff.broker.directory.roster import Roster
from signoff.broker.freezes import Freezes
from signoff.broker.grants import Grants
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.broker.monitoring import metrics, tracing
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What, with_details
from signoff.core.approvals.run import Watch
from signoff.core.base.errors import (
    ApprovalError,
    Conflict,
    DecisionRefused,
    Escalated,
    GrantRefused,
    IllegalMove,
    NotAnApprover,
    PayloadError,
    RecordUnreadable,
    RunNotFound,
    TooLate,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import Grant, grant_id
from signoff.core.routing.escalation import advance, is_due, pass_on

if TYPE_CHECKING:
    # Most commands only read the ledger, and do not need the models of moves.
    from signoff.core.approvals.moves import Actor, BreakGlass, Move
    from signoff.core.grants.moves import GiveGrant

log = structlog.get_logger(__name__)

REFUSALS: Final = (DecisionRefused, GrantRefused, IllegalMove, PayloadError)
"""The errors that refuse a move."""

OF_ONE: Final = (ApprovalError, RunNotFound, Conflict, RecordUnreadable)
"""Errors about one approval, which do not stop the other decisions of a batch."""


class Taken(NamedTuple):
    """A move that was made.

    Attributes:
        approval: The approval after the move. After the first of two steps, or one vote of several,
            it is still pending.
        events: The events of the move, as in the audit; none if a copy of the same message has made
            it.
        grant: The grant that was given or revoked, if any.
    """

    approval: Approval
    events: tuple[Event, ...] = ()
    grant: Grant | None = None

    def approval_or_raise(self) -> Approval:
        """Return the approval after the move."""
        return self.approval

    def grant_or_raise(self) -> Grant:
        """Return the grant that was given or revoked."""
        if self.grant is None:
            raise TypeError("The move was not about a grant.")
        return self.grant


class Refused(NamedTuple):
    """A move that was refused. The refusal is in the audit, and nothing else has changed.

    Attributes:
        approval: The unchanged approval.
        error: The reason; its message can be shown to the person who tried the move.
    """

    approval: Approval
    error: ApprovalError

    def approval_or_raise(self) -> Approval:
        """Raise the error, for callers that use exceptions."""
        raise self.error

    def grant_or_raise(self) -> Grant:
        """Raise the error, for callers that use exceptions."""
        raise self.error


Outcome = Taken | Refused

OnCommit = Callable[[Change, Outcome], Awaitable[None]]
"""Adds to the commit of an outcome, such as messages about it."""


def _never(error: ApprovalError) -> bool:
    del error
    return False


def always(error: ApprovalError) -> bool:
    """Acknowledge the incoming message after any refusal."""
    del error
    return True


class Extras(NamedTuple):
    """Options of a move.

    Attributes:
        also: A change to commit with the move, such as the acknowledgement of a message.
        acknowledges: Returns whether to commit `also` with a refusal too. If not, the same message
            can be sent again with corrections.
        on_commit: Adds to the commit of the move, or of its refusal.
        watched: How the person who answers watches the run continue.
        seen: The approval as just read. If it has changed since, the move is repeated with the
            current one.
    """

    also: Change | None = None
    acknowledges: Callable[[ApprovalError], bool] = _never
    on_commit: OnCommit | None = None
    watched: Watch = Watch.NO
    seen: Current | None = None


NOTHING: Final = Extras()


class Decisions:
    """Makes moves on approvals.

    Args:
        ledger: The ledger.
        directory: The people.

    Attributes:
        roster: The current people.
    """

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self.ledger = ledger
        self.roster = Roster(ledger, directory)
        self._grants = Grants(ledger)

    @property
    def directory(self) -> Directory:
        """The people as last read."""
        return self.roster.directory

    @property
    def people(self) -> People:
        """Sets absences."""
        return self.roster.people

    async def take(
        self, approval_id: str, move: Move, actor: Actor, extras: Extras = NOTHING
    ) -> Outcome:
        """Make a move on the current approval, or refuse it.

        The move or its refusal is one commit, together with the audit, the work that follows and
        the messages to people.

        Args:
            approval_id: The id of the approval.
            move: The move.
            actor: The person who makes it, and how the channel has proven their identity.
            extras: Options of the move.

        Raises:
            ApprovalNotFound: The approval does not exist.
            LeaseLost: Another process holds the item that `also` acknowledges.
            Conflict: There was a conflict at each attempt; nothing was changed.
            LedgerError: The commit failed; nothing was changed.
        """
        known = [extras.seen] if extras.seen is not None else []

        async def attempt() -> Outcome:
            seen = known.pop() if known else await self.ledger.current(approval_id)
            with tracing.span("decide", seen.approval, move=move.name, channel=actor.channel):
                return await self._attempt(seen, move, actor, extras)

        outcome = await self.ledger.decide_again(attempt)
        if _breaks_glass(move) and isinstance(outcome, Taken):
            app = outcome.approval.origin.app
            log.critical("glass.broken", approval=approval_id, by=actor.by, why=move.reason)
            await Freezes(self.ledger).wake(app)
        return outcome

    async def _attempt(self, seen: Current, move: Move, actor: Actor, extras: Extras) -> Outcome:
        """Make a move on an approval as it was read, or refuse it; it may have changed since."""
        try:
            change, taken = await self._build(seen, move, actor, extras)
        except REFUSALS as error:
            if move.automatic:
                return Refused(seen.approval, error)
            wanted = _wanted(move)
            return await self._commit_refusal(
                seen.approval, error, actor, wanted, extras, now=seen.now
            )
        try:
            await self.ledger.commit(change)
        except Conflict:
            if not _gives_grant(move) and await self._was_done(extras.also):
                # A copy of the same message came at the same time, and was faster.
                return Taken(await self.ledger.approval(seen.approval.id))
            raise
        if not move.automatic:
            metrics.record(metrics.ANSWERS, actor.channel, "taken")
        return taken

    async def check(self, approval_id: str, move: Move, actor: Actor) -> Outcome:
        """Check a move without making it; a refusal is audited as in `take`.

        Raises:
            ApprovalNotFound: The approval does not exist.
            LedgerError: The ledger could not be read, or the refusal could not be committed.
        """
        seen = await self.ledger.current(approval_id)
        try:
            judged = await self._judge(seen, move, actor)
        except REFUSALS as error:
            return await self._commit_refusal(
                seen.approval, error, actor, _wanted(move), now=seen.now
            )
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
        """Record a refusal by a channel: for example, the sender of an answer is not proven.

        Args:
            approval_id: The id of the approval.
            error: The reason.
            actor: Who tried the move.
            extras: Options of the move.
            wanted: The name of the move, "" if it is not known.

        Raises:
            ApprovalNotFound: The approval does not exist.
            LedgerError: The refusal could not be committed.
        """
        known = [extras.seen] if extras.seen is not None else []

        async def attempt() -> Refused:
            if known:
                approval, _, now = known.pop()
            else:
                approval = await self.ledger.approval(approval_id)
                now = await self.ledger.now()
            details = {"verdict": wanted} if wanted else {}
            return await self._commit_refusal(approval, error, actor, details, extras, now=now)

        return await self.ledger.decide_again(attempt)

    async def revoke(
        self, grant: str, reason: str, actor: Actor, extras: Extras = NOTHING
    ) -> Outcome:
        """Revoke a grant, so that it decides no further calls.

        Args:
            grant: The id of the grant, or of the approval that gave it.
            reason: The reason.
            actor: Who revokes it.
            extras: Options of the move.

        Raises:
            GrantNotFound: The grant does not exist.
            LedgerError: The commit failed; nothing was changed.
        """

        async def attempt() -> Outcome:
            was = await self._grants.get(grant)
            approval, now = await self.ledger.approval(was.approval), await self.ledger.now()
            try:
                revoked, events = was.revoke(by=actor.by, why=reason, now=now)
            except GrantRefused as error:
                wanted = {"verdict": "revoke"}
                return await self._commit_refusal(approval, error, actor, wanted, extras, now=now)
            events = with_details(events, actor.details)
            change = _changes_of(extras).put(revoked, was=was).note(events)
            taken = Taken(approval, events, revoked)
            if extras.on_commit is not None:
                await extras.on_commit(change, taken)
            await self.ledger.commit(change)
            log.info("grant.revoked", grant=revoked.id, by=actor.by)
            return taken

        return await self.ledger.decide_again(attempt)

    async def _build(
        self, seen: Current, move: Move, actor: Actor, extras: Extras
    ) -> tuple[Change, Taken]:
        """Return the change that makes a move, and its outcome.

        Raises:
            ApprovalError: One of `REFUSALS`: the move is refused.
        """
        was, run, now = seen
        here, due, approval, events = await self._judge(seen, move, actor)
        own, grant = events, None
        details = {**actor.details, **move.details}
        events = with_details(events, details)
        change = _changes_of(extras)
        if approval.passed_since(here):
            approval, passed = await self._pass_on(change, approval, now)
            events = (*events, *passed)
        if events:
            after = (*due, *events)
            approval = self.ledger.sealed(approval, events)
            from signoff.broker.effects import add_move  # noqa: PLC0415 -- only moves need it

            add_move(
                change,
                was,
                approval,
                after,
                run,
                watched=extras.watched,
                rotations=self.roster.rotations,
            )
        if _gives_grant(move):
            grant, given = await self._give(move, approval, actor, now)
            given = with_details(given, details)
            change.put(grant, was=None).note(given)
            events = (*events, *given)
        if move.in_time and here.state is State.PENDING and not here.stays_open:
            # The deadline may pass between the read and the commit, so the commit checks it again.
            change.before(here.deadline)
        if move.in_time and here.state is State.PENDING:
            change.before(here.window)
        if move.announced:
            _announce(change, approval, own)
        taken = Taken(approval, events, grant)
        if extras.on_commit is not None:
            await extras.on_commit(change, taken)
        return change, taken

    async def _judge(self, seen: Current, move: Move, actor: Actor) -> _Judged:
        """Make a move on an approval after its due changes, even if no timer has made them yet."""
        was, _, now = seen
        if is_due(was, now) or _breaks_glass(move):
            await self.roster.refresh()
        roster, who = self.roster, actor.who
        if isinstance(who, Person) and roster.directory.get(who.id) is None:
            raise NotAnApprover(f"{roster.directory.why_missing(who.id)} any more.")
        here, due = advance(was, roster.directory, now=now, rotations=roster.rotations.known)
        ended = here.state is not was.state
        if here.state is not State.PENDING:
            here, due = was, ()
        try:
            after, events = move.make(here, actor, roster.directory, now)
        except Escalated:
            if ended:
                # Levels follow, but nobody can be asked there.
                raise was.too_late(roster.directory.zone_of(actor.by)) from None
            raise
        if ended and move.in_time:
            raise was.too_late(roster.directory.zone_of(actor.by))
        return _Judged(here, due, after, events)

    async def _give(
        self, move: GiveGrant, approval: Approval, actor: Actor, now: datetime
    ) -> tuple[Grant, tuple[Event, ...]]:
        """Return the grant that a move gives; an approval can give one grant.

        Raises:
            GrantRefused: The grant may not be given.
        """
        name = grant_id(approval.id)
        if await self.ledger.raw(f"grant:{name}") is not None:
            raise GrantRefused(
                f"Approval {approval.id} has already given the grant {name}. "
                "Give another grant with the next call."
            )
        return move.grant(approval, actor, now)

    async def _pass_on(
        self, change: Change, approval: Approval, now: datetime
    ) -> tuple[Approval, tuple[Event, ...]]:
        """Go on to the next phase; if nobody can be asked there, `route` asks the default."""
        await self.roster.refresh()
        roster = self.roster
        went = pass_on(approval, roster.directory, now=now, rotations=roster.rotations.known)
        if went is not None:
            return went
        log.error("decisions.phase_without_people", approval=approval.id)
        from signoff.broker.work import StaffPhase  # noqa: PLC0415 -- only moves need it

        change.send(StaffPhase(approval=approval.id, level_key=approval.level_key))
        return approval, ()

    async def _commit_refusal(
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
        if await self._was_done(extras.also):
            # The same message came before. Its first copy was answered.
            return refused
        change = _changes_of(extras) if extras.acknowledges(error) else Change()
        more = {**actor.details, **wanted, **({"late": True} if isinstance(error, TooLate) else {})}
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
        """Say whether the new records of `also` exist, because the same message came before."""
        keys = [] if also is None else also.new_records
        return any([await self.ledger.raw(key) is not None for key in keys])


class _Judged(NamedTuple):
    """A move, made after all due changes of the approval.

    Attributes:
        here: The approval after the due changes.
        due: The events of the due changes.
        after: The approval after the move.
        events: The events of the move.
    """

    here: Approval
    due: tuple[Event, ...]
    after: Approval
    events: tuple[Event, ...]


def _breaks_glass(move: Move) -> TypeGuard[BreakGlass]:
    return move.breaks_glass


def _gives_grant(move: Move) -> TypeGuard[GiveGrant]:
    return move.gives_grant


def _wanted(move: Move) -> dict[str, JsonValue]:
    return {"verdict": move.name, **move.details}


def _changes_of(extras: Extras) -> Change:
    return Change() if extras.also is None else extras.also.copy()


def _announce(change: Change, approval: Approval, events: Iterable[Event]) -> None:
    """Add work to a change: `route` tells other people about a move."""
    from signoff.broker.work import TellMove  # noqa: PLC0415 -- only moves need it

    for event in events:
        change.send(TellMove.of(event, version=approval.version))
