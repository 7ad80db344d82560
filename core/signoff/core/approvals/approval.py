"""One approval: what is asked, who is asked, until when, how it ended, how far the answer has come.

`TRANSITIONS` is its life, `HANDOFFS` the way of its answer to the agent. Both are data, and the
diagrams in the documentation are rendered from them. Each legal move is a method that returns the
next `Approval` and the events to record. The moves that decide nothing are functions: `deliveries`
has what became of the cards, `collaboration` has claims, comments and handovers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Final

from pydantic import JsonValue

from signoff.core.approvals.answers import meaning_of_yes, refusal_of_input, template_of
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.hidden import call_without_hidden, values_without_hidden
from signoff.core.approvals.lifecycle import HANDOFFS, TRANSITIONS, Handoff, Move, State
from signoff.core.approvals.parts import (
    FIRST,
    LONGEST_REQUEST,
    SECOND,
    Asked,
    Assurance,
    Claim,
    Comment,
    Decision,
    Extension,
    Glass,
    Handover,
    Kind,
    Origin,
    Program,
    Shown,
    Sort,
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
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import QUEUE
from signoff.core.payloads.digest import digest, require_canonical
from signoff.core.payloads.payload import fields_of, missing_fields
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
    "Move",
    "Moved",
    "Origin",
    "Shown",
    "State",
    "ToolCall",
    "approval_id",
]

IN_FULL: Final = frozenset({"inbox", "cli", "api"})
"""The channels where people open a call and see all of it."""

_CHANNELS: Final = {"email": "mail", "slack": "Slack"}
_SHORT: Final = 160
"""Characters that every channel shows in one piece."""

_WIDE: Final = 1
"""What an approval needs whose digest is over more than the call."""

_HANDOFF_EVENTS: Final = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.EXPIRED: What.EXPIRED,
    Handoff.VOID: What.VOIDED,
    Handoff.FAILED: What.NOT_RESUMED,
}


class Approval(Value):
    """One approval, frozen.

    Attributes:
        id: A function of the origin, so that publishing one pause twice opens one approval.
        origin: The run, session and call it belongs to.
        kind: What is asked for: a confirmation, input, or the result of a long-running call.
        call: The tool and the arguments, as shown and as they will run.
        digest: SHA-256 over the call, its agent, app and requester, and what the tool declares; see
            `digest_of`.
        declared: SHA-256 over the parameters that the tool declares, "" where they are not known.
        hint: The tool's own words for the approver.
        said: What the agent said before the call, at most 2,000 characters; "" where nothing.
        request: What the requester wrote to the agent, at most 500 characters.
        hide: The arguments that may have to be hidden, until its policy is known; see `hides`.
        template: The payload template of `request_confirmation`, or the fields of the input that
            is asked for; None where there is none.
        state: See `TRANSITIONS`.
        handoff: See `HANDOFFS`.
        opened_at: When it was opened (UTC).
        terms: The snapshot of the policy, None until it has been routed.
        asked: Who is asked, and how the delivery went.
        level: The index of the present level, in `Terms.ladder`.
        round: How often the levels have been gone through before.
        seats: Who may decide at this level, and who could at earlier ones. Approvals that were
            routed before levels existed have none: everybody who is asked may decide then.
        votes: The answers that count and have not ended it, at most one from each person.
        reminders: When the approvers of this level are reminded (UTC).
        reminded: How many of these reminders are done.
        barred: Identities that never decide, besides the requester: the owner of the agent.
        since: When this level began (UTC).
        deadline: When this level ends (UTC); None until routed, or when it stays open.
        steps: The first steps that wait for their second, at most one from each person.
        decision: What ended it.
        result: The tool's result as JSON text, once the tool was seen to finish.
        starts: How many times the tool was started on this approval; more than once only where
            the policy allows another run.
        supersedes: The approval that this one replaces: a call in doubt, an approval that has
            expired, or a rejection that proposed this very call.
        superseded_by: The approval of the call that its rejection proposed, once there is one; a
            proposal is taken up once.
        claimed: Who has reserved the decision; `claim_at` says whether the claim still holds.
        comments: Remarks, questions to the requester and their answers, the oldest first.
        extensions: What was added to the deadlines.
        paused: Since when a question to the requester stops the clock of this level (UTC).
        handovers: Seats that went from one person to another, the oldest first.
        reminded_at: When somebody last had the approvers reminded by hand (UTC).
        informed: The ids of those who are told how it stands and do not decide, unless they are
            asked as well.
        reported: Whether those who decided are told what the agent did with it, or that it could do
            nothing.
        absent: The ids of people who were asked at this level, and have left the directory or are
            away since. Who is away may still answer.
        glass: Who has run it alone, although it was frozen or others had to answer.
        receipt: The signed statement about its decision (a JWS in compact form), "" where the
            installation or an earlier release signs none.
        program: The request of a program that runs the call itself, None for a call of an agent
            that Signoff runs.
        traceparent: The context of the turn that opened it, then that of its decision (W3C Trace
            Context); "" where nothing is traced.
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

    # What it is.

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
        """Whether its digest is over more than the tool and the arguments."""
        return self.needs >= _WIDE

    def digest_of(
        self,
        tool: str,
        args: Mapping[str, JsonValue],
        *,
        origin: Origin | None = None,
        declared: str | None = None,
    ) -> str:
        """Return the digest that this approval would have, were it about a call.

        Earlier releases took it over the tool and the arguments alone; what they have opened keeps
        such a digest.

        Args:
            tool: The tool.
            args: Its arguments.
            origin: Where the call comes from; None for where this one does.
            declared: What the tool declares; None for what this approval has.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        if not self.is_wide:
            return digest(tool, args)
        declares = self.declared if declared is None else declared
        return _wide_digest(tool, args, origin or self.origin, declares)

    @property
    def hides(self) -> Hidden:
        """The arguments whose values nobody is shown; see `signoff.core.approvals.masking`."""
        return self.hide if self.terms is None else self.terms.hide

    @property
    def fixed(self) -> frozenset[str]:
        """The fields or arguments that nobody can change who does not see what they hide.

        An empty field of a template can be filled.
        """
        template = template_of(self.kind, self.call, self.template)
        fields = fields_of(template)
        if template is None and self.kind is not Kind.INPUT:
            fields = self.call.args
        return having_hidden(fields, self.hides, blanks=template is None)

    @property
    def own_hint(self) -> str:
        """The tool's own words, "" where ADK only put its standard text.

        The text of FunctionTool(require_confirmation=True) is written for programmers: it would
        tell a manager to "respond with a FunctionResponse".
        """
        return "" if "expected ToolConfirmation payload" in self.hint else self.hint

    @property
    def level_key(self) -> str:
        """The present level, as a text: see `signoff.core.policies.levels.level_key_of`."""
        return level_key_of(self.level, self.round)

    @property
    def is_last_level(self) -> bool:
        """Whether nothing follows the present level."""
        return self.terms is None or not any(self.terms.after(self.level, self.round))

    @property
    def seats_here(self) -> tuple[Seat, ...]:
        """The seats of the present level."""
        here = (self.level, self.round)
        return tuple(one for one in self.seats if (one.level, one.round) == here)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in which it waits at its present level: ``queue:finance``."""
        return tuple(dict.fromkeys(one.via for one in self.seats_here if one.via.startswith(QUEUE)))

    @property
    def open_question(self) -> Comment | None:
        """The latest question to the requester, if they have not answered since."""
        asked = (one for one in reversed(self.comments) if one.sort is not Sort.COMMENT)
        latest = next(asked, None)
        return latest if latest is not None and latest.sort is Sort.QUESTION else None

    @property
    def in_two_steps(self) -> bool:
        """Whether an approval counts only once the person has confirmed it by a second factor."""
        return self.terms is not None and self.terms.second_step

    @property
    def batchable(self) -> bool:
        """Whether it may be approved together with others.

        The policy has to allow it, and a plain yes has to be enough.
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
        """Say whether the policy wants a reason for an answer at this level."""
        return self.terms is not None and verdict in self.terms.asking(self.level).reasons

    def outcome(self, directory: Directory | None = None) -> str:
        """Say in words how it ended, and by whom: "approved by Mara Lind"."""
        words = self.state.value.replace("_", " ")
        if self.decision is None or not self.decision.by:
            return words
        names = [directory.shown(one) if directory else one for one in self.decided_by]
        if self.glass is not None and self.glass.by == self.decision.by:
            return f"{words} by {names[-1]} alone, who broke the glass"
        return f"{words} by {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"

    # Until when.

    @property
    def next_due(self) -> datetime | None:
        """When the next reminder, the end of the level or of a claim is due; None where none is.

        It is the score of the due index.
        """
        reminder = self.reminders[self.reminded : self.reminded + 1]
        claim = (self.claimed.until,) if self.claimed is not None else ()
        moments = (*reminder, self.deadline, *claim, self.window)
        return min((one for one in moments if one is not None), default=None)

    @property
    def window(self) -> datetime | None:
        """From when on it ends undecided whatever its policy says; None where nothing waits so."""
        return self.program.until if self.program is not None else None

    def has_closed(self, now: datetime) -> bool:
        """Say whether its window has passed."""
        return self.window is not None and now >= self.window

    def within_window(self, deadline: datetime | None) -> datetime | None:
        """Return a deadline, or the end of the window where that comes first."""
        if deadline is None or self.window is None:
            return deadline
        return min(deadline, self.window)

    @property
    def stays_open(self) -> bool:
        """Whether its deadline only marks it overdue, so that no answer comes too late."""
        stays = self.terms is not None and self.terms.on_timeout is OnTimeout.STAY
        return stays and self.is_last_level

    def is_late(self, now: datetime) -> bool:
        """Say whether the deadline has passed, or the window has."""
        return self.has_closed(now) or (self.deadline is not None and now >= self.deadline)

    def claim_at(self, now: datetime) -> Claim | None:
        """Return the claim that holds at a moment, None where none does."""
        claim = self.claimed
        if claim is None or self.state is not State.PENDING or now >= claim.until:
            return None
        return claim if claim.by in self.ballot.awaited else None

    # The vote.

    @cached_property
    def ballot(self) -> Ballot:
        """The state of the vote at the present level."""
        own: list[str] = []
        if not self.seats:
            # Routed before there were seats: everybody who has a card, or is asked in a place.
            in_a_place = self.terms is not None and not all(one.person for one in self.asked)
            own = list(self.terms.ask) if self.terms is not None and in_a_place else []
            own += [one.person for one in self.asked if one.person]
        here = (self.level, self.round)
        return count(self.terms, here, seats=self.seats, votes=self.votes, own=own)

    @property
    def approvers(self) -> frozenset[str]:
        """The ids of the people who may answer now."""
        return frozenset(self.ballot.answering)

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
        """Whether its phase has approved it, and the next one is to be asked."""
        if self.state is not State.PENDING or self.terms is None:
            return False
        return self.ballot.reached and (not self._covered or bool(self.behind))

    @property
    def behind(self) -> tuple[tuple[int, int], ...]:
        """The levels of which one is asked when its phase has approved."""
        if self.terms is None:
            return ()
        return tuple(self.terms.behind(self.level, self.round, covered=self._covered))

    @property
    def _covered(self) -> bool:
        """Whether the limit of somebody who has approved at this level covers the call."""
        if self.terms is None or self.terms.chain_of(self.level) is None:
            return True
        yes = self.ballot.yes
        late = (one for one in self.seats if one.level == STAYS)
        return any(one.covers for one in (*self.seats_here, *late) if one.person in yes)

    @property
    def asked_here(self) -> tuple[str, ...]:
        """The ids of the people whose seats those of the present level are."""
        return tuple(dict.fromkeys(one.stands_for for one in self.seats_here)) or self.ballot.own

    @property
    def still_needed(self) -> int:
        """The least number of approvals from here on, as far as the terms say."""
        if self.terms is None:
            return 1
        behind = self.behind if self.passed else ()
        return self.terms.fewest_from(next(iter(behind), (self.level, 0))[0])

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The ids of the people who decided it: everybody who approved, or who rejected it last."""
        if self.decision is None or not self.decision.by:
            return ()
        last = self.decision.by
        if self.state is not State.APPROVED:
            return (last,)
        before = (*(one.by for one in self.given), *self.ballot.yes)
        return (*dict.fromkeys(one for one in before if one != last), last)

    def step_of(self, person: str) -> Decision | None:
        """Return the first step of a person, if it still waits for the second."""
        pending = self.steps if self.state is State.PENDING else ()
        return next((step for step in pending if step.by == person), None)

    # Who may.

    def is_requester(self, person: Person, directory: Directory) -> bool:
        """Say whether a person is the requester, by any of their identities."""
        return directory.same(person.id, self.origin.user) or person.owns(self.origin.user)

    def never_decides(self, person: Person, directory: Directory) -> bool:
        """Say whether a person is, or may be, the requester or an owner of the agent."""
        return any(directory.may_be(person, one) for one in (self.origin.user, *self.barred))

    def concerns(self, person: Person, directory: Directory) -> bool:
        """Say whether a person may see it without any role.

        These are the people who are or were asked, who decided it, the requester, those who are
        informed or may break the glass, and the other members of the queues that it was put into.
        """
        if self.decision is not None and self.decision.by == person.id:
            return True
        asked = {*self.approvers, *self.informed, *(one.of for one in self.handovers)}
        asked |= {one.person for one in self.seats} | {one.person for one in self.asked}
        asked |= set(self.terms.break_glass if self.terms is not None else ())
        names = {one.via.removeprefix(QUEUE) for one in self.seats if one.via.startswith(QUEUE)}
        queues = (directory.queues.get(one) for one in names)
        asked |= {member for one in queues if one is not None for member in one.members}
        return person.id in asked or self.is_requester(person, directory)

    def only_informs(self, person: str) -> bool:
        """Say whether somebody is told how it stands, and was not asked."""
        asked = {*(one.person for one in self.seats), *(one.person for one in self.asked)}
        return person in self.informed and person not in asked

    def shown_to(self, person: str, channel: str) -> Shown:
        """Return how much of the call a person could read by a channel.

        Where nothing is known of a card, a call that any card shows whole counts as shown.

        Args:
            person: The id of the person.
            channel: The channel by which they answer.
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
            NotShownInFull: Some of it was cut, or nobody knows that it was not.
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
        """Refuse a person who may not decide, or not any more, or not now.

        Raises:
            OwnRequest: The person is the requester or owns the agent, by any of their identities.
            NotAnApprover: The person was never asked, has handed over their seat, has answered
                under another id, or shares the seat of an absent person with somebody who has.
            AlreadyDecided: It has been decided.
            Escalated: The person's level is over, whether or not anybody has noticed yet.
            TooLate: The last level is over, whether or not anybody has noticed yet.
            NotYourTurn: Somebody else is asked first.
            Claimed: Somebody else has reserved the decision.
        """
        self._must_not_be_own(person, directory)
        self._must_have_a_seat(person, directory)
        self.must_be_open(directory)
        ballot, zone = self.ballot, directory.zone_of(person.id)
        if person.id not in {*ballot.own, *ballot.stay}:
            raise Escalated(self._went_on(self.since, zone))
        for vote in ballot.votes:
            if vote.by != person.id and directory.is_one(vote.by, person.id):
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

    def must_be_open(self, directory: Directory) -> None:
        """Refuse what comes after the decision.

        Raises:
            AlreadyDecided: It has been decided.
        """
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")

    def may_withdraw(self, person: Person, directory: Directory) -> None:
        """Refuse a person who may not withdraw it: everybody but the requester.

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
            NotCanonical: The arguments have no digest, or the template cannot be kept.
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
        """Put the terms and the people in force; the deadline counts from now.

        Under the terms that are in force already, other people or channels are asked at the
        present level.

        A second step that was needed before stays needed, and so does the number of approvals: a
        mail that bounces must not lower the bar.

        Args:
            terms: The rules.
            asked: Who is asked, by which channel, and who was before.
            now: The present.
            notes: Why others are not asked.
            start: The level that begins; without one everybody who is asked may decide.
            barred: Identities that never decide, besides the requester.
            stranded: Whether others are asked than the policy wants, because it has nobody.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        seats = self.seats
        if terms is not self.terms and start is not None:
            # The people asked so far could not be reached, and may still answer; a phase that has
            # approved has no more to say.
            passed = self.passed
            seats = tuple(
                one.model_copy(update={"level": OVER}) if passed or one.level != STAYS else one
                for one in self._lasting_seats
            )
        if self.in_two_steps:
            terms = terms.model_copy(update={"second_step": True})
        if terms is not self.terms and self.terms is not None:
            at_least = max(terms.at_least, self.still_needed)
            terms = terms.shown_like(self.terms).telling_as(self.terms)
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
        # A default that helps out is no reason to leave the policy broken.
        alarm = [self.note(What.UNROUTABLE, now=now, by="router", why=why)] if stranded else []
        what = What.ASKED if asked else What.UNROUTABLE
        event = self.note(what, now=now, by="router", why=why, more=more)
        return approval, (*alarm, event) if asked else (event,)

    def asked_too(self, fresh: Sequence[Asked], *, now: datetime) -> Moved:
        """Add the cards of a level that has begun, or of the people whose turn it is now.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        more: dict[str, JsonValue] = {"people": [one.key for one in fresh]}
        if self.terms is not None:
            more["policy"] = self.terms.policy
            if called := self.terms.called(self.level):
                more["level"] = called
        event = self.note(What.ASKED, now=now, by="router", more=more)
        asked = with_cards(self.asked, fresh, self.level_key)
        return self.model_copy(update={"asked": asked}), (event,)

    def escalate(
        self, start: Start, *, now: datetime, notes: Sequence[str] = (), unreached: bool = False
    ) -> Moved:
        """Go on to another level; see `signoff.core.routing.escalation`.

        Args:
            start: The level that begins.
            now: The present.
            notes: Why, and why others are not asked.
            unreached: Whether it goes on because nobody of this level was reached; those people
                may still answer at every later level.

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

    def pass_on(self, start: Start, *, now: datetime, notes: Sequence[str] = ()) -> Moved:
        """Go on to the next phase, because this one has approved; see `escalation.pass_on`.

        Approvals of earlier phases count there as well, unless the policy asks people twice.

        Raises:
            IllegalMove: Its phase has not approved it, or is the last.
        """
        if not self.passed or self.terms is None:
            raise IllegalMove(f"Approval {self.id} has no phase to go on to.")
        more, by = self._beginning(self.terms, start), self.votes[-1].by
        event = self.note(What.PASSED, now=now, by=by, why="; ".join(notes), more=more)
        # Nobody of a phase that is over may answer at the next, unless they are asked there.
        seats = [one for one in self.seats if one.level != STAYS]
        begun, counted = self._begin(start, seats, now=now).count_earlier(now=now)
        return begun, (event, *counted)

    def count_earlier(self, *, now: datetime) -> Moved:
        """Count the approvals of earlier phases that people of this level have given."""
        if self.terms is None or self.terms.ask_twice:
            return self, ()
        said, events, after = {one.by: one for one in self.given}, list[Event](), self
        for person in self.ballot.own:
            vote = said.get(person)
            unsaid = vote is not None and not vote.decision.reason.strip()
            if vote is None or (unsaid and self.needs_reason(Verdict.APPROVE)):
                continue
            place = {"level": self.level, "round": self.round, "stands_for": person}
            votes = (*after.votes, vote.model_copy(update=place))
            after = after.model_copy(update={"votes": votes})
            why = "has approved it in an earlier phase, which counts here as well"
            yes, of = len(after.ballot.yes), after.ballot.need
            more: dict[str, JsonValue] = {"verdict": "approve", "yes": yes, "of": of}
            events.append(self.note(What.VOTED, now=now, by=person, why=why, more=more))
        if events and after.ballot.reached and not after.passed:
            *others, last = after.votes
            decision = last.decision.model_copy(update={"at": now})
            ended, ends = self._end(Move.APPROVE, decision, votes=tuple(others))
            return ended, (*events, *ends)
        return after, tuple(events)

    def remind(self, *, now: datetime) -> Moved:
        """Remind the people whose answer is awaited; nothing changes where it is not time.

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
        """Approve, with values where the tool has a payload template.

        Without a template a call runs exactly as it was shown. Values that differ from its
        arguments then are a rejection that says what would be approved: the agent is asked to
        propose exactly that call. A request for input is approved by answering it.

        Where the terms want a second step this is the first: it is kept and decides nothing until
        the person confirms it. Another first step of the same person replaces it.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            NotShownInFull: The channel has not shown them all of the call. A first step does not
                need that: the second is taken where all of it is shown.
            SecondStepNeeded: This channel cannot even take a first step.
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
        """Approve the very call that a person has proposed.

        The values are their own, and the rest was shown to them with the call that they changed;
        so no card has to show it again.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
        """
        self.may_decide(person, directory, now=now)
        return self._approve(person, directory, channel=channel, now=now, reason=reason)

    def confirm(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, mark: str
    ) -> Moved:
        """Take the second step: the answer that the person gave before counts from now on.

        Args:
            person: Whose first step it is, and who has proven a second factor.
            directory: The people.
            channel: One of `signoff.core.approvals.parts.SECOND`.
            now: The present.
            mark: `mark_of` the first step that the person was shown.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            SecondStepNeeded: There is no first step, or the channel proves no second factor.
            StepChanged: The first step is not the one that was shown.
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
        require_same_values(step, (*self.given, *self.ballot.votes), directory)
        update = {"at": now, "channel": channel, "first_step": step.channel}
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
        """Reject, with a reason for the model; a request for input with the answer that says no.

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
        """Refuse to let a person run the call alone.

        Raises:
            OwnRequest: The person is the requester or owns the agent.
            NotAnApprover: The policy does not name them in `break_glass`.
            AlreadyDecided: It has been decided, and is not frozen.
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
        """Run a call that is frozen or unanswered: one person whom the policy names, alone.

        The freezes of this moment do not stop the call; a later one does.

        Raises:
            DecisionRefused: The person may not; see `may_break_glass`.
            ReasonNeeded: There is no reason.
            NotShownInFull: The channel does not show all of the call to everybody.
            SecondFactorNeeded: The policy wants a second factor.
            PayloadError: There are values to be filled in.
        """
        self.may_break_glass(person, directory, now=now)
        reason = clean_text(reason).strip()
        if not reason:
            raise ReasonNeeded(
                "Say why: everybody who is asked reads it.", key="", read="", example=""
            )
        if channel not in IN_FULL:
            raise NotShownInFull(
                "The glass is broken on the inbox page or at the command line, where all of the "
                "call is shown."
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
        after, ended = self._end(Move.APPROVE, decision)
        return after.model_copy(update=update), (event, *ended)

    def take_grant(self, terms: Terms, *, by: str, grant: str, reason: str, now: datetime) -> Moved:
        """Approve by a grant: somebody has approved calls like this one before. Nobody is asked.

        `signoff.core.grants.grant.Grant.use` judges whether the grant covers the call.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        decision = Decision(by=by, at=now, channel="grant", reason=reason, grant=grant)
        return self._end_unasked(Move.APPROVE, decision, terms)

    # Ending without a person's answer.

    def time_out(self, *, now: datetime) -> Moved:
        """Do what the policy says about the end of the last level: reject, approve or stay open.

        It approves only what is under the policy's ceiling, has no values to fill, takes no second
        step, and has not been rejected by anybody.

        Raises:
            IllegalMove: It is not pending, or not yet late.
        """
        self._must_be_pending("time out")
        if not self.is_late(now):
            raise IllegalMove(f"Approval {self.id} is not due yet.")
        if self.stays_open and not self.has_closed(now):
            why = "nobody answered in time; by its policy it stays open"
            event = self.note(What.OVERDUE, now=now, by="deadline", why=why)
            return self.model_copy(update={"deadline": None, "reminders": ()}), (event,)
        late = Decision(at=now, channel="deadline", reason="nobody answered in time")
        if self.has_closed(now) or not self._silence_approves():
            return self._end(Move.TIME_OUT, late)
        why = "nobody answered in time; by its policy that approves what is under the ceiling"
        return self._end(Move.APPROVE, late.model_copy(update={"reason": why}))

    def refuse(self, *, reason: str, now: datetime, terms: Terms | None = None) -> Moved:
        """Reject it because the settings do, without asking anybody.

        Args:
            reason: Why; the model reads it.
            now: The present.
            terms: Those of the policy that denies it.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        decision = Decision(at=now, channel="settings", reason=reason)
        return self._end_unasked(Move.REJECT, decision, terms)

    @property
    def why_not_allowed(self) -> str:
        """Why no policy can allow it without asking anybody, "" where one can."""
        if self.kind is Kind.INPUT or missing_fields(self.template, None):
            return "what has to be filled in is asked about"
        return "a call that is in doubt is asked about" if self.origin.again else ""

    def allow(self, terms: Terms, *, now: datetime) -> Moved:
        """Approve it because its policy allows such calls, without asking anybody.

        Args:
            terms: Those of the policy.
            now: The present.

        Raises:
            IllegalMove: It is not pending any more, somebody is asked already, or it cannot be
                allowed; see `why_not_allowed`.
        """
        if why_not := self.why_not_allowed:
            raise IllegalMove(f"Approval {self.id} cannot be allowed: {why_not}.")
        why = f"the policy {terms.policy} allows it"
        decision = Decision(at=now, channel="settings", reason=why)
        return self._end_unasked(Move.APPROVE, decision, terms)

    def withdraw(self, *, by: str, reason: str, now: datetime) -> Moved:
        """Take the request back, because the requester did or because the run ended.

        Raises:
            IllegalMove: It has ended.
        """
        said = Decision(by=by, at=now, channel="withdrawn", reason=clean_text(reason))
        return self._end(Move.WITHDRAW, said)

    def supersede(self, *, reason: str, now: datetime) -> Moved:
        """Void the request because another one has replaced it.

        Raises:
            IllegalMove: It has ended.
        """
        return self._end(Move.SUPERSEDE, Decision(at=now, channel="superseded", reason=reason))

    # Handing the answer to the agent.

    @property
    def lets_run(self) -> bool:
        """Whether it lets a tool or a node run: the answer to a question does not."""
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
        """Return until when its call may be started (UTC); None where nothing is to be started.

        Args:
            valid_for: How long an approval is good for whose policy does not say.
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
        """Record the next step of the answer on its way to the agent.

        Raises:
            IllegalMove: `HANDOFFS` does not have this step, or the answer is to count as handed on
                and lets a tool run that was not seen to finish. A second start of a tool is refused
                here, and by the version in the ledger where two start it at the same time.
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

    def ask_again(self, *, now: datetime) -> Moved:
        """Open another approval for a call that is in doubt: shall it run again?

        Raises:
            IllegalMove: It is not in doubt.
        """
        if self.handoff is not Handoff.IN_DOUBT:
            raise IllegalMove(f"Approval {self.id} is not in doubt.")
        ran = "The worker died" if self.program is None else "The program stopped"
        return self._reopened(
            {"again": self.origin.again + 1},
            hint=f"{ran} while {self.call.name} ran: it may or may not have happened. "
            "Look first. Run it again?",
            # The values of the first answer are in the session, and the tool will get those.
            template=None,
            now=now,
        )

    def expire(
        self, *, now: datetime, valid_for: timedelta
    ) -> tuple[Approval, Approval, tuple[Event, ...]]:
        """Give up an approval that is too old to start its call, and ask about the call again.

        Returns:
            The approval, another one for the same call that is not routed yet, and the events of
            both.

        Raises:
            IllegalMove: The approval is still good, or the call was started.
        """
        until = self.good_until(valid_for)
        if until is None or now < until:
            raise IllegalMove(f"The yes to approval {self.id} has not expired.")
        said = f"{self.call.name}() was {self.outcome()}, and that was good until "
        said += f"{moment_text(until, UTC)}. It could not be started by then"
        after, noted = self.hand_on(Handoff.EXPIRED, now=now, why=said)
        question, opened = self._reopened(
            {"expired": self.origin.expired + 1},
            hint=f"{said}. Is it still wanted? {self.own_hint}",
            template=self.template,
            now=now,
        )
        return after, question, (*noted, *opened)

    def void(self, *, why: str, now: datetime) -> tuple[Approval, Approval, tuple[Event, ...]]:
        """Give up an answer that nothing proves, and ask about the call again.

        Args:
            why: What is wrong with it.
            now: The present.

        Returns:
            The approval, another one for the same call that is not routed yet, and the events of
            both.
        """
        after, noted = self.hand_on(Handoff.VOID, now=now, why=why)
        question, opened = self._reopened(
            {"expired": self.origin.expired + 1},
            hint=f"The ledger says that this was {self.state.value.replace('_', ' ')}, and nothing "
            f"proves it: {why}. Nothing was run. Is it wanted? {self.own_hint}",
            template=self.template,
            now=now,
        )
        return after, question, (*noted, *opened)

    def ask_about_change(
        self, call: ToolCall, *, agent: str, declared: str, made: str, why: str, now: datetime
    ) -> tuple[Approval, Approval, tuple[Event, ...]]:
        """Give up a yes to a call that would now run otherwise, and ask about it as it would run.

        Args:
            call: What would run.
            agent: The agent that would call it.
            declared: What the tool declares by now; see `declared`.
            made: See `Origin.made`.
            why: What has changed, as a sentence.
            now: The present.

        Returns:
            The approval, another one for the call that is not routed yet, and the events of both.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        after, noted = self.hand_on(Handoff.VOID, now=now, why=why)
        question, opened = self._reopened(
            {"expired": self.origin.expired + 1, "agent": agent, "made": made},
            hint=f"This was {self.outcome()}. {why} Nothing was run. Is it still wanted? "
            f"{self.own_hint}",
            template=self.template,
            now=now,
            call=call,
            declared=declared,
        )
        return after, question, (*noted, *opened)

    def _reopened(
        self,
        origin: Mapping[str, JsonValue],
        *,
        hint: str,
        template: JsonValue,
        now: datetime,
        call: ToolCall | None = None,
        declared: str | None = None,
    ) -> Moved:
        """Open another approval in the place of this one, with what was said before the call."""
        program = self.program
        if program is not None:
            program = program.not_started(now + (program.until - self.opened_at))
        return self.open(
            self.origin.model_copy(update=origin),
            call or self.call,
            kind=self.kind,
            hint=hint.rstrip(),
            said=self.said,
            request=self.request,
            hide=tuple(dict.fromkeys((*self.hide, *self.hides))),
            template=template,
            now=now,
            supersedes=self.id,
            program=program,
            declared=self.declared if declared is None else declared,
        )

    # What the moves are made of.

    def note(
        self,
        what: What,
        *,
        now: datetime,
        by: str = "",
        why: str = "",
        more: dict[str, JsonValue] | None = None,
    ) -> Event:
        """Return an event about this approval; nothing changes in it."""
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
        """The seats, where the people who may answer now keep theirs to the end.

        People whose limit is too low do not: their yes is only a step on the way up.
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
        """Refuse an answer to a level that is over, whether or not anybody has noticed yet."""
        if not self.is_late(now):
            return
        deadline = self.within_window(self.deadline) or self.window
        if deadline is None:
            return
        closed = self.has_closed(now)
        following = next(self.terms.after(self.level, self.round), None) if self.terms else None
        if following is not None and self.terms and not (closed or self.terms.stays(following[0])):
            raise Escalated(self._went_on(deadline, zone, to=following[0]))
        if closed or (following is None and not self.stays_open):
            raise TooLate(
                f"Approval {self.id} expired on {moment_text(deadline, zone)}; "
                "nothing was done. The request has to be made again."
            )

    def _went_on(self, at: datetime | None, zone: tzinfo, *, to: int | None = None) -> str:
        """Say where it went when a level was over."""
        called = self.terms.called(self.level if to is None else to) if self.terms else ""
        when = f" on {moment_text(at, zone)}" if at is not None else ""
        return f"Approval {self.id} went on to {called or 'others'}{when}."

    def _beginning(self, terms: Terms, start: Start) -> dict[str, JsonValue]:
        """Return what the audit is told about a level that begins."""
        more: dict[str, JsonValue] = {
            "people": list(dict.fromkeys(seat.person for seat in start.seats))
        }
        if called := terms.called(start.level):
            more["level"] = called
        if fresh := [one for one in start.informed if one not in self.informed]:
            more["informed"] = list[JsonValue](fresh)
        return more

    def _begin(self, start: Start, earlier: Sequence[Seat], *, now: datetime) -> Approval:
        """Begin a level; the seats of earlier ones are kept, once each."""
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
            # What is wrong with the values is said in words of what people see.
            meaning_of_yes(self.kind, *self._seen, values, reason)
        meaning = meaning_of_yes(self.kind, self.call, self.template, values, reason)
        decision = Decision(
            by=person.id,
            at=now,
            channel=channel,
            reason=reason,
            payload=meaning.payload,
            proposal=meaning.proposal,
        )
        votes = (*self.given, *self.ballot.votes)
        require_same_values(decision, votes, directory, hide=self.hides)
        return self._first_step(decision) if self.in_two_steps else self._count_yes(decision)

    def _checked_reason(self, verdict: Verdict, reason: str) -> str:
        reason = clean_text(reason)
        if self.needs_reason(verdict) and not reason.strip():
            raise ReasonNeeded(
                f"An answer that {verdict.value}s {self.call.name}() needs a reason here.",
                key="",
                read="",
                example=f"{verdict.value}: because …",
            )
        return reason

    def _must_not_be_hidden(self, values: Mapping[str, JsonValue]) -> None:
        """Refuse values in the place of others that the person could not see.

        Whether a guess is right must not be found out either, so it does not matter what they are.
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
        # Other values than were shown are a no to what was shown.
        verdict = Verdict.APPROVE if decision.proposal is None else Verdict.REJECT
        return self._count(verdict, decision)

    def _count(self, verdict: Verdict, said: Decision) -> Moved:
        """Count an answer, and end the approval where the quorum or a veto is reached."""
        vote = Vote(
            stands_for=stands_for(said.by, self.seats),
            level=self.level,
            round=self.round,
            verdict=verdict,
            decision=said,
        )
        # An approval of an earlier phase stands, whatever the same person answers here.
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
            return self._end(Move.REJECT, said, votes=others)
        if verdict is Verdict.APPROVE and ballot.reached and not after.passed:
            return self._end(Move.APPROVE, said, votes=others)
        more = self._details(said)
        more |= {"verdict": verdict.value, "yes": len(ballot.yes), "of": ballot.need}
        return after, (self.note(What.VOTED, now=said.at, by=said.by, why=said.reason, more=more),)

    def _silence_approves(self) -> bool:
        terms = self.terms
        if terms is None or terms.on_timeout is not OnTimeout.APPROVE or not terms.under_ceiling:
            return False
        plain = self.kind is not Kind.INPUT and not missing_fields(self.template, None)
        return plain and not terms.second_step and not self.ballot.no

    def _end_unasked(self, move: Move, decision: Decision, terms: Terms | None) -> Moved:
        """End it by a grant or by the settings, which is possible while nobody is asked."""
        if self.terms is not None:
            raise IllegalMove(f"Approval {self.id} is asked already.")
        approval, (event,) = self._end(move, decision)
        if terms is not None and not decision.grant:
            event = event.model_copy(update={"more": {**event.more, "policy": terms.policy}})
        return approval.model_copy(update={"terms": terms}), (event,)

    def _end(
        self, move: Move, decision: Decision, *, votes: tuple[Vote, ...] | None = None
    ) -> Moved:
        """End it.

        Args:
            move: How.
            decision: What ends it.
            votes: The votes of others; the last answer is kept as the decision alone.
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
        # The audit is exported, and feeds other programs.
        if decision.payload is not None:
            more["payload"] = values_without_hidden(decision.payload, self.hides)
        if decision.proposal is not None:
            more["proposal"] = without_hidden(decision.proposal, self.hides)
        if decision.first_step:
            more["first_step"] = decision.first_step
        if decision.grant:
            more["grant"] = decision.grant
        return more


Moved = tuple[Approval, tuple[Event, ...]]
"""What a move returns: the next approval, and the events to record."""


def _wide_digest(tool: str, args: Mapping[str, JsonValue], origin: Origin, declared: str) -> str:
    about: dict[str, JsonValue] = {
        "agent": origin.agent,
        "app": origin.app,
        "requester": origin.user,
        "declared": declared,
    }
    return digest(tool, args, about)
