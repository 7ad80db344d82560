"""What is asked, of whom and until when: everything about an approval but its moves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Final, Self

from pydantic import JsonValue

from signoff.core.approvals.events import Event, What
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Asked, Decision, Kind, Origin, Shown, ToolCall
from signoff.core.approvals.voting import Ballot, count
from signoff.core.base.errors import (
    AlreadyDecided,
    Escalated,
    IllegalMove,
    NotAnApprover,
    NotShownInFull,
    NotYourTurn,
    OwnRequest,
    TooLate,
)
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import STAYS, Outcome, Seat, Vote, turn_of
from signoff.core.policies.policy import OnOutOfOffice, OnTimeout, Terms

IN_FULL: Final = frozenset({"inbox", "cli", "api"})
"""The channels by which people look at a call themselves, and see all of it."""

_CHANNELS: Final = {"email": "mail", "slack": "Slack"}
_SHORT: Final = 160
"""Characters that every channel shows in one piece."""


class Question(Value):
    """One approval, as it stands: its moves are those of `Approval`.

    Attributes:
        id: A function of the origin, so that publishing one pause twice opens one approval.
        origin: The run, session and call it belongs to.
        kind: What is asked for: a confirmation, input, or the result of a long-running call.
        call: The tool and the arguments, as shown and as they will run.
        digest: `signoff.core.payloads.digest` of the call.
        hint: The tool's own words for the approver.
        said: What the agent said before the call, at most 2,000 characters; "" where nothing.
        template: The payload template of `request_confirmation`, or the fields of the input that
            is asked for; None where there is none.
        state: See `TRANSITIONS`.
        handoff: See `HANDOFFS`.
        opened_at: When it was opened (UTC).
        terms: The snapshot of the policy, None until it has been routed.
        asked: Who is asked, and how the delivery went.
        level: The index of the level that is asked, in `Terms.ladder`.
        round: How often the levels have been gone through before.
        seats: Who may decide at this level, and who could at earlier ones; empty in what was routed
            before there were levels: those who are asked may decide then.
        votes: The answers that count and have not ended it, at most one of each person.
        reminders: When those of this level are reminded (UTC).
        reminded: How many of these have come.
        barred: Identities that never decide, besides the requester: whoever owns the agent.
        since: When this level began (UTC).
        deadline: When this level ends (UTC), None until routed, or when it stays open.
        steps: The first steps of those whose yes waits for their second, at most one of each.
        decision: What ended it.
        result: The tool's result as JSON text, once it was seen to finish.
        starts: How many times the tool was started on this approval; more than once only where
            the policy says that it may be run again.
        supersedes: The approval that this one takes the place of: the call that was in doubt, the
            yes that has expired, or the rejection that proposed this very call.
        superseded_by: The approval of the call that its rejection proposed, once there is one: a
            proposal is taken up once.
        version: Counts the commits; the ledger refuses a write that is not based on the last one.
    """

    id: str
    origin: Origin
    kind: Kind = Kind.CONFIRMATION
    call: ToolCall
    digest: str
    hint: str = ""
    said: str = ""
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
    version: int = 0

    def delivered(
        self,
        key: str,
        channel: str,
        receipt: str,
        *,
        now: datetime,
        copy_state: str = "",
        shown: Shown = Shown.UNKNOWN,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card has reached its channel.

        Args:
            key: Whose card; see `Asked.key`.
            channel: Its name.
            receipt: What the channel calls it.
            now: The present.
            copy_state: See `Asked`.
            shown: How much of the call the card shows.
        """
        more: dict[str, JsonValue] = {"to": key}
        if copy_state:
            more["copy"] = copy_state
        if shown is Shown.CUT:
            more["shown"] = shown.value
        event = self.note(What.DELIVERED, now=now, by=channel, more=more)
        changed = self._with_asked(
            key, channel, receipt=receipt, problem="", copy_state=copy_state, shown=shown
        )
        return changed, (event,)

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

    def must_be_shown(self, person: str, channel: str) -> None:
        """Refuse a yes by a channel that has not shown all of the call.

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

    @property
    def own_hint(self) -> str:
        """The tool's own words, "" where ADK only put its standard text.

        What FunctionTool(require_confirmation=True) writes is for programmers: it would tell a
        manager to "respond with a FunctionResponse".
        """
        return "" if "expected ToolConfirmation payload" in self.hint else self.hint

    @property
    def _is_short(self) -> bool:
        """Whether the call is so short that any channel shows all of it."""
        text = json.dumps([self.call.name, self.call.args, self.template], ensure_ascii=False)
        lines = "\\n" in text or "\n" in self.own_hint
        return len(text) + len(self.own_hint) <= _SHORT and not lines

    def also_asked(self, fresh: Sequence[Asked], turn: str) -> tuple[Asked, ...]:
        """Return who is asked when cards of a level are delivered too.

        Whoever has had one by the same channel gets another; the receipt of the first is kept.
        """
        asked = {(one.key, one.channel): one for one in self.asked}
        for one in fresh:
            was = asked.get((one.key, one.channel))
            copies = (*was.copies, *filter(None, [was.receipt])) if was is not None else ()
            asked[one.key, one.channel] = one.model_copy(update={"copies": copies, "turn": turn})
        return tuple(asked.values())

    def rewritten(
        self, key: str, channel: str, copy_state: str = "", shown: Shown = Shown.UNKNOWN
    ) -> Self:
        """Note what became of a card since; what is not said stays. See `Asked`."""
        said: dict[str, str] = {"copy_state": copy_state, "shown": shown}
        return self._with_asked(key, channel, **{name: one for name, one in said.items() if one})

    def found_copy(
        self,
        key: str,
        channel: str,
        receipt: str,
        *,
        now: datetime,
        shown: Shown = Shown.UNKNOWN,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note a card that is there although its delivery was never heard of."""
        asked = next((one for one in self.asked if (one.key, one.channel) == (key, channel)), None)
        if asked is None or receipt in (asked.receipt, *asked.copies):
            return self, ()
        if not asked.receipt:
            return self.delivered(
                key, channel, receipt, now=now, copy_state="reconciled", shown=shown
            )
        event = self.note(What.DELIVERED, now=now, by=channel, more={"to": key, "copy": "second"})
        return self._with_asked(key, channel, copies=(*asked.copies, receipt)), (event,)

    def undelivered(
        self, key: str, channel: str, problem: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card can never reach this person or place through this channel."""
        event = self.note(What.UNDELIVERED, now=now, by=channel, why=problem, more={"to": key})
        return self._with_asked(key, channel, problem=problem), (event,)

    @property
    def turn(self) -> str:
        """The present level, as a text: see `signoff.core.policies.levels.turn_of`."""
        return turn_of(self.level, self.round)

    @property
    def ballot(self) -> Ballot:
        """Where the present level stands."""
        own: list[str] = []
        if not self.seats:
            # Routed before there were seats: whoever has a card, or is asked in a place.
            in_a_place = self.terms is not None and not all(one.person for one in self.asked)
            own = list(self.terms.ask) if self.terms is not None and in_a_place else []
            own += [one.person for one in self.asked if one.person]
        here = (self.level, self.round)
        return count(self.terms, here, seats=self.seats, votes=self.votes, own=own)

    @property
    def given(self) -> tuple[Vote, ...]:
        """The yeses by which earlier stages have approved it."""
        return tuple(
            one
            for one in self.votes
            if self.terms is not None
            and one.verdict is Outcome.APPROVE
            and not self.terms.same_stage(one.level, self.level)
        )

    @property
    def passed(self) -> bool:
        """Whether its stage has approved it, and the next one is to be asked."""
        if self.state is not State.PENDING or self.terms is None:
            return False
        return self.ballot.reached and (not self._covered or bool(self.behind))

    @property
    def behind(self) -> tuple[tuple[int, int], ...]:
        """The levels of which one is asked when its stage has approved."""
        if self.terms is None:
            return ()
        return tuple(self.terms.behind(self.level, self.round, covered=self._covered))

    @property
    def _covered(self) -> bool:
        """Whether the limit of somebody who has approved at this level covers it."""
        if self.terms is None or self.terms.chain_of(self.level) is None:
            return True
        here, yes = (self.level, self.round), self.ballot.yes
        return any(
            one.covers for one in self.seats if one.person in yes and (one.level, one.round) == here
        )

    @property
    def asked_here(self) -> tuple[str, ...]:
        """The ids of those whose seats those of the present level are."""
        here = (self.level, self.round)
        seats = [one for one in self.seats if (one.level, one.round) == here]
        return tuple(dict.fromkeys(one.stands_for for one in seats)) or self.ballot.own

    @property
    def still_needed(self) -> int:
        """How many yeses it takes at the least from here on, as far as the terms say."""
        if self.terms is None:
            return 1
        behind = self.behind if self.passed else ()
        return self.terms.fewest_from(next(iter(behind), (self.level, 0))[0])

    @property
    def lasting_seats(self) -> tuple[Seat, ...]:
        """The seats, where whoever has one of those that count now keeps it to the end."""
        ballot = self.ballot
        seats = self.seats or tuple(Seat(person=one) for one in ballot.own)
        may = {*ballot.own, *ballot.stay}
        return tuple(
            one.model_copy(update={"level": STAYS}) if one.person in may else one for one in seats
        )

    @property
    def approvers(self) -> frozenset[str]:
        """The ids of those who may answer now."""
        return frozenset(self.ballot.answering)

    @property
    def is_last_level(self) -> bool:
        """Whether nothing follows the present level."""
        return self.terms is None or not any(self.terms.after(self.level, self.round))

    @property
    def facts(self) -> dict[str, JsonValue]:
        """What the conditions of policies and grants are about."""
        return {
            "app": self.origin.app,
            "agent": self.origin.agent,
            "tool": self.call.name,
            "args": dict(self.call.args),
            "user": self.origin.user,
        }

    def delayed(self, person: str, channel: str, why: str, *, now: datetime) -> Event:
        """Return that a card is on its way for longer than usual, which changes nothing."""
        return self.note(What.DELAYED, now=now, by=channel, why=why, more={"to": person})

    def absent(
        self, person: str, channel: str, why: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a person has an out-of-office reply; what that means is for the terms to say.

        The person may still answer.
        """
        event = self.note(What.AWAY, now=now, by=person, why=why, more={"channel": channel})
        return self._with_asked(person, channel, away=why), (event,)

    @property
    def reachable(self) -> bool:
        """Whether somebody whose answer is awaited got the card, or may still, and is heard from.

        By the policy's word a person with an out-of-office reply is none of these.
        """
        moves_on = self.terms is not None and (self.terms.on_out_of_office is OnOutOfOffice.DEFAULT)
        awaited = self.ballot.awaited
        return any(
            not (asked.problem or (moves_on and asked.away))
            for asked in self.asked
            if (asked.person in awaited if asked.person else asked.turn == self.turn)
        )

    @property
    def unreached(self) -> tuple[str, ...]:
        """The ids of those whose answer is awaited and who got no card: every one was refused.

        By the policy's word a person with an out-of-office reply got none either.
        """
        moves_on = self.terms is not None and (self.terms.on_out_of_office is OnOutOfOffice.DEFAULT)
        place = [one for one in self.asked if not one.person and one.turn == self.turn]
        found = []
        for person in self.ballot.awaited:
            cards = [*(one for one in self.asked if one.person == person), *place]
            if cards and all(one.problem or (moves_on and one.away) for one in cards):
                found.append(person)
        return tuple(found)

    @property
    def can_be_met(self) -> bool:
        """Whether those who can still answer at this level are enough to approve it."""
        ballot = self.ballot
        gone = {*self.unreached, *ballot.no}
        return ballot.can_reach(one for one in (*ballot.own, *ballot.stay) if one not in gone)

    def may_decide(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse whoever may not decide, or may not any more.

        Raises:
            OwnRequest: The person is the requester or owns the agent, by any of their identities.
            NotAnApprover: The person was never asked, or has answered under another id.
            AlreadyDecided: It has been decided.
            Escalated: The person's level is over, whether or not anybody has noticed yet.
            NotYourTurn: Somebody else is asked first.
            TooLate: The last level is over, whether or not anybody has noticed yet.
        """
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
        ballot = self.ballot
        seated = {one.person for one in self.seats} | {*ballot.own}
        if person.id not in seated:
            raise NotAnApprover(f"{person.shown} is not asked about approval {self.id}.")
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")
        if person.id not in {*ballot.own, *ballot.stay}:
            raise Escalated(self._went_on(self.since))
        for vote in ballot.votes:
            if vote.by != person.id and directory.is_one(vote.by, person.id):
                raise NotAnApprover(
                    f"{person.shown} has answered approval {self.id} already, as {vote.by}. "
                    "Everybody counts once."
                )
        if self.is_late(now):
            following = next(self.terms.after(self.level, self.round), None) if self.terms else None
            if following is not None and self.terms and not self.terms.stays(following[0]):
                raise Escalated(self._went_on(self.deadline, to=following[0]))
            if following is None and not self.stays_open:
                raise TooLate(
                    f"Approval {self.id} expired at {self.deadline:%Y-%m-%d %H:%M} UTC; "
                    "nothing was done. The request has to be made again."
                )
        if person.id not in ballot.answering:
            first = directory.get(ballot.awaited[0])
            name = first.shown if first else ballot.awaited[0]
            raise NotYourTurn(f"{name} is asked about approval {self.id} before {person.shown}.")

    def _went_on(self, at: datetime | None, *, to: int | None = None) -> str:
        """Say where it went when a level was over."""
        called = self.terms.called(self.level if to is None else to) if self.terms else ""
        when = f" at {at:%Y-%m-%d %H:%M} UTC" if at is not None else ""
        return f"Approval {self.id} went on to {called or 'others'}{when}."

    @property
    def next_due(self) -> datetime | None:
        """The next moment at which anything is to do, whatever people do; None where there is none.

        The due index is scored by it: a reminder, or the end of the level.
        """
        moments = (*self.reminders[self.reminded : self.reminded + 1], self.deadline)
        return min((one for one in moments if one is not None), default=None)

    def is_late(self, now: datetime) -> bool:
        """Say whether this moment is not before the deadline any more."""
        return self.deadline is not None and now >= self.deadline

    @property
    def in_two_steps(self) -> bool:
        """Whether a yes counts only when the person has confirmed it by a second factor."""
        return self.terms is not None and self.terms.second_step

    def step_of(self, person: str) -> Decision | None:
        """Return what a person has said in a first step, if it still waits for the second."""
        pending = self.steps if self.state is State.PENDING else ()
        return next((step for step in pending if step.by == person), None)

    @property
    def stays_open(self) -> bool:
        """Whether its deadline only marks it overdue, so that no answer comes too late."""
        stays = self.terms is not None and self.terms.on_timeout is OnTimeout.STAY
        return stays and self.is_last_level

    def outcome(self, directory: Directory | None = None) -> str:
        """Say in words how it ended, and by whom: "approved by Mara Lind"."""
        words = self.state.value.replace("_", " ")
        if self.decision is None or not self.decision.by:
            return words
        names = []
        for one in self.decided_by:
            person = directory.get(one) if directory is not None else None
            names.append(person.shown if person else one)
        return f"{words} by {' and '.join(filter(None, (', '.join(names[:-1]), names[-1])))}"

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The ids of those who have decided it: all who said yes, or whoever said the last no."""
        if self.decision is None or not self.decision.by:
            return ()
        last = self.decision.by
        if self.state is not State.APPROVED:
            return (last,)
        before = (*(one.by for one in self.given), *self.ballot.yes)
        return (*dict.fromkeys(one for one in before if one != last), last)

    def note(
        self,
        what: What,
        *,
        now: datetime,
        by: str = "",
        why: str = "",
        more: dict[str, JsonValue] | None = None,
    ) -> Event:
        """Return an event about this approval, which by itself changes nothing in it."""
        return Event(
            what=what,
            at=now,
            approval=self.id,
            run=self.origin.run,
            by=by,
            why=why,
            more=more or {},
        )

    def _must_be_pending(self, move: str) -> None:
        if self.state is not State.PENDING:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")

    def _with_asked(self, key: str, channel: str, **update: str | tuple[str, ...]) -> Self:
        asked = tuple(
            one.model_copy(update=update) if (one.key, one.channel) == (key, channel) else one
            for one in self.asked
        )
        return self.model_copy(update={"asked": asked})
