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
from signoff.core.errors import IllegalMove, SecondStepNeeded, StepChanged
from signoff.core.events import Event, What
from signoff.core.handling import Handled
from signoff.core.lifecycle import HANDOFFS, TRANSITIONS, Handoff, Move, State
from signoff.core.parts import Asked, Decision, Kind, Origin, ToolCall, approval_id
from signoff.core.people import Directory, Person
from signoff.core.policy import Terms
from signoff.core.steps import FIRST, SECOND, mark_of

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


class Approval(Handled):
    """A question with all its moves: each returns the next value and the events to record."""

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

        A second step that was needed before stays needed: a mail that bounces must not lower the
        bar.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        if self.in_two_steps:
            terms = terms.model_copy(update={"second_step": True})
        more: dict[str, JsonValue] = {
            "policy": terms.policy,
            "people": [one.key for one in asked],
        }
        if terms.second_step:
            more["second_step"] = True
        approval = self.model_copy(
            update={"terms": terms, "asked": asked, "deadline": now + terms.within.length}
        )
        return approval, (
            self.note(
                What.ASKED if asked else What.UNROUTABLE,
                now=now,
                by="router",
                why="; ".join(notes),
                more=more,
            ),
        )

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

        Where the terms want a second step this is the first: it is kept and decides nothing until
        the person confirms it. Another one of the same person takes its place.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            SecondStepNeeded: A yes by this channel is not even a first step.
            PayloadError: The values do not fit the template, the schema or the arguments, or some
                are missing.
        """
        self.may_decide(person, directory, now=now)
        meaning = meaning_of_yes(self.kind, self.call, self.template, values, reason)
        decision = Decision(
            by=person.id,
            at=now,
            channel=channel,
            reason=reason,
            payload=meaning.payload,
            proposal=meaning.proposal,
        )
        return self._first_step(decision) if self.in_two_steps else self._yes(decision)

    def confirm(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, mark: str
    ) -> tuple[Self, tuple[Event, ...]]:
        """Take the second step: what the person has said before counts from now on.

        Args:
            person: Whose first step it is, and who has proven a second factor.
            directory: The people.
            channel: One of `signoff.core.steps.SECOND`.
            now: The present.
            mark: `signoff.core.steps.mark_of` the first step that the person was shown.

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
        update = {"at": now, "channel": channel, "first_step": step.channel}
        return self._yes(step.model_copy(update=update))

    def take_grant(
        self, terms: Terms, *, by: str, grant: str, reason: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Approve by what somebody has said of calls like this one before; nobody is asked.

        Whether the grant covers the call is for `signoff.core.grants.Grant.use` to say.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        self._must_be_pending("take a grant")
        if self.terms is not None:
            raise IllegalMove(f"Approval {self.id} is asked already and cannot take a grant.")
        decision = Decision(by=by, at=now, channel="grant", reason=reason, grant=grant)
        approval, events = self._end(Move.APPROVE, decision)
        return approval.model_copy(update={"terms": terms}), events

    def reject(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Reject, with a reason for the model; a request for input with the answer that says no.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
            PayloadError: The values of the request for input do not fit its schema.
        """
        self.may_decide(person, directory, now=now)
        no = refusal_of_input(self.call, reason, values) if self.kind is Kind.INPUT else None
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

    def _first_step(self, step: Decision) -> tuple[Self, tuple[Event, ...]]:
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

    def _yes(self, decision: Decision) -> tuple[Self, tuple[Event, ...]]:
        return self._end(Move.APPROVE if decision.proposal is None else Move.REJECT, decision)

    def _end(self, move: Move, decision: Decision) -> tuple[Self, tuple[Event, ...]]:
        to = TRANSITIONS.get((self.state, move))
        if to is None:
            raise IllegalMove(f"Approval {self.id} is {self.state} and cannot {move}.")
        approval = self.model_copy(
            update={"state": to, "decision": decision, "handoff": Handoff.RECORDED}
        )
        event = self.note(
            What(to.value),
            now=decision.at,
            by=decision.by,
            why=decision.reason,
            more=self._details(decision),
        )
        return approval, (event,)

    def _details(self, decision: Decision) -> dict[str, JsonValue]:
        more: dict[str, JsonValue] = {"channel": decision.channel, "digest": self.digest}
        if decision.payload is not None:
            more["payload"] = decision.payload
        if decision.proposal is not None:
            more["proposal"] = decision.proposal
        if decision.first_step:
            more["first_step"] = decision.first_step
        if decision.grant:
            more["grant"] = decision.grant
        if decision.channel in SECOND:
            more["second_factor"] = SECOND[decision.channel]
        return more


_HANDOFF_EVENTS = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.FAILED: What.NOT_RESUMED,
}
