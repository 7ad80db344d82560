"""One approval: the call, the approvers, the deadline, the decision and the handoff to the agent.

`TRANSITIONS` lists the moves between states, and `HANDOFFS` the steps of the handoff. The diagrams
in the documentation are rendered from both. Each legal move is a method that returns the next
`Approval` and the events to record. Moves that decide nothing are functions: `deliveries` records
what happens to the cards, and `collaboration` has claims, comments and handovers. `reopening` asks
about a call again whose approval no longer counts.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any, Final, Self, TypeAlias

from pydantic import JsonValue

from signoff.core.approvals.answers import (
    example_of_yes,
    meaning_of_yes,
    refusal_of_input,
    template_of,
)
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.hidden import call_without_hidden, values_without_hidden
from signoff.core.approvals.lifecycle import HANDOFFS, TRANSITIONS, Handoff, State, Transition
from signoff.core.approvals.parts import (
    FIRST,
    LONGEST_REQUEST,
    SECOND,
    Asked,
    Assurance,
    Claim,
    Comment,
    CommentKind,
    Decision,
    Extension,
    Glass,
    Handover,
    Kind,
    Origin,
    Program,
    Shown,
    ToolCall,
    approval_id,
    mark_of,
    with_cards,
    words_of,
)
from signoff.core.approvals.voting import Ballot, Vote, count, require_same_values, stands_for
from signoff.core.base.errors import (
    AlreadyDecided,
    Claimed,
    Escalated,
    IllegalMove,
    MoveRefused,
    NotAnApprover,
    NotShownInFull,
    NotYourTurn,
    OwnRequest,
    PayloadError,
    ReasonNeeded,
    SecondFactorNeeded,
    SecondStepNeeded,
    StepChanged,
    TooLate,
)
from signoff.core.base.freezes import Freeze, covering
from signoff.core.base.hiding import HIDDEN, Hidden, having_hidden, without_hidden
from signoff.core.base.model import PROGRAMS, Needs, Value
from signoff.core.base.moments import moment_text
from signoff.core.base.text import clean_text
from signoff.core.directory.identity import mailbox
from signoff.core.directory.people import Directory, Person, accounts_of
from signoff.core.directory.queues import QUEUE
from signoff.core.payloads.digest import digest, require_canonical
from signoff.core.payloads.payload import fields_of, missing_fields
from signoff.core.policies.conditions import covers
from signoff.core.policies.levels import OVER, STAYS, Seat, Start, Verdict, level_key_of
from signoff.core.policies.policy import OnTimeout, Terms

__all__ = [
    "HANDOFFS",
    "TRANSITIONS",
    "Approval",
    "Asked",
    "Decision",
    "Handoff",
    "Kind",
    "Moved",
    "Origin",
    "Shown",
    "State",
    "ToolCall",
    "Transition",
    "approval_id",
]

IN_FULL: Final = frozenset({"inbox", "cli", "api"})
"""The channels in which people always see the whole call."""

_CHANNELS: Final = {"email": "mail", "slack": "Slack"}
_SHORT: Final = 160
"""How many characters every channel shows uncut."""

_WIDE: Final = 1
"""The `needs` of an approval whose digest covers more than the call."""

_VOTE: Final = frozenset({"terms", "level", "round", "seats", "votes"})
_OF_VOTE: Final = ("ballot", "approvers", "queues")
"""The properties that depend on the fields in `_VOTE` alone, if there are seats."""

_HANDOFF_EVENTS: Final = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.EXPIRED: What.EXPIRED,
    Handoff.VOID: What.VOIDED,
    Handoff.FAILED: What.NOT_RESUMED,
}

Moved: TypeAlias = "tuple[Approval, tuple[Event, ...]]"
"""What a move returns: the next approval, and the events to record."""


class Approval(Value):
    """One approval, frozen.

    Attributes:
        id: Derived from the origin, so that publishing one pause twice opens one approval.
        origin: The run, the session and the function call that it belongs to.
        kind: What is asked for: a confirmation, input, or the result of a long-running call.
        call: The tool and the arguments, as shown and as they will run.
        digest: SHA-256 over the call, its agent, app and requester, and what the tool declares; see
            `digest_of`.
        declared: SHA-256 over the parameters that the tool declares, "" if they are not known.
        hint: The tool's hint for the approver.
        said: What the agent said before the call, at most 2,000 characters; "" for nothing.
        request: What the requester wrote to the agent, at most 500 characters.
        hide: The arguments that are hidden until the policy is known; see `hides`.
        template: The payload template of `request_confirmation`, or the fields of the requested
            input; None if there is none.
        state: See `TRANSITIONS`.
        handoff: See `HANDOFFS`.
        opened_at: When it was opened (UTC).
        terms: A snapshot of the policy, None until the approval is routed.
        asked: The people who are asked, each with the channel and the result of the delivery.
        level: The index of the present level in `Terms.ladder`.
        round: The number of earlier rounds through the levels.
        seats: The people who may decide at this level, and those of earlier levels. Approvals that
            were routed before levels existed have no seats; everybody who is asked may decide.
        votes: The answers that count and have not ended the approval, at most one for each person
            and phase.
        reminders: When the approvers of this level are reminded (UTC).
        reminded: How many of these reminders are done.
        barred: Identities that never decide, besides the requester: the owners of the agent.
        since: When this level began (UTC).
        deadline: When this level ends (UTC); None until it is routed, or if it stays open.
        steps: First steps that are not confirmed yet, at most one from each person.
        decision: The decision that ended it.
        result: The tool's result as JSON text, once the tool was seen to finish.
        starts: How many times the tool was started on this approval; more than once only if the
            policy allows another run.
        supersedes: The id of the approval that this one replaces. The call of that approval is in
            doubt, or it has expired, is void, or was rejected with a proposal of this call.
        superseded_by: The id of the approval that was opened for the proposed call of a rejection.
            A proposal can be used once.
        claimed: The claim, if there is one; `claim_at` says whether it still holds.
        comments: Comments, questions to the requester and the requester's answers, the oldest
            first.
        extensions: The extensions of the deadlines.
        paused: When a question to the requester stopped the clock of this level (UTC).
        paused_due: The deadline and the future reminders as they were before the pause (UTC).
        handovers: Seats that went from one person to another, the oldest first.
        reminded_at: When the approvers were last reminded manually (UTC).
        informed: The ids of the people who are informed and do not decide, unless they are asked as
            well.
        reported: Whether the result of the call, or its failure, was reported to the people who
            decided.
        absent: The ids of approvers of this level who have since left the directory or gone away.
            People who are away may still answer.
        glass: The emergency override by which one person ran the call alone.
        receipt: The signed receipt of its decision (a JWS in compact form), "" if the installation
            or the release that decided it does not sign receipts.
        program: The request of a program that runs the call itself, None for a call of an agent
            that Signoff runs.
        traceparent: The trace context of the turn that opened it, and later that of its decision
            (W3C Trace Context); "" without tracing.
        needs: See `signoff.core.base.model.Needs`.
        version: Counts the commits; the ledger refuses a write that is not based on the last one.
    """

    id: str
    origin: Origin
    kind: Kind = Kind.CONFIRMATION
    call: ToolCall
    digest: str
    declared: str = ""
    hint: str = ""
    said: str = ""
    request: str = ""
    hide: Hidden = ()
    template: JsonValue = None
    state: State = State.PENDING
    handoff: Handoff = Handoff.NONE
    opened_at: datetime
    terms: Terms | None = None
    asked: tuple[Asked, ...] = ()
    level: int = 0
    round: int = 0
    seats: tuple[Seat, ...] = ()
    votes: tuple[Vote, ...] = ()
    reminders: tuple[datetime, ...] = ()
    reminded: int = 0
    barred: tuple[str, ...] = ()
    since: datetime | None = None
    deadline: datetime | None = None
    steps: tuple[Decision, ...] = ()
    decision: Decision | None = None
    result: str = ""
    starts: int = 0
    supersedes: str = ""
    superseded_by: str = ""
    claimed: Claim | None = None
    comments: tuple[Comment, ...] = ()
    extensions: tuple[Extension, ...] = ()
    paused: datetime | None = None
    paused_due: tuple[datetime, ...] = ()
    handovers: tuple[Handover, ...] = ()
    reminded_at: datetime | None = None
    informed: tuple[str, ...] = ()
    reported: bool = False
    absent: tuple[str, ...] = ()
    glass: Glass | None = None
    receipt: str = ""
    traceparent: str = ""
    program: Program | None = None
    needs: Needs = 0
    version: int = 0

    # The request.

    @property
    def facts(self) -> dict[str, JsonValue]:
        """The names that the conditions of policies and grants can use."""
        return {
            "app": self.origin.app,
            "agent": self.origin.agent,
            "tool": self.call.name,
            "args": dict(self.call.args),
            "user": self.origin.user,
        }

    @property
    def is_wide(self) -> bool:
        """Whether its digest covers more than the tool and the arguments."""
        return self.needs >= _WIDE

    def digest_of(
        self,
        tool: str,
        args: Mapping[str, JsonValue],
        *,
        origin: Origin | None = None,
        declared: str | None = None,
    ) -> str:
        """Return the digest of a call, computed in the same way as that of this approval.

        Approvals that earlier releases opened keep a digest over the tool and the arguments alone.

        Args:
            tool: The tool.
            args: Its arguments.
            origin: The origin of the call; None for the origin of this approval.
            declared: The digest of the parameters that the tool declares; None for that of this
                approval.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        if not self.is_wide:
            return digest(tool, args)
        declares = self.declared if declared is None else declared
        return _wide_digest(tool, args, origin or self.origin, declares)

    @property
    def hides(self) -> Hidden:
        """The arguments whose values are hidden; see `signoff.core.approvals.masking`."""
        return self.hide if self.terms is None else self.terms.hide

    @property
    def fixed(self) -> frozenset[str]:
        """The fields or arguments that nobody can change, because something in them is hidden.

        Empty fields of a template can still be filled in.
        """
        template = template_of(self.kind, self.call, self.template)
        fields = fields_of(template)
        if template is None and self.kind is not Kind.INPUT:
            fields = self.call.args
        return having_hidden(fields, self.hides, blanks=template is None)

    @property
    def own_hint(self) -> str:
        """The tool's hint, "" if it is only the standard text of ADK.

        The standard text of FunctionTool(require_confirmation=True) is written for programmers: it
        would tell a manager to "respond with a FunctionResponse".
        """
        return "" if "expected ToolConfirmation payload" in self.hint else self.hint

    @cached_property
    def level_key(self) -> str:
        """The key of the present level; see `signoff.core.policies.levels.level_key_of`."""
        return level_key_of(self.level, self.round)

    @property
    def is_last_level(self) -> bool:
        """Whether no level follows the present one if it ends without an approval."""
        return self.terms is None or not any(self.terms.after(self.level, self.round))

    @property
    def seats_here(self) -> tuple[Seat, ...]:
        """The seats of the present level."""
        here = (self.level, self.round)
        return tuple(one for one in self.seats if (one.level, one.round) == here)

    @cached_property
    def queues(self) -> tuple[str, ...]:
        """The queues in which it waits at its present level: ``queue:finance``."""
        return tuple(dict.fromkeys(one.via for one in self.seats_here if one.via.startswith(QUEUE)))

    @property
    def open_question(self) -> Comment | None:
        """The latest question to the requester, if they have not answered since."""
        asked = (one for one in reversed(self.comments) if one.sort is not CommentKind.COMMENT)
        latest = next(asked, None)
        return latest if latest is not None and latest.sort is CommentKind.QUESTION else None

    @property
    def in_two_steps(self) -> bool:
        """Whether an approval counts only after the person confirms it with a second factor."""
        return self.terms is not None and self.terms.second_step

    @property
    def batchable(self) -> bool:
        """Whether it may be approved together with others.

        The policy must allow it, and an approval must not need values, a reason or a second step.
        """
        return (
            self.state is State.PENDING
            and self.kind is Kind.CONFIRMATION
            and self.template is None
            and self.terms is not None
            and self.terms.batch
            and not self.in_two_steps
            and not self.needs_reason(Verdict.APPROVE)
        )

    def needs_reason(self, verdict: Verdict) -> bool:
        """Say whether the policy requires a reason for this verdict at the present level."""
        return self.terms is not None and verdict in self.terms.asking(self.level).reasons

    @property
    def example_of_yes(self) -> str:
        """An answer that would approve, for help texts, with a reason if it needs one."""
        example = example_of_yes(self.kind, self.call, self.template)
        return f"{example}\nnote: because …" if self.needs_reason(Verdict.APPROVE) else example

    def outcome(self, directory: Directory | None = None) -> str:
        """Return its state in words, with the people who decided: "approved by Mara Lind"."""
        words = self.state.value.replace("_", " ")
        if self.decision is None or not self.decision.by:
            return words
        names = [directory.shown(one) if directory else one for one in self.decided_by]
        if self.glass is not None and self.glass.by == self.decision.by:
            return f"{words} by {names[-1]} alone, who broke the glass"
        return f"{words} by {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"

    # Deadlines.

    @cached_property
    def next_due(self) -> datetime | None:
        """When the next timer is due, None if there is none; the score in the due index.

        Reminders have timers, and so do the ends of the level, of a claim and of the window.
        """
        reminder = self.reminders[self.reminded : self.reminded + 1]
        claim = (self.claimed.until,) if self.claimed is not None else ()
        moments = (*reminder, self.deadline, *claim, self.window)
        return min((one for one in moments if one is not None), default=None)

    @property
    def window(self) -> datetime | None:
        """When a program's request ends undecided, whatever the policy says; None for others."""
        return self.program.until if self.program is not None else None

    def has_closed(self, now: datetime) -> bool:
        """Say whether its window has passed."""
        return self.window is not None and now >= self.window

    def within_window(self, deadline: datetime | None) -> datetime | None:
        """Return a deadline that is not after the end of the window; None stays None."""
        if deadline is None or self.window is None:
            return deadline
        return min(deadline, self.window)

    @property
    def stays_open(self) -> bool:
        """Whether it stays open after its deadline, which then only marks it as overdue."""
        stays = self.terms is not None and self.terms.on_timeout is OnTimeout.STAY
        return stays and self.is_last_level

    def is_late(self, now: datetime) -> bool:
        """Say whether the deadline or the window has passed."""
        return self.has_closed(now) or (self.deadline is not None and now >= self.deadline)

    def claim_at(self, now: datetime) -> Claim | None:
        """Return the claim that holds at a moment, None if there is none."""
        claim = self.claimed
        if claim is None or self.state is not State.PENDING or now >= claim.until:
            return None
        return claim if claim.by in self.ballot.awaited else None

    # The vote.

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy with some fields replaced; an unchanged vote is not counted again."""
        copied = super().model_copy(update=update, deep=deep)
        # Without seats, the vote depends on who was asked.
        if self.seats and not deep and _VOTE.isdisjoint(update or ()):
            known = self.__dict__
            copied.__dict__.update((name, known[name]) for name in _OF_VOTE if name in known)
        return copied

    @cached_property
    def ballot(self) -> Ballot:
        """The state of the vote at the present level."""
        own: list[str] = []
        if not self.seats:
            # Routed before seats existed: all people with a card, or asked by a common card.
            in_a_place = self.terms is not None and not all(one.person for one in self.asked)
            own = list(self.terms.ask) if self.terms is not None and in_a_place else []
            own += [one.person for one in self.asked if one.person]
        here = (self.level, self.round)
        return count(self.terms, here, seats=self.seats, votes=self.votes, own=own)

    @cached_property
    def approvers(self) -> frozenset[str]:
        """The ids of the people who may answer now."""
        # A call that is not routed yet has no vote to count.
        return frozenset(self.ballot.answering if self.seats or self.asked else ())

    @property
    def given(self) -> tuple[Vote, ...]:
        """The approvals of earlier phases."""
        return tuple(
            one
            for one in self.votes
            if self.terms is not None
            and one.verdict is Verdict.APPROVE
            and not self.terms.same_phase(one.level, self.level)
        )

    @property
    def passed(self) -> bool:
        """Whether its phase has approved it and the next phase has to be asked."""
        return self.state is State.PENDING and self.goes_on and self.ballot.reached

    def passed_since(self, before: Self) -> bool:
        """Say whether an approval since an earlier state lets the next phase start.

        At the start of a level, approvals of people who stay may be enough already. They do not
        decide alone, and neither does another move: somebody has to approve at this level.
        """
        last = self.votes[-1:]
        approved = bool(last) and last[0].verdict is Verdict.APPROVE
        return self.passed and approved and last != before.votes[-1:]

    @property
    def goes_on(self) -> bool:
        """Whether the next phase has to be asked after the present one has approved."""
        return not self._covered or bool(self.behind)

    @property
    def behind(self) -> tuple[tuple[int, int], ...]:
        """The levels to try after the present phase has approved; see `Terms.behind`."""
        if self.terms is None:
            return ()
        return tuple(self.terms.behind(self.level, self.round, covered=self._covered))

    @property
    def _covered(self) -> bool:
        """Whether the limit of a person who has approved at this level covers the call."""
        if self.terms is None or self.terms.chain_of(self.level) is None:
            return True
        # Only people whose limits cover the values that they approved count.
        yes = {
            one.by
            for one in self.ballot.votes
            if one.verdict is Verdict.APPROVE and one.decision.covers
        }
        late = (one for one in self.seats if one.level == STAYS)
        return any(one.covers for one in (*self.seats_here, *late) if one.person in yes)

    @property
    def asked_here(self) -> tuple[str, ...]:
        """The ids of the people who own the seats of the present level; delegates do not."""
        return tuple(dict.fromkeys(one.stands_for for one in self.seats_here)) or self.ballot.own

    @property
    def still_needed(self) -> int:
        """The least number of approvals that the terms require from here on."""
        if self.terms is None:
            return 1
        behind = self.behind if self.passed else ()
        return self.terms.fewest_from(next(iter(behind), (self.level, 0))[0])

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The ids of the people who decided it: all who approved, or the last who rejected."""
        if self.decision is None or not self.decision.by:
            return ()
        last = self.decision.by
        if self.state is not State.APPROVED or not self.votes:
            return (last,)
        before = (*(one.by for one in self.given), *self.ballot.yes)
        return (*dict.fromkeys(one for one in before if one != last), last)

    def step_of(self, person: str) -> Decision | None:
        """Return the first step of a person that is not confirmed yet, None if there is none."""
        pending = self.steps if self.state is State.PENDING else ()
        return next((step for step in pending if step.by == person), None)

    # Permissions.

    def is_requester(self, person: Person, directory: Directory) -> bool:
        """Say whether a person is the requester, by any of their identities."""
        return directory.same(person.id, self.origin.user) or person.owns(self.origin.user)

    def never_decides(self, person: Person, directory: Directory) -> bool:
        """Say whether a person is, or may be, the requester or an owner of the agent."""
        return any(directory.may_be(person, one) for one in (self.origin.user, *self.barred))

    def concerns(self, person: Person, directory: Directory) -> bool:
        """Say whether a person may see it without any role.

        These are the requester, the people who are or were asked, the person who decided it, the
        people who are informed or may break the glass, and all members of its queues.
        """
        if self.decision is not None and self.decision.by == person.id:
            return True
        if self.is_requester(person, directory):
            return True
        asked = {*self.approvers, *self.informed, *(one.of for one in self.handovers)}
        asked |= {one.person for one in self.seats} | {one.person for one in self.asked}
        asked |= set(self.terms.break_glass if self.terms is not None else ())
        names = {one.via.removeprefix(QUEUE) for one in self.seats if one.via.startswith(QUEUE)}
        queues = (directory.queues.get(one) for one in names)
        asked |= {member for one in queues if one is not None for member in one.members}
        return person.id in asked

    def only_informs(self, person: str) -> bool:
        """Say whether a person is informed and was not asked."""
        asked = {*(one.person for one in self.seats), *(one.person for one in self.asked)}
        return person in self.informed and person not in asked

    def is_inside(self, person: Person, directory: Directory) -> bool:
        """Say whether a person who may see it sees its deliveries and refused answers, too.

        Approvers, operators and auditors do; the requester and the people who are informed do not.
        """
        outside = self.is_requester(person, directory) or self.only_informs(person.id)
        return person.sees_all or not outside

    def shown_to(self, person: str, channel: str) -> Shown:
        """Return how much of the call a channel has shown to a person.

        If that is not known, a call that is short enough for every card counts as shown.

        Args:
            person: The id of the person.
            channel: The channel of their answer.
        """
        if channel in IN_FULL:
            return Shown.COMPLETE
        cards = {
            one.shown for one in self.asked if one.channel == channel and one.person in {"", person}
        }
        if Shown.CUT in cards:
            return Shown.CUT
        if cards == {Shown.COMPLETE} or self._is_short:
            return Shown.COMPLETE
        return Shown.UNKNOWN

    def may_approve_by(self, person: str, channel: str) -> None:
        """Refuse an approval by a channel that has not shown the person all of the call.

        Raises:
            NotShownInFull: Some of it was cut, or it is not known whether all of it was shown.
        """
        extent = self.shown_to(person, channel)
        if extent is Shown.COMPLETE:
            return
        by, call = _CHANNELS.get(channel, channel), f"{self.call.name}()"
        why = (
            f"What came by {by} does not show all of {call}"
            if extent is Shown.CUT
            else f"It is not certain that all of {call} was shown by {by}"
        )
        raise NotShownInFull(
            f"{why}, so a yes by {by} does not count. Read all of it and approve it on the page of "
            f"this request (without a page: `signoff approvals show {self.id}`). A no counts here "
            "as well."
        )

    def may_decide(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse a person who may not decide at this moment.

        Raises:
            OwnRequest: The person is the requester or owns the agent, by any of their identities.
            NotAnApprover: The person was never asked, has handed over their seat, has answered
                under another id, or shares a seat with a person who has answered.
            AlreadyDecided: It has been decided.
            Escalated: The person's level has ended, even if no timer has recorded that yet.
            TooLate: The last level has ended, even if no timer has recorded that yet.
            NotYourTurn: Another person is asked first.
            Claimed: Another person has claimed the decision.
        """
        self._must_not_be_own(person, directory)
        self._must_have_a_seat(person, directory)
        self.must_be_open(directory)
        ballot, zone = self.ballot, directory.zone_of(person.id)
        if person.id not in {*ballot.own, *ballot.stay}:
            raise Escalated(self._went_on(self.since, zone))
        for vote in ballot.votes:
            if vote.by != person.id and self._is_one(vote.by, person, directory):
                raise NotAnApprover(
                    f"{person.shown} has answered approval {self.id} already, as {vote.by}. "
                    "Everybody counts once."
                )
        self._must_not_be_over(now, zone)
        if person.id in ballot.filled:
            raise NotAnApprover(
                f"Approval {self.id} was answered in {person.shown}'s place already. One answer "
                "counts for that place."
            )
        if person.id not in ballot.answering:
            name = directory.shown(ballot.awaited[0])
            raise NotYourTurn(f"{name} is asked about approval {self.id} before {person.shown}.")
        claim = self.claim_at(now)
        if claim is not None and claim.by != person.id:
            raise Claimed(
                f"{directory.shown(claim.by)} has claimed approval {self.id} until "
                f"{moment_text(claim.until, zone)}. Until then it is theirs to decide, unless "
                "they release it.",
                until=claim.until,
            )

    def too_late(self, zone: tzinfo) -> TooLate:
        """Return the refusal of an answer that came after the end of the last level."""
        ended = self.within_window(self.deadline) or self.window
        when = f" on {moment_text(ended, zone)}" if ended is not None else ""
        return TooLate(
            f"Approval {self.id} expired{when}; nothing was done. The request has to be made again."
        )

    def must_be_open(self, directory: Directory) -> None:
        """Refuse a move after the decision.

        Raises:
            AlreadyDecided: It has been decided.
        """
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")

    def may_withdraw(self, person: Person, directory: Directory) -> None:
        """Refuse everybody but the requester, who alone may withdraw it.

        Raises:
            AlreadyDecided: It has been decided.
            MoveRefused: The person is not the requester.
        """
        self.must_be_open(directory)
        if not self.is_requester(person, directory):
            raise MoveRefused(
                f"{person.shown} has not asked for approval {self.id}; only the requester can "
                "withdraw it."
            )

    # Asking.

    @classmethod
    def open(
        cls,
        origin: Origin,
        call: ToolCall,
        *,
        hint: str,
        template: JsonValue,
        now: datetime,
        supersedes: str = "",
        kind: Kind = Kind.CONFIRMATION,
        said: str = "",
        request: str = "",
        hide: Hidden = (),
        program: Program | None = None,
        declared: str = "",
    ) -> Moved:
        """Open an approval for a call that waits.

        Raises:
            NotCanonical: The arguments or the template have no canonical form.
        """
        require_canonical(template, f"The payload template of {call.name}()")
        approval = cls(
            id=approval_id(origin),
            origin=origin,
            kind=kind,
            call=call,
            digest=_wide_digest(call.name, call.args, origin, declared),
            declared=declared,
            hint=hint.encode("utf-8", "replace").decode(),
            said=words_of(said),
            request=words_of(request, LONGEST_REQUEST),
            hide=hide,
            template=template_of(kind, call, template),
            opened_at=now,
            supersedes=supersedes,
            program=program,
            needs=PROGRAMS if program is not None else _WIDE,
        )
        more: dict[str, JsonValue] = {"tool": call.name, "digest": approval.digest}
        if kind is not Kind.CONFIRMATION:
            more["kind"] = kind.value
        if supersedes:
            more["supersedes"] = supersedes
        return approval, (approval.note(What.OPENED, now=now, by=origin.agent, more=more),)

    def ask(
        self,
        terms: Terms,
        asked: tuple[Asked, ...],
        *,
        now: datetime,
        notes: Sequence[str] = (),
        start: Start | None = None,
        barred: tuple[str, ...] = (),
        stranded: bool = False,
    ) -> Moved:
        """Apply the terms and ask the people; the deadline counts from now.

        If these terms apply already, other people or other channels are asked at the present level.

        New terms do not lower the requirements (see `Terms.no_weaker_than`), and the number of
        approvals does not fall. Otherwise a mail that bounces would weaken the policy.

        Args:
            terms: The snapshot of the policy.
            asked: The people who are asked, each with a channel, and those who were asked before.
            now: The present.
            notes: Why other people are not asked.
            start: The level that begins; if there is none, everybody who is asked may decide.
            barred: Identities that never decide, besides the requester.
            stranded: Whether the policy has nobody to ask, so that other people are asked.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        seats = self.seats
        if terms is not self.terms and start is not None:
            # The people asked so far could not be reached, and may still answer. People of a phase
            # that has approved may not.
            passed = self.passed
            seats = tuple(
                one.model_copy(update={"level": OVER}) if passed or one.level != STAYS else one
                for one in self._lasting_seats
            )
        if terms is not self.terms and self.terms is not None:
            at_least = max(terms.at_least, self.still_needed)
            terms = terms.shown_like(self.terms).telling_as(self.terms)
            terms = terms.no_weaker_than(self.terms)
            terms = terms.model_copy(update={"at_least": at_least})
        begun = start or Start(0, 0, (), now + terms.within.by_the_clock)
        here: list[JsonValue] = [one.key for one in asked if one.level_key == begun.level_key]
        more: dict[str, JsonValue] = {"policy": terms.policy, "people": here}
        if terms.second_step:
            more["second_step"] = True
        if called := terms.called(begun.level):
            more["level"] = called
        if begun.informed:
            more["informed"] = list(begun.informed)
        approval = self._begin(begun, seats if start else (), now=now).model_copy(
            update={"terms": terms, "asked": asked, "barred": (*self.barred, *barred)}
        )
        why = "; ".join(notes)
        # The policy has to be corrected even if the default asks somebody.
        alarm = [self.note(What.UNROUTABLE, now=now, by="router", why=why)] if stranded else []
        what = What.ASKED if asked else What.UNROUTABLE
        event = self.note(what, now=now, by="router", why=why, more=more)
        return approval, (*alarm, event) if asked else (event,)

    def asked_too(self, fresh: Sequence[Asked], *, now: datetime, why: str = "") -> Moved:
        """Add the cards of a level that has begun, or of the next person in a sequence.

        Args:
            fresh: The cards.
            now: The present.
            why: Why people of the level get another card, "" if these are their first ones.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        more: dict[str, JsonValue] = {"people": [one.key for one in fresh]}
        if self.terms is not None:
            more["policy"] = self.terms.policy
            if called := self.terms.called(self.level):
                more["level"] = called
        event = self.note(What.ASKED, now=now, by="router", why=why, more=more)
        asked = with_cards(self.asked, fresh, self.level_key)
        return self.model_copy(update={"asked": asked}), (event,)

    def escalate(
        self, start: Start, *, now: datetime, notes: Sequence[str] = (), unreached: bool = False
    ) -> Moved:
        """Start another level; see `signoff.core.routing.escalation`.

        Args:
            start: The level that begins.
            now: The present.
            notes: The reason, and why other people are not asked.
            unreached: Whether nobody of the present level was reached. These people may still
                answer at every later level.

        Raises:
            IllegalMove: It is not pending any more, or was never routed.
        """
        self._must_be_pending("escalate")
        if self.terms is None:
            raise IllegalMove(f"Approval {self.id} has no levels yet.")
        more = self._beginning(self.terms, start)
        event = self.note(What.ESCALATED, now=now, by="deadline", why="; ".join(notes), more=more)
        seats = self._lasting_seats if unreached else self.seats
        return self._begin(start, seats, now=now), (event,)

    def pass_on(
        self, start: Start, directory: Directory, *, now: datetime, notes: Sequence[str] = ()
    ) -> Moved:
        """Start the next phase after this one has approved; see `escalation.pass_on`.

        Approvals of earlier phases count there as well, unless the policy asks people twice.

        Raises:
            IllegalMove: Its phase has not approved it, or is the last phase.
        """
        if not self.passed or self.terms is None:
            raise IllegalMove(f"Approval {self.id} has no phase to go on to.")
        more, by = self._beginning(self.terms, start), self.votes[-1].by
        event = self.note(What.PASSED, now=now, by=by, why="; ".join(notes), more=more)
        # People of an earlier phase may answer in the next one only if they are asked there.
        seats = [one for one in self.seats if one.level != STAYS]
        begun, counted = self._begin(start, seats, now=now).count_earlier(directory, now=now)
        return begun, (event, *counted)

    def count_earlier(self, directory: Directory, *, now: datetime) -> Moved:
        """Count the approvals that people of this level gave in earlier phases.

        The values that they entered are checked against the limits of this level.
        """
        if self.terms is None or self.terms.ask_twice:
            return self, ()
        said, events, after = {one.by: one for one in self.given}, list[Event](), self
        for person in self.ballot.own:
            vote = said.get(person)
            unsaid = vote is not None and not vote.decision.reason.strip()
            if vote is None or (unsaid and self.needs_reason(Verdict.APPROVE)):
                continue
            covered = self._covers(vote.decision.payload, person, directory)
            said_here = vote.decision.model_copy(update={"covers": covered})
            place = {"level": self.level, "round": self.round, "stands_for": person}
            counts = vote.model_copy(update={**place, "decision": said_here})
            votes = (*after.votes, counts)
            after = after.model_copy(update={"votes": votes})
            why = "has approved it in an earlier phase, which counts here as well"
            yes, of = len(after.ballot.yes), after.ballot.need
            more: dict[str, JsonValue] = {"verdict": "approve", "yes": yes, "of": of}
            events.append(self.note(What.VOTED, now=now, by=person, why=why, more=more))
        if events and after.ballot.reached and not after.passed:
            *others, last = after.votes
            decision = last.decision.model_copy(update={"at": now})
            ended, ends = self._end(Transition.APPROVE, decision, votes=tuple(others))
            return ended, (*events, *ends)
        return after, tuple(events)

    def remind(self, *, now: datetime) -> Moved:
        """Remind the approvers who have not answered; if no reminder is due, nothing changes.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("remind")
        reminded = sum(one <= now for one in self.reminders)
        if reminded <= self.reminded:
            return self, ()
        more: dict[str, JsonValue] = {"people": list(self.ballot.awaited)}
        event = self.note(What.REMINDED, now=now, by="deadline", more=more)
        return self.model_copy(update={"reminded": reminded}), (event,)

    # Deciding.

    def approve(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
    ) -> Moved:
        """Approve, with values if the tool has a payload template.

        Without a template, a call runs exactly as it was shown. Values that differ from its
        arguments are then a rejection with a proposal: the agent is asked to propose exactly that
        call. A request for input is approved by answering it.

        If the terms need a second step, this is the first step: it is stored and decides nothing
        until the person confirms it. A later first step of the same person replaces it.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            NotShownInFull: The channel has not shown the person all of the call. A first step does
                not need that, because the second step is taken in a channel that shows all of it.
            SecondStepNeeded: The terms need a second step, and this channel cannot take the first.
            PayloadError: The values do not fit the template, the schema or the arguments, or some
                are missing.
        """
        self.may_decide(person, directory, now=now)
        if not self.in_two_steps:
            self.may_approve_by(person.id, channel)
        return self._approve(
            person, directory, channel=channel, now=now, reason=reason, values=values
        )

    def take_edit(
        self, person: Person, directory: Directory, *, channel: str, reason: str, now: datetime
    ) -> Moved:
        """Approve exactly the call that this person has proposed.

        No card has to show it. The person wrote the changed values, and the earlier call showed
        the others.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
        """
        self.may_decide(person, directory, now=now)
        return self._approve(person, directory, channel=channel, now=now, reason=reason)

    def confirm(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, mark: str
    ) -> Moved:
        """Take the second step, so that the person's first step counts.

        Args:
            person: The person who took the first step, and has proven a second factor.
            directory: The people.
            channel: One of `signoff.core.approvals.parts.SECOND`.
            now: The present.
            mark: `mark_of` the first step that the person was shown.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            SecondStepNeeded: There is no first step, or the channel proves no second factor.
            StepChanged: The first step is not the one that was shown.
            ReasonNeeded: This level requires a reason, and the first step has none.
        """
        self.may_decide(person, directory, now=now)
        step = self.step_of(person.id)
        if channel not in SECOND or step is None:
            raise SecondStepNeeded(self._two_steps())
        if mark_of(step) != mark:
            raise StepChanged(
                f"Your answer to approval {self.id} has changed since you were shown it. "
                "Look at it again before you confirm it."
            )
        votes = (*self.given, *self.ballot.votes)
        require_same_values(step, votes, directory, hide=self.hides)
        # The first step may have been taken in an earlier phase, under other rules.
        self._checked_reason(Verdict.APPROVE, step.reason)
        update = {
            "at": now,
            "channel": channel,
            "first_step": step.channel,
            "covers": self._covers(step.payload, person.id, directory),
        }
        return self._count_yes(step.model_copy(update=update))

    def reject(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
    ) -> Moved:
        """Reject, with a reason for the model.

        For a request for input, the payload is the answer that says no, if the form has one.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            PayloadError: The values of the request for input do not fit its schema.
        """
        self.may_decide(person, directory, now=now)
        reason = self._checked_reason(Verdict.REJECT, reason)
        no = refusal_of_input(self.call, reason, values) if self.kind is Kind.INPUT else None
        payload = no.value if no is not None else None
        decision = Decision(by=person.id, at=now, channel=channel, reason=reason, payload=payload)
        return self._count(Verdict.REJECT, decision)

    def may_break_glass(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse a person who may not run the call alone.

        Raises:
            OwnRequest: The person is the requester or owns the agent.
            NotAnApprover: The policy does not name them in `break_glass`.
            AlreadyDecided: It has been decided, and is not an approved call that a freeze stops.
            TooLate: The last level is over.
        """
        self._must_not_be_own(person, directory)
        if self.terms is None or person.id not in self.terms.break_glass:
            raise NotAnApprover(
                f"The policy does not let {person.shown} run {self.call.name}() alone; it names "
                "those who may in `break_glass`."
            )
        if self.is_to_run and self.frozen_by(directory.freezes):
            return
        self.must_be_open(directory)
        self._must_not_be_over(now, directory.zone_of(person.id))

    def break_glass(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str,
        assurance: Assurance = Assurance.ACCOUNT,
    ) -> Moved:
        """Let one person whom the policy names run a frozen or unanswered call alone.

        The current freezes do not stop the call. Later freezes do.

        Raises:
            DecisionRefused: The person may not do this; see `may_break_glass`.
            ReasonNeeded: There is no reason.
            NotShownInFull: The channel does not always show all of the call.
            SecondFactorNeeded: The policy requires a second factor.
            PayloadError: The template needs values.
        """
        self.may_break_glass(person, directory, now=now)
        reason = clean_text(reason).strip()
        if not reason:
            raise ReasonNeeded(
                "Say why: everybody who is asked reads it.", key="", read="", example=""
            )
        if channel not in IN_FULL:
            raise NotShownInFull(
                "Break the glass on the inbox page or at the command line, where all of the call "
                "is shown."
            )
        if self.in_two_steps and not assurance.gives_away:
            raise SecondFactorNeeded("Breaking the glass takes a second factor here.")
        stopped = covering(directory.freezes, self.origin.app, (self.call.name,))
        glass = Glass(
            by=person.id,
            at=now,
            channel=channel,
            reason=reason,
            despite=tuple(one.id for one in stopped),
        )
        more: dict[str, JsonValue] = {"channel": channel, "digest": self.digest}
        if stopped:
            more["despite"] = list(glass.despite)
        event = self.note(What.GLASS_BROKEN, now=now, by=person.id, why=reason, more=more)
        update = {"glass": glass}
        if self.state is not State.PENDING:
            return self.model_copy(update=update), (event,)
        meaning = meaning_of_yes(self.kind, self.call, self.template, None, reason)
        decision = Decision(
            by=person.id, at=now, channel=channel, reason=reason, payload=meaning.payload
        )
        after, ended = self._end(Transition.APPROVE, decision)
        return after.model_copy(update=update), (event, *ended)

    def take_grant(self, terms: Terms, *, by: str, grant: str, reason: str, now: datetime) -> Moved:
        """Approve by a grant, without asking anybody.

        `signoff.core.grants.grant.Grant.use` judges whether the grant covers the call.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        decision = Decision(by=by, at=now, channel="grant", reason=reason, grant=grant)
        return self._end_unasked(Transition.APPROVE, decision, terms)

    # Ending without a person's answer.

    def time_out(self, *, now: datetime, unheard: str = "") -> Moved:
        """End the last level as the policy says: reject, approve or stay open.

        It approves only a call under the policy's ceiling that needs no values and no second step,
        and that nobody has rejected.

        Args:
            now: The present.
            unheard: Why silence does not approve it, "" if it may.

        Raises:
            IllegalMove: It is not pending, or not late yet.
        """
        self._must_be_pending("time out")
        if not self.is_late(now):
            raise IllegalMove(f"Approval {self.id} is not due yet.")
        stays = self.terms is not None and self.terms.on_timeout is OnTimeout.STAY
        # Not `stays_open`: further levels may follow, but nobody can be asked there.
        if stays and not self.has_closed(now):
            why = "nobody answered in time; by its policy it stays open"
            event = self.note(What.OVERDUE, now=now, by="deadline", why=why)
            return self.model_copy(update={"deadline": None, "reminders": ()}), (event,)
        late = Decision(at=now, channel="deadline", reason=unheard or "nobody answered in time")
        if self.has_closed(now) or unheard or not self._silence_approves():
            return self._end(Transition.TIME_OUT, late)
        why = "nobody answered in time; by its policy that approves what is under the ceiling"
        return self._end(Transition.APPROVE, late.model_copy(update={"reason": why}))

    def refuse(self, *, reason: str, now: datetime, terms: Terms | None = None) -> Moved:
        """Reject it by the settings, without asking anybody.

        Args:
            reason: The reason, which the model reads.
            now: The present.
            terms: The terms of the policy that denies it.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        decision = Decision(at=now, channel="settings", reason=reason)
        return self._end_unasked(Transition.REJECT, decision, terms)

    @property
    def why_not_allowed(self) -> str:
        """Why no policy can allow it without asking anybody, "" if a policy can."""
        if self.kind is Kind.INPUT or missing_fields(self.template, None):
            return "what has to be filled in is asked about"
        return "a call that is in doubt is asked about" if self.origin.again else ""

    def allow(self, terms: Terms, *, now: datetime) -> Moved:
        """Approve it because its policy allows such calls, without asking anybody.

        Raises:
            IllegalMove: It is not pending any more, somebody is asked already, or it cannot be
                allowed; see `why_not_allowed`.
        """
        if why_not := self.why_not_allowed:
            raise IllegalMove(f"Approval {self.id} cannot be allowed: {why_not}.")
        why = f"the policy {terms.policy} allows it"
        decision = Decision(at=now, channel="settings", reason=why)
        return self._end_unasked(Transition.APPROVE, decision, terms)

    def withdraw(self, *, by: str, reason: str, now: datetime) -> Moved:
        """Withdraw the request, for its requester or an operator, or because the run has ended.

        Raises:
            IllegalMove: It has ended.
        """
        said = Decision(by=by, at=now, channel="withdrawn", reason=clean_text(reason))
        return self._end(Transition.WITHDRAW, said)

    # The handoff to the agent.

    @property
    def lets_run(self) -> bool:
        """Whether it lets a tool or a node run. Only an approved confirmation does."""
        return self.state is State.APPROVED and self.kind is Kind.CONFIRMATION

    @property
    def despite(self) -> tuple[str, ...]:
        """The ids of the freezes that do not stop its call."""
        return self.glass.despite if self.glass is not None else ()

    @property
    def is_to_run(self) -> bool:
        """Whether its call was approved and has not started."""
        return self.lets_run and self.handoff is Handoff.RECORDED

    def frozen_by(self, freezes: Iterable[Freeze]) -> tuple[Freeze, ...]:
        """Return the freezes that stop its call, while it is pending or has not started."""
        if not (self.state is State.PENDING or self.is_to_run):
            return ()
        return covering(freezes, self.origin.app, (self.call.name,), despite=self.despite)

    def good_until(self, valid_for: timedelta) -> datetime | None:
        """Return until when its call may be started (UTC), None if it does not start a call.

        Args:
            valid_for: How long an approval is valid if its policy does not say.
        """
        if not self.lets_run or self.decision is None:
            return None
        own = self.terms.valid_for if self.terms is not None else None
        if self.program is not None:
            valid_for = self.program.valid_for
        return self.decision.at + (own or valid_for)

    def has_expired(self, now: datetime, valid_for: timedelta) -> bool:
        """Say whether it is too late to start its call; see `good_until`."""
        until = self.good_until(valid_for)
        return until is not None and now >= until

    def hand_on(
        self,
        handoff: Handoff,
        *,
        now: datetime,
        why: str = "",
        result: str = "",
        by: str = "worker",
    ) -> Moved:
        """Record the next step of the handoff to the agent.

        Raises:
            IllegalMove: `HANDOFFS` does not have this step, or the agent went on although the
                approved tool was not seen to finish. A second start of a tool is refused here. If
                two workers start it at the same time, the version in the ledger stops one of them.
        """
        if handoff not in HANDOFFS[self.handoff]:
            raise IllegalMove(
                f"The answer to approval {self.id} is {self.handoff} and cannot become {handoff}."
            )
        if handoff is Handoff.RESUMED and self.lets_run and self.handoff is not Handoff.FINISHED:
            raise IllegalMove(
                f"Approval {self.id} was given, and the agent went on without {self.call.name}(): "
                "no result of it was seen. It was not run on this approval."
            )
        approval = self.model_copy(
            update={
                "handoff": handoff,
                "result": result or self.result,
                "starts": self.starts + (handoff is Handoff.STARTED),
            }
        )
        what = _HANDOFF_EVENTS.get(handoff)
        return approval, () if what is None else (self.note(what, now=now, by=by, why=why),)

    # Helpers of the moves.

    def note(
        self,
        what: What,
        *,
        now: datetime,
        by: str = "",
        why: str = "",
        more: dict[str, JsonValue] | None = None,
    ) -> Event:
        """Return an event about this approval. The approval does not change."""
        return Event(
            what=what,
            at=now,
            approval=self.id,
            run=self.origin.run,
            by=by,
            why=why,
            more=more or {},
        )

    @property
    def _lasting_seats(self) -> tuple[Seat, ...]:
        """The seats; people who may answer now keep theirs at all later levels.

        People whose limit is too low do not: after their approval, a manager is asked as well.
        """
        ballot = self.ballot
        seats = self.seats or tuple(Seat(person=one) for one in ballot.own)
        may = {*ballot.own, *ballot.stay}
        return tuple(
            one.model_copy(update={"level": STAYS}) if one.person in may and one.covers else one
            for one in seats
        )

    @property
    def _is_short(self) -> bool:
        """Whether the call is so short that any channel shows all of it."""
        seen, template = self._seen
        text = json.dumps([seen.name, seen.args, template], ensure_ascii=False)
        lines = "\\n" in text or "\n" in self.own_hint
        return len(text) + len(self.own_hint) <= _SHORT and not lines

    def _must_be_pending(self, move: str) -> None:
        if self.state is not State.PENDING:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")

    def _must_not_be_own(self, person: Person, directory: Directory) -> None:
        call = f"{self.call.name}()"
        if person.owns(self.origin.user):
            raise OwnRequest(f"{person.shown} asked for {call} and cannot decide it.")
        if directory.may_be(person, self.origin.user):
            raise OwnRequest(
                f"{person.shown} may have asked for {call} under another name, and cannot decide "
                "it."
            )
        if any(directory.may_be(person, one) for one in self.barred):
            raise OwnRequest(
                f"{person.shown} owns the agent that asks for {call}, and cannot decide it."
            )

    def _is_one(self, earlier: str, person: Person, directory: Directory) -> bool:
        """Say whether an id is a person's, also if they had it before the directory changed."""
        if directory.is_one(earlier, person.id) or person.owns(earlier):
            return True
        if directory.record(earlier) is not None:
            return False
        cards = [one for one in self.asked if one.person == earlier]
        reached = {(one.channel, one.address) for one in cards}
        reached |= {("email", mailbox(one.address)) for one in cards}
        return not reached.isdisjoint(accounts_of(person))

    def _must_have_a_seat(self, person: Person, directory: Directory) -> None:
        if person.id in {*(one.person for one in self.seats), *self.ballot.own}:
            return
        handed = [one for one in self.handovers if one.of == person.id]
        if not handed:
            raise NotAnApprover(f"{person.shown} is not asked about approval {self.id}.")
        raise NotAnApprover(
            f"{person.shown}'s place in approval {self.id} went to "
            f"{directory.shown(handed[-1].to)}, who decides it now."
        )

    def _must_not_be_over(self, now: datetime, zone: tzinfo) -> None:
        """Refuse an answer to a level that has ended, even if no timer has recorded that yet."""
        if not self.is_late(now):
            return
        closed = self.has_closed(now)
        following = next(self.terms.after(self.level, self.round), None) if self.terms else None
        if following is not None and self.terms and not (closed or self.terms.stays(following[0])):
            ended = self.within_window(self.deadline) or self.window
            raise Escalated(self._went_on(ended, zone, to=following[0]))
        if closed or (following is None and not self.stays_open):
            raise self.too_late(zone)

    def _went_on(self, at: datetime | None, zone: tzinfo, *, to: int | None = None) -> str:
        """Say to which level it went on."""
        called = self.terms.called(self.level if to is None else to) if self.terms else ""
        when = f" on {moment_text(at, zone)}" if at is not None else ""
        return f"Approval {self.id} went on to {called or 'others'}{when}."

    def _beginning(self, terms: Terms, start: Start) -> dict[str, JsonValue]:
        """Return the details of a level that begins, for the audit."""
        more: dict[str, JsonValue] = {
            "people": list(dict.fromkeys(seat.person for seat in start.seats))
        }
        if called := terms.called(start.level):
            more["level"] = called
        if fresh := [one for one in start.informed if one not in self.informed]:
            more["informed"] = list[JsonValue](fresh)
        return more

    def _begin(self, start: Start, earlier: Sequence[Seat], *, now: datetime) -> Self:
        """Start a level, and keep each seat of earlier levels once."""
        fresh = {(one.person, one.instead_of) for one in start.seats}
        kept = {
            (one.person, one.instead_of): one
            for one in earlier
            if (one.person, one.instead_of) not in fresh
        }
        return self.model_copy(
            update={
                "level": start.level,
                "round": start.round,
                "seats": (*kept.values(), *start.seats),
                "since": now,
                "deadline": self.within_window(start.deadline),
                "reminders": start.reminders,
                "reminded": 0,
                "claimed": None,
                "paused": None,
                "paused_due": (),
                "informed": tuple(dict.fromkeys((*self.informed, *start.informed))),
                "absent": (),
            }
        )

    def _approve(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str,
        values: Mapping[str, JsonValue] | None = None,
    ) -> Moved:
        reason = self._checked_reason(Verdict.APPROVE, reason)
        self._must_not_be_hidden(values or {})
        if self.hides and self.kind is not Kind.INPUT:
            # An error about the values may only quote what people see.
            meaning_of_yes(self.kind, *self._seen, values, reason)
        meaning = meaning_of_yes(self.kind, self.call, self.template, values, reason)
        decision = Decision(
            by=person.id,
            at=now,
            channel=channel,
            reason=reason,
            payload=meaning.payload,
            proposal=meaning.proposal,
            covers=self._covers(meaning.payload, person.id, directory),
        )
        votes = (*self.given, *self.ballot.votes)
        require_same_values(decision, votes, directory, hide=self.hides)
        return self._first_step(decision) if self.in_two_steps else self._count_yes(decision)

    def _covers(self, payload: JsonValue, person: str, directory: Directory) -> bool:
        """Say whether a person's limits cover the values that they entered for arguments."""
        until = self.terms.asking(self.level).until if self.terms is not None else ""
        args, given = self.call.args, payload if isinstance(payload, dict) else {}
        if not until or not args.keys() & given.keys():
            return True
        facts = {**self.facts, "args": {name: given.get(name, one) for name, one in args.items()}}
        mine = (one.holders for one in self.seats_here if one.person == person)
        return any(covers(until, facts, directory.limits(*one)) for one in mine)

    def _checked_reason(self, verdict: Verdict, reason: str) -> str:
        reason = clean_text(reason)
        if self.needs_reason(verdict) and not reason.strip():
            raise ReasonNeeded(
                f"An answer that {verdict.value}s {self.call.name}() needs a reason here.",
                key="",
                read="",
                example="reject: because …" if verdict is Verdict.REJECT else self.example_of_yes,
            )
        return reason

    def _must_not_be_hidden(self, values: Mapping[str, JsonValue]) -> None:
        """Refuse values for fields that hide something from the person.

        Every value is refused, even the right one: otherwise people could test their guesses.
        """
        for name in values:
            if name in self.fixed:
                raise PayloadError(
                    f'"{name}" is hidden by policy, so an approval cannot change it. Approve the '
                    "call as it is, or reject it and say why.",
                    key=name,
                    read=HIDDEN,
                    example="reject: the reason",
                )

    @property
    def _seen(self) -> tuple[ToolCall, JsonValue]:
        """The call and the template as people see them."""
        template = values_without_hidden(self.template, self.hides, blanks=False)
        return call_without_hidden(self.call, self.hides), template

    def _first_step(self, step: Decision) -> Moved:
        if step.channel not in FIRST:
            raise SecondStepNeeded(self._two_steps())
        others = tuple(one for one in self.steps if one.by != step.by)
        event = self.note(
            What.FIRST_STEP, now=step.at, by=step.by, why=step.reason, more=self._details(step)
        )
        return self.model_copy(update={"steps": (*others, step)}), (event,)

    def _two_steps(self) -> str:
        return (
            f"Approval {self.id} takes two steps: answer the message that asked you, and then "
            "confirm your answer on the inbox page."
        )

    def _count_yes(self, decision: Decision) -> Moved:
        # A person who proposes other values rejects the values that were shown.
        verdict = Verdict.APPROVE if decision.proposal is None else Verdict.REJECT
        return self._count(verdict, decision)

    def _count(self, verdict: Verdict, said: Decision) -> Moved:
        """Count an answer, and end the approval if it reaches the quorum or is a veto."""
        vote = Vote(
            stands_for=stands_for(said.by, self.seats),
            level=self.level,
            round=self.round,
            verdict=verdict,
            decision=said,
        )
        # An approval of an earlier phase still counts, whatever the same person answers here.
        given = self.given
        others = tuple(one for one in self.votes if one.by != said.by or one in given)
        after = self.model_copy(
            update={
                "votes": (*others, vote),
                "steps": tuple(one for one in self.steps if one.by != said.by),
            }
        )
        ballot = after.ballot
        if verdict is Verdict.REJECT and ballot.lost:
            return self._end(Transition.REJECT, said, votes=others)
        if verdict is Verdict.APPROVE and ballot.reached and not after.goes_on:
            return self._end(Transition.APPROVE, said, votes=others)
        more = self._details(said)
        more |= {"verdict": verdict.value, "yes": len(ballot.yes), "of": ballot.need}
        return after, (self.note(What.VOTED, now=said.at, by=said.by, why=said.reason, more=more),)

    def _silence_approves(self) -> bool:
        terms = self.terms
        if terms is None or terms.on_timeout is not OnTimeout.APPROVE or not terms.under_ceiling:
            return False
        plain = self.kind is not Kind.INPUT and not missing_fields(self.template, None)
        # Rejections of earlier levels, too, although they do not count any more.
        against = any(one.verdict is Verdict.REJECT for one in self.votes)
        return plain and not terms.second_step and not against

    def _end_unasked(self, move: Transition, decision: Decision, terms: Terms | None) -> Moved:
        """End it by a grant or by the settings, before anybody is asked."""
        if self.terms is not None:
            raise IllegalMove(f"Approval {self.id} is asked already.")
        approval, (event,) = self._end(move, decision)
        if terms is not None and not decision.grant:
            event = event.model_copy(update={"more": {**event.more, "policy": terms.policy}})
        return approval.model_copy(update={"terms": terms}), (event,)

    def _end(
        self, move: Transition, decision: Decision, *, votes: tuple[Vote, ...] | None = None
    ) -> Moved:
        """End it.

        Args:
            move: The move that ends it.
            decision: The decision that ends it.
            votes: The votes to keep, without the last answer, which is stored as the decision. None
                keeps all votes.
        """
        to = TRANSITIONS.get((self.state, move))
        if to is None:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")
        approval = self.model_copy(
            update={
                "state": to,
                "decision": decision,
                "handoff": Handoff.RECORDED,
                "votes": self.votes if votes is None else votes,
            }
        )
        more = self._details(decision)
        if len(approval.decided_by) > 1:
            more["approved_by"] = list(approval.decided_by)
        event = self.note(
            What(to.value), now=decision.at, by=decision.by, why=decision.reason, more=more
        )
        return approval, (event,)

    def _details(self, decision: Decision) -> dict[str, JsonValue]:
        more: dict[str, JsonValue] = {"channel": decision.channel, "digest": self.digest}
        # Hidden values are left out, because the audit is exported to other programs.
        if decision.payload is not None:
            more["payload"] = values_without_hidden(decision.payload, self.hides)
        if decision.proposal is not None:
            more["proposal"] = without_hidden(decision.proposal, self.hides)
        if decision.first_step:
            more["first_step"] = decision.first_step
        if decision.grant:
            more["grant"] = decision.grant
        return more


def _wide_digest(tool: str, args: Mapping[str, JsonValue], origin: Origin, declared: str) -> str:
    about: dict[str, JsonValue] = {
        "agent": origin.agent,
        "app": origin.app,
        "requester": origin.user,
        "declared": declared,
    }
    return digest(tool, args, about)
