"""One approval: what is asked, of whom, until when, and what came of it.

The life of an approval is `TRANSITIONS`; what became of its answer is `HANDOFFS`. Both are data:
the diagrams in the documentation are rendered from them, and each legal move is a method of
`Approval` that returns the next value and the events to record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Self

from pydantic import JsonValue

from signoff.core.answering import meaning_of_yes, refusal_of_input, template_of
from signoff.core.digest import digest, require_canonical
from signoff.core.errors import (
    AlreadyDecided,
    IllegalMove,
    NotAnApprover,
    OwnRequest,
    TooLate,
)
from signoff.core.events import Event, What
from signoff.core.lifecycle import HANDOFFS, TRANSITIONS, Handoff, Move, State
from signoff.core.model import Value
from signoff.core.parts import Asked, Decision, Kind, Origin, ToolCall, approval_id
from signoff.core.people import Directory, Person
from signoff.core.policy import OnTimeout, Terms

__all__ = [
    "HANDOFFS",
    "TRANSITIONS",
    "Approval",
    "Asked",
    "Decision",
    "Handoff",
    "Kind",
    "Move",
    "Origin",
    "State",
    "ToolCall",
    "approval_id",
]


class Approval(Value):
    """What is asked, of whom, until when, and what came of it.

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
        deadline: When it is too late (UTC), None until routed, or when it stays open.
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
    deadline: datetime | None = None
    decision: Decision | None = None
    result: str = ""
    starts: int = 0
    supersedes: str = ""
    superseded_by: str = ""
    version: int = 0

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
    ) -> tuple[Self, tuple[Event, ...]]:
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
            digest=digest(call.name, call.args),
            hint=hint.encode("utf-8", "replace").decode(),
            template=template_of(kind, call, template),
            opened_at=now,
            supersedes=supersedes,
        )
        more: dict[str, JsonValue] = {"tool": call.name, "digest": approval.digest}
        if kind is not Kind.CONFIRMATION:
            more["kind"] = kind.value
        if supersedes:
            more["supersedes"] = supersedes
        return approval, (approval.note(What.OPENED, now=now, by=origin.agent, more=more),)

    def ask(
        self, terms: Terms, asked: tuple[Asked, ...], *, now: datetime, notes: tuple[str, ...] = ()
    ) -> tuple[Self, tuple[Event, ...]]:
        """Put the terms and the people in force; the deadline counts from now.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        approval = self.model_copy(
            update={"terms": terms, "asked": asked, "deadline": now + terms.within}
        )
        return approval, (
            self.note(
                What.ASKED if asked else What.UNROUTABLE,
                now=now,
                by="router",
                why="; ".join(notes),
                more={"policy": terms.policy, "people": [one.person for one in asked]},
            ),
        )

    def delivered(
        self, person: str, channel: str, receipt: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card has reached its channel."""
        event = self.note(What.DELIVERED, now=now, by=channel, more={"to": person})
        return self._with_asked(person, channel, receipt=receipt, problem=""), (event,)

    def undelivered(
        self, person: str, channel: str, problem: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card can never reach this person through this channel."""
        event = self.note(What.UNDELIVERED, now=now, by=channel, why=problem, more={"to": person})
        return self._with_asked(person, channel, problem=problem), (event,)

    @property
    def reachable(self) -> bool:
        """Whether at least one of those who are asked got the card, or may still get it."""
        return any(not asked.problem for asked in self.asked)

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
        if all(asked.person != person.id for asked in self.asked):
            raise NotAnApprover(f"{person.shown} is not asked about approval {self.id}.")
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")
        if self.is_late(now) and not self.stays_open:
            raise TooLate(
                f"Approval {self.id} expired at {self.deadline:%Y-%m-%d %H:%M} UTC; "
                "nothing was done. The request has to be made again."
            )

    def is_late(self, now: datetime) -> bool:
        """Say whether this moment is not before the deadline any more."""
        return self.deadline is not None and now >= self.deadline

    @property
    def stays_open(self) -> bool:
        """Whether its deadline only marks it overdue, so that no answer comes too late."""
        return self.terms is not None and self.terms.on_timeout is OnTimeout.STAY

    def approve(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Approve, with values where the tool has a payload template.

        Without a template a call runs exactly as it was shown. Values that differ from its
        arguments then are a rejection that says what would be approved: the agent is asked to
        propose exactly that call. A request for input is approved by answering it.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            PayloadError: The values do not fit the template, the schema or the arguments, or some
                are missing.
        """
        self.may_decide(person, directory, now=now)
        meaning = meaning_of_yes(self.kind, self.call, self.template, values, reason)
        return self._end(
            Move.APPROVE if meaning.proposal is None else Move.REJECT,
            Decision(
                by=person.id,
                at=now,
                channel=channel,
                reason=reason,
                payload=meaning.payload,
                proposal=meaning.proposal,
            ),
        )

    def reject(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, reason: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Reject, with a reason that the model will read.

        A request for input that can be answered with a no is answered with it.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
        """
        self.may_decide(person, directory, now=now)
        no = refusal_of_input(self.call, reason) if self.kind is Kind.INPUT else None
        payload = no.value if no is not None else None
        return self._end(
            Move.REJECT,
            Decision(by=person.id, at=now, channel=channel, reason=reason, payload=payload),
        )

    def time_out(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Do what the deadline means: reject, or stay open without one.

        Raises:
            IllegalMove: It is not pending, or not yet late.
        """
        self._must_be_pending("time out")
        if not self.is_late(now):
            raise IllegalMove(f"Approval {self.id} is not due yet.")
        if self.stays_open:
            why = "nobody answered in time; by its policy it stays open"
            event = self.note(What.OVERDUE, now=now, by="deadline", why=why)
            return self.model_copy(update={"deadline": None}), (event,)
        return self._end(
            Move.TIME_OUT, Decision(at=now, channel="deadline", reason="nobody answered in time")
        )

    def withdraw(self, *, by: str, reason: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Take the question back, because the requester did or because the run ended."""
        return self._end(Move.WITHDRAW, Decision(by=by, at=now, channel="withdrawn", reason=reason))

    def supersede(self, *, reason: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Void the question because another one has taken its place."""
        return self._end(Move.SUPERSEDE, Decision(at=now, channel="superseded", reason=reason))

    def ask_again(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Open the question whether a call that is in doubt shall run again.

        Returns:
            Another approval for the same call, to be routed like any other.

        Raises:
            IllegalMove: It is not in doubt.
        """
        if self.handoff is not Handoff.IN_DOUBT:
            raise IllegalMove(f"Approval {self.id} is not in doubt.")
        return self.open(
            self.origin.model_copy(update={"again": self.origin.again + 1}),
            self.call,
            kind=self.kind,
            hint=f"The worker died while {self.call.name} ran: it may or may not have happened. "
            "Look first. Run it again?",
            # The values of the first answer are in the session, and the tool will get those.
            template=None,
            now=now,
            supersedes=self.id,
        )

    def hand_on(
        self, handoff: Handoff, *, now: datetime, why: str = "", result: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note the next step of the answer on its way into the agent.

        Raises:
            IllegalMove: `HANDOFFS` does not have this step. A second start of a tool is refused
                here, and by the version in the ledger where two start it at the same time.
        """
        if handoff not in HANDOFFS[self.handoff]:
            raise IllegalMove(
                f"The answer to approval {self.id} is {self.handoff} and cannot become {handoff}."
            )
        approval = self.model_copy(
            update={
                "handoff": handoff,
                "result": result or self.result,
                "starts": self.starts + (handoff is Handoff.STARTED),
            }
        )
        what = _HANDOFF_EVENTS.get(handoff)
        return approval, () if what is None else (self.note(what, now=now, by="worker", why=why),)

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

    def _end(self, move: Move, decision: Decision) -> tuple[Self, tuple[Event, ...]]:
        to = TRANSITIONS.get((self.state, move))
        if to is None:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")
        approval = self.model_copy(
            update={"state": to, "decision": decision, "handoff": Handoff.RECORDED}
        )
        more: dict[str, JsonValue] = {"channel": decision.channel, "digest": self.digest}
        if decision.payload is not None:
            more["payload"] = decision.payload
        if decision.proposal is not None:
            more["proposal"] = decision.proposal
        return approval, (
            self.note(
                What(to.value), now=decision.at, by=decision.by, why=decision.reason, more=more
            ),
        )

    def _must_be_pending(self, move: str) -> None:
        if self.state is not State.PENDING:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")

    def _with_asked(self, person: str, channel: str, **update: str) -> Self:
        asked = tuple(
            one.model_copy(update=update) if (one.person, one.channel) == (person, channel) else one
            for one in self.asked
        )
        return self.model_copy(update={"asked": asked})


_HANDOFF_EVENTS = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.FAILED: What.NOT_RESUMED,
}
