"""One approval: what is asked, of whom, until when, and what came of it.

The life of an approval is `TRANSITIONS`; what became of its answer is `HANDOFFS`. Both are data:
the diagrams in the documentation are rendered from them, and each legal move is a method of
`Approval` that returns the next value and the events to record.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Self

from pydantic import JsonValue

from signoff.core.approvals.counting import Counted
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.lifecycle import HANDOFFS, TRANSITIONS, Handoff, Move, State
from signoff.core.approvals.parts import (
    Asked,
    Decision,
    Kind,
    Origin,
    Shown,
    ToolCall,
    approval_id,
    words_of,
)
from signoff.core.approvals.two_step import SECOND, mark_of
from signoff.core.base.errors import (
    IllegalMove,
    SecondStepNeeded,
    StepChanged,
)
from signoff.core.base.text import clean_text
from signoff.core.directory.people import Directory, Person
from signoff.core.payloads.answer import meaning_of_yes, refusal_of_input, template_of
from signoff.core.payloads.digest import digest, require_canonical
from signoff.core.payloads.payload import missing_fields
from signoff.core.policies.levels import Outcome, Start
from signoff.core.policies.policy import Terms

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
    "Shown",
    "State",
    "ToolCall",
    "approval_id",
]


class Approval(Counted):
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
        said: str = "",
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
            said=words_of(said),
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
        self,
        terms: Terms,
        asked: tuple[Asked, ...],
        *,
        now: datetime,
        notes: Sequence[str] = (),
        start: Start | None = None,
        barred: tuple[str, ...] = (),
        stranded: bool = False,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Put the terms and the people in force; the deadline counts from now.

        Under the terms that rule already this asks by other ways, at the level where it stands.

        A second step that was needed before stays needed, and so do so many yeses: a mail that
        bounces must not lower the bar.

        Args:
            terms: The rules.
            asked: Who is asked, by which channel, and was before.
            now: The present.
            notes: What stood in the way of others.
            start: The level that begins; without one all who are asked may decide.
            barred: Identities of those who never decide, besides the requester.
            stranded: Whether these are others than the policy wants, because it has nobody.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        # Whoever is asked now could not be reached, and may still answer elsewhere; a stage that
        # has approved has said what it had to say.
        others = terms is not self.terms and start is not None
        seats = (() if self.passed else self.lasting_seats) if others else self.seats
        if self.in_two_steps:
            terms = terms.model_copy(update={"second_step": True})
        if terms is not self.terms and self.terms is not None:
            at_least = max(terms.at_least, self.still_needed)
            terms = terms.model_copy(update={"at_least": at_least})
        begun = start or Start(0, 0, (), now + terms.within.by_the_clock)
        here = [one.key for one in asked if one.turn == begun.turn]
        more: dict[str, JsonValue] = {"policy": terms.policy, "people": here}
        if terms.second_step:
            more["second_step"] = True
        if called := terms.called(begun.level):
            more["level"] = called
        approval = self._begin(begun, seats if start else (), now=now).model_copy(
            update={"terms": terms, "asked": asked, "barred": (*self.barred, *barred)}
        )
        why = "; ".join(notes)
        # That the default is there is no reason for nobody to mend the policy.
        alarm = [self.note(What.UNROUTABLE, now=now, by="router", why=why)] if stranded else []
        what = What.ASKED if asked else What.UNROUTABLE
        event = self.note(what, now=now, by="router", why=why, more=more)
        return approval, (*alarm, event) if asked else (event,)

    def asked_too(self, fresh: Sequence[Asked], *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Note the cards of a level that has begun, or of those whose turn it is now.

        Raises:
            IllegalMove: It is not pending any more.
        """
        self._must_be_pending("ask")
        asked = self.also_asked(fresh, self.turn)
        more: dict[str, JsonValue] = {"people": [one.key for one in fresh]}
        if self.terms is not None:
            more["policy"] = self.terms.policy
            if called := self.terms.called(self.level):
                more["level"] = called
        event = self.note(What.ASKED, now=now, by="router", more=more)
        return self.model_copy(update={"asked": asked}), (event,)

    def escalate(
        self, start: Start, *, now: datetime, notes: Sequence[str] = (), unreached: bool = False
    ) -> tuple[Self, tuple[Event, ...]]:
        """Go on to another level; see `signoff.core.routing.escalation`.

        Args:
            start: The level that begins.
            now: The present.
            notes: Why, and what stood in the way of others.
            unreached: Whether it goes on because nobody of this level is reached; those may still
                answer, wherever it goes.

        Raises:
            IllegalMove: It is not pending any more, or was never routed.
        """
        self._must_be_pending("escalate")
        if self.terms is None:
            raise IllegalMove(f"Approval {self.id} has no levels yet.")
        people = dict.fromkeys(seat.person for seat in start.seats)
        more: dict[str, JsonValue] = {"people": list(people)}
        if called := self.terms.called(start.level):
            more["level"] = called
        event = self.note(What.ESCALATED, now=now, by="deadline", why="; ".join(notes), more=more)
        seats = self.lasting_seats if unreached else self.seats
        return self._begin(start, seats, now=now), (event,)

    def remind(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Note that those who have not answered are reminded; nothing where it is not time.

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
            NotShownInFull: The channel has not shown them all of the call. A first step needs that
                not: the second is taken where all of it is shown.
            SecondStepNeeded: A yes by this channel is not even a first step.
            PayloadError: The values do not fit the template, the schema or the arguments, or some
                are missing.
        """
        self.may_decide(person, directory, now=now)
        if not self.in_two_steps:
            self.must_be_shown(person.id, channel)
        return self._approve(
            person, directory, channel=channel, now=now, reason=reason, values=values
        )

    def take_edit(
        self, person: Person, directory: Directory, *, channel: str, reason: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Approve the very call that a person has proposed.

        Its values are their own, and the rest was shown to them with the call that they changed;
        so no card has to show it again.

        Raises:
            DecisionRefused: The person may not decide; see `may_decide`.
        """
        self.may_decide(person, directory, now=now)
        return self._approve(person, directory, channel=channel, now=now, reason=reason)

    def _approve(
        self,
        person: Person,
        directory: Directory,
        *,
        channel: str,
        now: datetime,
        reason: str,
        values: Mapping[str, JsonValue] | None = None,
    ) -> tuple[Self, tuple[Event, ...]]:
        reason = clean_text(reason)
        self._with_reason(Outcome.APPROVE, reason)
        meaning = meaning_of_yes(self.kind, self.call, self.template, values, reason)
        decision = Decision(
            by=person.id,
            at=now,
            channel=channel,
            reason=reason,
            payload=meaning.payload,
            proposal=meaning.proposal,
        )
        self._agrees(decision, directory)
        return self._first_step(decision) if self.in_two_steps else self._yes(decision)

    def confirm(
        self, person: Person, directory: Directory, *, channel: str, now: datetime, mark: str
    ) -> tuple[Self, tuple[Event, ...]]:
        """Take the second step: what the person has said before counts from now on.

        Args:
            person: Whose first step it is, and who has proven a second factor.
            directory: The people.
            channel: One of `signoff.core.approvals.two_step.SECOND`.
            now: The present.
            mark: `two_step.mark_of` the first step that the person was shown.

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
        self._agrees(step, directory)
        update = {"at": now, "channel": channel, "first_step": step.channel}
        return self._yes(step.model_copy(update=update))

    def take_grant(
        self, terms: Terms, *, by: str, grant: str, reason: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Approve by what somebody has said of calls like this one before; nobody is asked.

        Whether the grant covers the call is for `signoff.core.grants.grant.Grant.use` to say.

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
        reason = clean_text(reason)
        self._with_reason(Outcome.REJECT, reason)
        no = refusal_of_input(self.call, reason, values) if self.kind is Kind.INPUT else None
        payload = no.value if no is not None else None
        decision = Decision(by=person.id, at=now, channel=channel, reason=reason, payload=payload)
        return self._vote(Outcome.REJECT, decision)

    def time_out(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Do what the end of the last level means: reject, approve, or stay open without one.

        It approves only what is under the policy's ceiling, has no values to fill, takes no second
        step, and to which nobody has said no.

        Raises:
            IllegalMove: It is not pending, or not yet late.
        """
        self._must_be_pending("time out")
        if not self.is_late(now):
            raise IllegalMove(f"Approval {self.id} is not due yet.")
        if self.stays_open:
            why = "nobody answered in time; by its policy it stays open"
            event = self.note(What.OVERDUE, now=now, by="deadline", why=why)
            return self.model_copy(update={"deadline": None, "reminders": ()}), (event,)
        late = Decision(at=now, channel="deadline", reason="nobody answered in time")
        if not self._silence_approves():
            return self._end(Move.TIME_OUT, late)
        why = "nobody answered in time; by its policy that approves what is under the ceiling"
        return self._end(Move.APPROVE, late.model_copy(update={"reason": why}))

    def refuse(
        self, *, reason: str, now: datetime, terms: Terms | None = None
    ) -> tuple[Self, tuple[Event, ...]]:
        """Reject it because the settings do, without asking anybody.

        Args:
            reason: Why; the model reads it.
            now: The present.
            terms: Those of the policy that denies it.

        Raises:
            IllegalMove: It is not pending any more, or somebody is asked already.
        """
        self._must_be_pending("be refused")
        if self.terms is not None:
            raise IllegalMove(f"Approval {self.id} is asked already and cannot be refused.")
        approval, events = self._end(
            Move.REJECT, Decision(at=now, channel="settings", reason=reason)
        )
        return approval.model_copy(update={"terms": terms}), _by_policy(events, terms)

    @property
    def why_not_allowed(self) -> str:
        """Why no policy can allow it without asking anybody, "" where one can."""
        if self.kind is Kind.INPUT or missing_fields(self.template, None):
            return "what has to be filled in is asked about"
        return "a call that is in doubt is asked about" if self.origin.again else ""

    def allow(self, terms: Terms, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Approve it because its policy allows such calls, without asking anybody.

        Args:
            terms: Those of the policy.
            now: The present.

        Raises:
            IllegalMove: It is not pending any more, somebody is asked already, or it cannot be
                allowed; see `why_not_allowed`.
        """
        self._must_be_pending("be allowed")
        if self.terms is not None or self.why_not_allowed:
            why = self.why_not_allowed or "it is asked already"
            raise IllegalMove(f"Approval {self.id} cannot be allowed: {why}.")
        why = f"the policy {terms.policy} allows it"
        approval, events = self._end(Move.APPROVE, Decision(at=now, channel="settings", reason=why))
        return approval.model_copy(update={"terms": terms}), _by_policy(events, terms)

    def withdraw(self, *, by: str, reason: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Take the question back, because the requester did or because the run ended."""
        said = Decision(by=by, at=now, channel="withdrawn", reason=clean_text(reason))
        return self._end(Move.WITHDRAW, said)

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
            said=self.said,
            # The values of the first answer are in the session, and the tool will get those.
            template=None,
            now=now,
            supersedes=self.id,
        )

    @property
    def lets_run(self) -> bool:
        """Whether it lets a tool or a node run: the answer to a question does not."""
        return self.state is State.APPROVED and self.kind is Kind.CONFIRMATION

    def good_until(self, valid_for: timedelta) -> datetime | None:
        """Return until when its call may be started (UTC); None where nothing is to be started.

        Args:
            valid_for: How long a yes is good for whose policy does not say.
        """
        if self.state is not State.APPROVED or self.decision is None:
            return None
        if self.kind is not Kind.CONFIRMATION:
            return None
        own = self.terms.valid_for if self.terms is not None else None
        return self.decision.at + (own or valid_for)

    def has_expired(self, now: datetime, valid_for: timedelta) -> bool:
        """Say whether it is too late to start its call; see `good_until`."""
        until = self.good_until(valid_for)
        return until is not None and now >= until

    def expire(
        self, *, now: datetime, valid_for: timedelta
    ) -> tuple[Self, Self, tuple[Event, ...]]:
        """Give up a yes that is too old to start its call, and ask about the call again.

        Returns:
            The approval, another one for the same call, to be routed like any other, and what
            happened to the two.

        Raises:
            IllegalMove: The yes is still good, or the call was started.
        """
        until = self.good_until(valid_for)
        if until is None or now < until:
            raise IllegalMove(f"The yes to approval {self.id} has not expired.")
        said = f"{self.call.name}() was {self.outcome()}, and that was good until "
        said += f"{until:%Y-%m-%d %H:%M} UTC. It could not be started by then"
        after, noted = self.hand_on(Handoff.EXPIRED, now=now, why=said)
        question, opened = self.open(
            self.origin.model_copy(update={"expired": self.origin.expired + 1}),
            self.call,
            kind=self.kind,
            hint=f"{said}. Is it still wanted? {self.hint}".rstrip(),
            said=self.said,
            template=self.template,
            now=now,
            supersedes=self.id,
        )
        return after, question, (*noted, *opened)

    def hand_on(
        self, handoff: Handoff, *, now: datetime, why: str = "", result: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Note the next step of the answer on its way into the agent.

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
        return approval, () if what is None else (self.note(what, now=now, by="worker", why=why),)


def _by_policy(events: tuple[Event, ...], terms: Terms | None) -> tuple[Event, ...]:
    """Return events with the policy that has decided."""
    policy: dict[str, JsonValue] = {} if terms is None else {"policy": terms.policy}
    return tuple(one.model_copy(update={"more": {**one.more, **policy}}) for one in events)


_HANDOFF_EVENTS = {
    Handoff.STARTED: What.STARTED,
    Handoff.FINISHED: What.FINISHED,
    Handoff.RESUMED: What.RESUMED,
    Handoff.IN_DOUBT: What.IN_DOUBT,
    Handoff.EXPIRED: What.EXPIRED,
    Handoff.FAILED: What.NOT_RESUMED,
}
