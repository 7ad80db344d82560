"""How an answer is counted, how a level begins, and how an approval ends.

The moves of `signoff.core.approvals.approval.Approval` are made of these.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Self

from pydantic import JsonValue

from signoff.core.approvals.events import Event, What
from signoff.core.approvals.handover import HandedOn
from signoff.core.approvals.lifecycle import TRANSITIONS, Handoff, Move, State
from signoff.core.approvals.parts import Decision, Kind
from signoff.core.approvals.two_step import FIRST
from signoff.core.approvals.voting import stands_for
from signoff.core.base.errors import IllegalMove, PayloadError, ReasonNeeded, SecondStepNeeded
from signoff.core.directory.people import Directory
from signoff.core.payloads.answer import difference
from signoff.core.payloads.digest import digest
from signoff.core.payloads.payload import missing_fields
from signoff.core.policies.levels import STAYS, Outcome, Seat, Start, Vote
from signoff.core.policies.policy import OnTimeout


class Counted(HandedOn):
    """A question whose answers are counted."""

    def pass_on(
        self, start: Start, *, now: datetime, notes: Sequence[str] = ()
    ) -> tuple[Self, tuple[Event, ...]]:
        """Go on to the next stage, because this one has approved; see `escalation.pass_on`.

        The yes of those who have approved at an earlier stage counts there as well, unless the
        policy asks them twice.

        Raises:
            IllegalMove: Its stage has not approved it, or is the last.
        """
        if not self.passed or self.terms is None:
            raise IllegalMove(f"Approval {self.id} has no stage to go on to.")
        people = dict.fromkeys(seat.person for seat in start.seats)
        more: dict[str, JsonValue] = {"people": list(people)}
        if called := self.terms.called(start.level):
            more["level"] = called
        by = self.votes[-1].by
        event = self.note(What.PASSED, now=now, by=by, why="; ".join(notes), more=more)
        # Nobody of a stage that is over may answer at the next, unless they are asked there.
        seats = [one for one in self.seats if one.level != STAYS]
        begun, carried = self._begin(start, seats, now=now).count_earlier(now=now)
        return begun, (event, *carried)

    def count_earlier(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Count the yeses of earlier stages that people of this level have given."""
        if self.terms is None or self.terms.ask_twice:
            return self, ()
        said, events, after = {one.by: one for one in self.given}, list[Event](), self
        for person in self.ballot.own:
            vote = said.get(person)
            if vote is None or (self.needs_reason(Outcome.APPROVE) and not vote.reason.strip()):
                continue
            place = {"level": self.level, "round": self.round, "stands_for": person}
            votes = (*after.votes, vote.model_copy(update=place))
            after = after.model_copy(update={"votes": votes})
            why = "has approved it at an earlier stage, which counts here as well"
            yes, of = len(after.ballot.yes), after.ballot.need
            more: dict[str, JsonValue] = {"verdict": "approve", "yes": yes, "of": of}
            events.append(self.note(What.VOTED, now=now, by=person, why=why, more=more))
        if events and after.ballot.reached and not after.passed:
            *others, last = after.votes
            fields = last.model_dump(include={*Decision.model_fields})
            decision = Decision(**(fields | {"at": now}))
            ended, ends = self._end(Move.APPROVE, decision, votes=tuple(others))
            return ended, (*events, *ends)
        return after, tuple(events)

    def needs_reason(self, verdict: Outcome) -> bool:
        """Say whether the policy wants a reason for an answer at this level."""
        return self.terms is not None and verdict in self.terms.asking(self.level).reasons

    @property
    def batchable(self) -> bool:
        """Whether a yes may be given together with others.

        Its policy says that such calls are harmless, and a plain yes is all that it takes.
        """
        return (
            self.state is State.PENDING
            and self.kind is Kind.CONFIRMATION
            and self.template is None
            and self.terms is not None
            and self.terms.batch
            and not self.in_two_steps
            and not self.needs_reason(Outcome.APPROVE)
        )

    def _with_reason(self, verdict: Outcome, reason: str) -> None:
        if self.needs_reason(verdict) and not reason.strip():
            raise ReasonNeeded(
                f"An answer that {verdict.value}s {self.call.name}() needs a reason here.",
                key="",
                read="",
                example=f"{verdict.value}: because …",
            )

    def _agrees(self, said: Decision, directory: Directory) -> None:
        """Refuse a yes with other values than those of a yes that stands.

        Raises:
            PayloadError: It says other values.
        """
        if said.proposal is not None:
            return
        for vote in (*self.given, *self.ballot.votes):
            same = digest("", {"of": vote.payload}) == digest("", {"of": said.payload})
            if vote.verdict is not Outcome.APPROVE or vote.by == said.by or same:
                continue
            other = directory.get(vote.by)
            key, mine, theirs = difference(said.payload, vote.payload)
            raise PayloadError(
                f"{other.shown if other else vote.by} has approved this with {theirs}, and you say "
                f"{mine}. All who approve have to say the same: approve it with the same values, "
                "reject it, or ask them to change theirs.",
                key=key,
                read=mine,
                example=theirs,
            )

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
        # Other values than were shown are a no to what was shown.
        return self._vote(
            Outcome.APPROVE if decision.proposal is None else Outcome.REJECT, decision
        )

    def _vote(self, verdict: Outcome, said: Decision) -> tuple[Self, tuple[Event, ...]]:
        """Count an answer, and end it where that is enough."""
        vote = Vote(
            stands_for=stands_for(said.by, self.seats),
            level=self.level,
            round=self.round,
            verdict=verdict,
            **said.model_dump(),
        )
        # A yes of an earlier stage stands, whoever has given it.
        given = self.given
        others = tuple(one for one in self.votes if one.by != said.by or one in given)
        after = self.model_copy(
            update={
                "votes": (*others, vote),
                "steps": tuple(one for one in self.steps if one.by != said.by),
            }
        )
        ballot = after.ballot
        if verdict is Outcome.REJECT and ballot.lost:
            return self._end(Move.REJECT, said, votes=others)
        if verdict is Outcome.APPROVE and ballot.reached and not after.passed:
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

    def _begin(self, start: Start, earlier: Sequence[Seat], *, now: datetime) -> Self:
        """Begin a level; those of earlier ones are kept, once each."""
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
                "deadline": start.deadline,
                "reminders": start.reminders,
                "reminded": 0,
                "claimed": None,
                "paused": None,
            }
        )

    def _end(
        self, move: Move, decision: Decision, *, votes: tuple[Vote, ...] | None = None
    ) -> tuple[Self, tuple[Event, ...]]:
        """End it; the votes are those of others, for what ends it is the decision alone."""
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
        if decision.payload is not None:
            more["payload"] = decision.payload
        if decision.proposal is not None:
            more["proposal"] = decision.proposal
        if decision.first_step:
            more["first_step"] = decision.first_step
        if decision.grant:
            more["grant"] = decision.grant
        return more
