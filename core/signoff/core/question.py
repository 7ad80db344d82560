"""What is asked, of whom and until when: everything about an approval but its moves."""

from __future__ import annotations

from datetime import datetime
from typing import Self

from pydantic import JsonValue

from signoff.core.errors import AlreadyDecided, IllegalMove, NotAnApprover, OwnRequest, TooLate
from signoff.core.events import Event, What
from signoff.core.levels import Seat, Vote
from signoff.core.lifecycle import Handoff, State
from signoff.core.model import Value
from signoff.core.parts import Asked, Decision, Kind, Origin, ToolCall
from signoff.core.people import Directory, Person
from signoff.core.policy import OnOutOfOffice, OnTimeout, Terms


class Question(Value):
    """One approval, as it stands: its moves are those of `signoff.core.approval.Approval`.

    Attributes:
        id: A function of the origin, so that publishing one pause twice opens one approval.
        origin: The run, session and call it belongs to.
        kind: What is asked for: a confirmation, input, or the result of a long-running call.
        call: The tool and the arguments, as shown and as they will run.
        digest: `signoff.core.digest` of the call.
        hint: The tool's own words for the approver.
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
        deadline: When this level ends (UTC), None until routed, or when it stays open.
        steps: The first steps of those whose yes waits for their second, at most one of each.
        decision: What ended it.
        result: The tool's result as JSON text, once it was seen to finish.
        starts: How many times the tool was started on this approval; more than once only where
            the policy says that it may be run again.
        supersedes: The approval that this one takes the place of: the call that was in doubt, or
            the rejection that proposed this very call.
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
    deadline: datetime | None = None
    steps: tuple[Decision, ...] = ()
    decision: Decision | None = None
    result: str = ""
    starts: int = 0
    supersedes: str = ""
    superseded_by: str = ""
    version: int = 0

    def delivered(
        self, key: str, channel: str, receipt: str, *, now: datetime, copy_state: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card has reached its channel.

        Args:
            key: Whose card; see `Asked.key`.
            channel: Its name.
            receipt: What the channel calls it.
            now: The present.
            copy_state: See `Asked`.
        """
        more: dict[str, JsonValue] = {"to": key}
        if copy_state:
            more["copy"] = copy_state
        event = self.note(What.DELIVERED, now=now, by=channel, more=more)
        changed = self._with_asked(key, channel, receipt=receipt, problem="", copy_state=copy_state)
        return changed, (event,)

    def rewritten(self, key: str, channel: str, copy_state: str) -> Self:
        """Note what became of a card after the decision; see `Asked.copy_state`."""
        return self._with_asked(key, channel, copy_state=copy_state)

    def found_copy(
        self, key: str, channel: str, receipt: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note a card that is there although its delivery was never heard of."""
        asked = next((one for one in self.asked if (one.key, one.channel) == (key, channel)), None)
        if asked is None or receipt in (asked.receipt, *asked.copies):
            return self, ()
        if not asked.receipt:
            return self.delivered(key, channel, receipt, now=now, copy_state="reconciled")
        event = self.note(What.DELIVERED, now=now, by=channel, more={"to": key, "copy": "second"})
        return self._with_asked(key, channel, copies=(*asked.copies, receipt)), (event,)

    def undelivered(
        self, key: str, channel: str, problem: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card can never reach this person or place through this channel."""
        event = self.note(What.UNDELIVERED, now=now, by=channel, why=problem, more={"to": key})
        return self._with_asked(key, channel, problem=problem), (event,)

    @property
    def approvers(self) -> frozenset[str]:
        """The ids of those who are asked: each by a card of their own, or all in one place."""
        in_a_place = self.terms is not None and not all(one.person for one in self.asked)
        everybody = self.terms.ask if self.terms is not None and in_a_place else ()
        return frozenset({*everybody, *(one.person for one in self.asked if one.person)})

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
        """Whether somebody who is asked got the card, or may still get it, and is heard from.

        By the policy's word a person with an out-of-office reply is none of these.
        """
        moves_on = self.terms is not None and (self.terms.on_out_of_office is OnOutOfOffice.DEFAULT)
        return any(not (asked.problem or (moves_on and asked.away)) for asked in self.asked)

    def may_decide(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse whoever may not decide, or may not any more.

        Raises:
            OwnRequest: The person is the requester, by any of his identities.
            NotAnApprover: The person is not asked at this level.
            AlreadyDecided: It has been decided.
            TooLate: The deadline has passed, whether or not anybody has noticed yet.
        """
        if directory.same(person.id, self.origin.user) or person.owns(self.origin.user):
            raise OwnRequest(f"{person.shown} asked for {self.call.name}() and cannot decide it.")
        if person.id not in self.approvers:
            raise NotAnApprover(f"{person.shown} is not asked about approval {self.id}.")
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")
        if self.is_late(now) and not self.stays_open:
            raise TooLate(
                f"Approval {self.id} expired at {self.deadline:%Y-%m-%d %H:%M} UTC; "
                "nothing was done. The request has to be made again."
            )

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
        return self.terms is not None and self.terms.on_timeout is OnTimeout.STAY

    def outcome(self, directory: Directory | None = None) -> str:
        """Say in words how it ended, and by whom: "approved by Mara Lind"."""
        words = self.state.value.replace("_", " ")
        if self.decision is None or not self.decision.by:
            return words
        person = directory.get(self.decision.by) if directory is not None else None
        return f"{words} by {person.shown if person else self.decision.by}"

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
