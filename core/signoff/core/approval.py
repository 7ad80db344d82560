"""One approval: what is asked, of whom, until when, and what came of it.

The life of an approval is `TRANSITIONS`; what became of its answer is `HANDOFFS`. Both are data:
the diagrams in the documentation are rendered from them, and each legal move is a method of
`Approval` that returns the next value and the events to record.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Self

from pydantic import JsonValue

from signoff.core.digest import digest
from signoff.core.errors import (
    AlreadyDecided,
    IllegalMove,
    NotAnApprover,
    OwnRequest,
    PayloadError,
    TooLate,
)
from signoff.core.events import Event, What
from signoff.core.model import Value
from signoff.core.payload import example_value, fields_of, fill, missing_fields
from signoff.core.people import Directory, Person
from signoff.core.policy import OnTimeout, Terms


class State(StrEnum):
    """Where an approval stands."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    WITHDRAWN = "withdrawn"
    SUPERSEDED = "superseded"


class Move(StrEnum):
    """What can happen to an approval."""

    APPROVE = "approve"
    REJECT = "reject"
    TIME_OUT = "time_out"
    WITHDRAW = "withdraw"
    SUPERSEDE = "supersede"


TRANSITIONS: Mapping[tuple[State, Move], State] = {
    (State.PENDING, Move.APPROVE): State.APPROVED,
    (State.PENDING, Move.REJECT): State.REJECTED,
    (State.PENDING, Move.TIME_OUT): State.TIMED_OUT,
    (State.PENDING, Move.WITHDRAW): State.WITHDRAWN,
    (State.PENDING, Move.SUPERSEDE): State.SUPERSEDED,
}


class Handoff(StrEnum):
    """How far the answer has come on its way into the agent."""

    NONE = "none"
    RECORDED = "recorded"
    STARTED = "started"
    FINISHED = "finished"
    RESUMED = "resumed"
    IN_DOUBT = "in_doubt"
    FAILED = "failed"


HANDOFFS: Mapping[Handoff, frozenset[Handoff]] = {
    Handoff.NONE: frozenset({Handoff.RECORDED}),
    Handoff.RECORDED: frozenset({Handoff.STARTED, Handoff.RESUMED, Handoff.FAILED}),
    Handoff.STARTED: frozenset({Handoff.FINISHED, Handoff.IN_DOUBT}),
    Handoff.FINISHED: frozenset({Handoff.RESUMED, Handoff.FAILED}),
    Handoff.IN_DOUBT: frozenset(),
    Handoff.RESUMED: frozenset(),
    Handoff.FAILED: frozenset(),
}


class ToolCall(Value):
    """The call that waits.

    Attributes:
        id: The id of the FunctionCall in the session (not of its confirmation request).
        name: The tool.
        args: Its arguments, as the model gave them.
    """

    id: str
    name: str
    args: dict[str, JsonValue] = {}


class Origin(Value):
    """Where the call comes from, in the terms of ADK.

    Attributes:
        run: The id of Signoff's run.
        app: The name of the agent's folder.
        agent: The author of the event, the agent that called the tool.
        user: The user id of the session: the requester.
        session: The session id.
        invocation: The invocation id, which the answer must carry.
        confirmation: The id of the `adk_request_confirmation` FunctionCall to answer.
    """

    run: str
    app: str
    agent: str = ""
    user: str
    session: str
    invocation: str
    confirmation: str


class Asked(Value):
    """One person who is asked through one channel, and how the delivery went.

    Attributes:
        person: The id of the person.
        channel: ``email``.
        address: Where to, in the channel's terms.
        receipt: What the channel returned, "" until it is delivered.
        problem: Why it could not be delivered, "" while it may still be.
    """

    person: str
    channel: str
    address: str
    receipt: str = ""
    problem: str = ""


class Decision(Value):
    """The decision that ended an approval.

    Attributes:
        by: The id of the person, or "" when the deadline or the requester ended it.
        at: When (UTC).
        channel: How it came: ``email``, ``cli``, ...
        reason: In the person's own words.
        payload: The values for the tool, following the payload template; None where there is none.
    """

    by: str = ""
    at: datetime
    channel: str = ""
    reason: str = ""
    payload: JsonValue = None


class Approval(Value):
    """What is asked, of whom, until when, and what came of it.

    Attributes:
        id: A function of the origin, so that publishing one pause twice opens one approval.
        origin: The run, session and call it belongs to.
        call: The tool and the arguments, as shown and as they will run.
        digest: `signoff.core.digest` of the call.
        hint: The tool's own words for the approver.
        template: The payload template of `request_confirmation`, None where there is none.
        state: See `TRANSITIONS`.
        handoff: See `HANDOFFS`.
        opened_at: When it was opened (UTC).
        terms: The snapshot of the policy, None until it has been routed.
        asked: Who is asked, and how the delivery went.
        deadline: When it is too late (UTC), None until routed, or when it stays open.
        decision: What ended it.
        result: The tool's result as JSON text, once it was seen to finish.
        version: Counts the commits; the ledger refuses a write that is not based on the last one.
    """

    id: str
    origin: Origin
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
    version: int = 0

    @classmethod
    def open(
        cls, origin: Origin, call: ToolCall, *, hint: str, template: JsonValue, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Open an approval for a call that waits.

        Raises:
            NotCanonical: The arguments have no digest.
        """
        approval = cls(
            id=approval_id(origin),
            origin=origin,
            call=call,
            digest=digest(call.name, call.args),
            hint=hint,
            template=template,
            opened_at=now,
        )
        more: dict[str, JsonValue] = {"tool": call.name, "digest": approval.digest}
        return approval, (approval._event(What.OPENED, now, by=origin.agent, more=more),)

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
            approval._event(
                What.ASKED if asked else What.UNROUTABLE,
                now,
                by="router",
                why="; ".join(notes),
                more={"policy": terms.policy, "people": [one.person for one in asked]},
            ),
        )

    def delivered(
        self, person: str, channel: str, receipt: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card has reached its channel."""
        event = self._event(What.DELIVERED, now, by=channel, more={"to": person})
        return self._with_asked(person, channel, receipt=receipt, problem=""), (event,)

    def undelivered(
        self, person: str, channel: str, problem: str, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note that a card can never reach this person through this channel."""
        event = self._event(What.UNDELIVERED, now, by=channel, why=problem, more={"to": person})
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
        if self.is_late(now):
            raise TooLate(
                f"Approval {self.id} expired at {self.deadline:%Y-%m-%d %H:%M} UTC; "
                "nothing was done. The request has to be made again."
            )

    def is_late(self, now: datetime) -> bool:
        """Say whether an answer at this moment comes after the deadline."""
        return self.deadline is not None and now >= self.deadline

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

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            PayloadError: The values do not fit the template, or some are missing.
        """
        self.may_decide(person, directory, now=now)
        if self.template is None and values:
            key = next(iter(values))
            raise PayloadError(
                f"{self.call.name}() runs exactly as it was shown; {key!r} cannot be changed by an "
                "approval. Reject it with a reason, and the agent can propose it anew.",
                key=key,
                read=str(values[key]),
                example="approve",
            )
        if lacking := missing_fields(self.template, values):
            example = example_value(fields_of(self.template)[lacking[0]])
            raise PayloadError(
                f"An approval of {self.call.name}() needs a value for {', '.join(lacking)}.",
                key=lacking[0],
                read="",
                example=f"{lacking[0]}: {example}",
            )
        return self._end(
            Move.APPROVE,
            Decision(
                by=person.id,
                at=now,
                channel=channel,
                reason=reason,
                payload=fill(self.template, values),
            ),
        )

    def reject(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, reason: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Reject, with a reason that the model will read.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
        """
        self.may_decide(person, directory, now=now)
        return self._end(
            Move.REJECT, Decision(by=person.id, at=now, channel=channel, reason=reason)
        )

    def time_out(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Do what the deadline means: reject, or stay open without one.

        Raises:
            IllegalMove: It is not pending, or not yet late.
        """
        self._must_be_pending("time out")
        if not self.is_late(now):
            raise IllegalMove(f"Approval {self.id} is not due yet.")
        if self.terms is not None and self.terms.on_timeout is OnTimeout.STAY:
            why = "nobody answered in time; by its policy it stays open"
            event = self._event(What.OVERDUE, now, by="deadline", why=why)
            return self.model_copy(update={"deadline": None}), (event,)
        return self._end(
            Move.TIME_OUT, Decision(at=now, channel="deadline", reason="nobody answered in time")
        )

    def withdraw(self, *, by: str, reason: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Take the question back, because the requester did or because the run ended."""
        return self._end(
            Move.WITHDRAW, Decision(by=by, at=now, channel="withdrawn", reason=reason)
        )

    def supersede(self, *, reason: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Void the question because another one has taken its place."""
        return self._end(Move.SUPERSEDE, Decision(at=now, channel="superseded", reason=reason))

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
            update={"handoff": handoff, "result": result if result else self.result}
        )
        what = _HANDOFF_EVENTS.get(handoff)
        return approval, () if what is None else (
            approval._event(what, now, by="worker", why=why),
        )

    def outcome(self, directory: Directory | None = None) -> str:
        """Say in words how it ended, and by whom: "approved by Mara Lind"."""
        words = self.state.value.replace("_", " ")
        if self.decision is None or not self.decision.by:
            return words
        person = directory.get(self.decision.by) if directory is not None else None
        return f"{words} by {person.shown if person else self.decision.by}"

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
        return approval, (
            approval._event(
                What(to.value), decision.at, by=decision.by, why=decision.reason, more=more
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

    def _event(
        self,
        what: What,
        at: datetime,
        *,
        by: str = "",
        why: str = "",
        more: dict[str, JsonValue] | None = None,
    ) -> Event:
        return Event(
            what=what,
            at=at,
            approval=self.id,
            run=self.origin.run,
            by=by,
            why=why,
            more=more or {},
        )

    def note(
        self,
        what: What,
        *,
        now: datetime,
        by: str = "",
        why: str = "",
        more: dict[str, JsonValue] | None = None,
    ) -> Event:
        """Return an event about this approval that changes nothing in it."""
        return self._event(what, now, by=by, why=why, more=more)


_HANDOFF_EVENTS = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.FAILED: What.NOT_RESUMED,
}


def approval_id(origin: Origin) -> str:
    """Return the id of the approval for one confirmation request: ``ap_`` and 16 letters."""
    text = "\x00".join((origin.app, origin.user, origin.session, origin.confirmation))
    short = base64.b32encode(hashlib.sha256(text.encode()).digest()[:10])
    return "ap_" + short.decode().lower()
