"""Giving one's place to somebody else, and reminding those whose answer is awaited."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Self

from pydantic import JsonValue

from signoff.core.approvals.collaboration import (
    MOST_COMMENTS,
    QUEUE,
    Comment,
    Operator,
    Who,
    cleaned,
)
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.handling import Handled
from signoff.core.approvals.two_step import Assurance
from signoff.core.base.errors import MoveRefused, NotAnApprover, SecondFactorNeeded
from signoff.core.base.model import Value
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.policies.conditions import covers
from signoff.core.policies.levels import Seat

REMIND_EVERY: Final = timedelta(hours=1)
"""Nobody is reminded by hand sooner after the last reminder."""

_MOST_HANDOVERS: Final = 20


class Handover(Value):
    """A place that went from one person to another.

    Attributes:
        of: The id of whoever had it.
        to: The id of whoever has it now.
        by: Who did that: `of`, or whoever runs Signoff.
        at: When (UTC).
        reason: Why.
    """

    of: str
    to: str
    by: str
    at: datetime
    reason: str


class HandedOn(Handled):
    """A question whose places can be given to others.

    Attributes:
        handovers: Whose place went to whom, the oldest first.
        reminded_at: When somebody last had those reminded whose answer is awaited (UTC).
    """

    handovers: tuple[Handover, ...] = ()
    reminded_at: datetime | None = None

    def may_decide(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse whoever may not decide; see `Handled.may_decide`.

        Raises:
            DecisionRefused: The person may not decide, or has handed it on.
        """
        try:
            super().may_decide(person, directory, now=now)
        except NotAnApprover:
            handed = [one for one in self.handovers if one.of == person.id]
            if not handed:
                raise
            to = directory.get(handed[-1].to)
            raise NotAnApprover(
                f"{person.shown}'s place in approval {self.id} went to "
                f"{to.shown if to else handed[-1].to}, who decides it now."
            ) from None

    def reassign(
        self,
        who: Who,
        directory: Directory,
        *,
        of: Person,
        to: Person,
        reason: str,
        now: datetime,
        assurance: Assurance = Assurance.ACCOUNT,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Give a place to another person: one's own, or anybody's as whoever runs Signoff.

        Whoever had it cannot answer any more; what they have claimed or begun is void. Where a yes
        takes a second factor, giving the place away takes one too: the new holder has a second
        factor of their own, and a mailbox or a token alone would choose who that is.

        Args:
            who: Who does.
            directory: The people.
            of: Whose place.
            to: Who has it from now on.
            reason: Why.
            now: The present.
            assurance: How well it is known who does this.

        Raises:
            DecisionRefused: The person may not decide, or it is over.
            MoveRefused: It is not their place, they have answered, the other one has a place or
                never decides this, or there is no reason.
            SecondFactorNeeded: The place takes a second factor, and none was given for this move.
        """
        self.may_reassign(who, directory, of=of, now=now, assurance=assurance)
        why = cleaned(reason)
        if not why:
            raise MoveRefused("Handing it on needs a reason.")
        self.may_take(to, directory)
        if who.id == to.id:
            raise MoveRefused(
                f"{to.shown} hands over the places of others in approval {self.id}, and cannot "
                "take one of them."
            )
        step = Handover(of=of.id, to=to.id, by=who.id, at=now, reason=why)
        said = Comment(by=who.id, at=now, text=f"Handed on from {of.shown} to {to.shown}: {why}")
        after = self.model_copy(
            update={
                "comments": (*self.comments, said)[-MOST_COMMENTS:],
                "seats": self._seats_after(of.id, to.id, directory),
                "handovers": (*self.handovers, step),
                "steps": tuple(one for one in self.steps if one.by != of.id),
                "claimed": None if self.claimed and self.claimed.by == of.id else self.claimed,
            }
        )
        more: dict[str, JsonValue] = {"of": of.id, "to": to.id}
        return after, (self.note(What.REASSIGNED, now=now, by=who.id, why=why, more=more),)

    def may_reassign(
        self,
        who: Who,
        directory: Directory,
        *,
        of: Person,
        now: datetime,
        assurance: Assurance = Assurance.ACCOUNT,
    ) -> None:
        """Refuse whoever may not give a place away; see `reassign`.

        Raises:
            DecisionRefused: The person may not decide, or it is over.
            MoveRefused: It is not their place, they have answered, or it was handed on too often.
            SecondFactorNeeded: The place takes a second factor, and none was given for this move.
        """
        self._must_be_open(directory)
        self._must_be_in_time(now)
        if isinstance(who, Person):
            self.may_decide(who, directory, now=now)
            if who.id != of.id:
                raise MoveRefused(f"{who.shown} can give away no place but their own.")
        ballot = self.ballot
        if of.id not in ballot.own:
            raise MoveRefused(f"{of.shown} has no place in approval {self.id} to be given away.")
        if any(vote.by == of.id for vote in ballot.votes):
            raise MoveRefused(f"{of.shown} has answered approval {self.id} already.")
        if len(self.handovers) >= _MOST_HANDOVERS:
            raise MoveRefused(f"Approval {self.id} was handed on often enough. Decide it.")
        if self.in_two_steps and not assurance.gives_away:
            raise SecondFactorNeeded(
                f"Handing on approval {self.id} takes a second factor, as a yes to it does. Do it "
                "on the inbox page."
            )

    def concerns(self, person: Person, directory: Directory) -> bool:
        """Say whether a person may know of it, without any role.

        That is who is asked or was, who has decided it beforehand, who has asked for it, and the
        others of the queues that it was put into.
        """
        if self.decision is not None and self.decision.by == person.id:
            return True
        asked = {*self.approvers, *(one.of for one in self.handovers)}
        asked |= {one.person for one in self.seats} | {one.person for one in self.asked}
        ways = {one.via.removeprefix(QUEUE) for one in self.seats if one.via.startswith(QUEUE)}
        queues = (directory.queues.get(one) for one in ways)
        asked |= {member for one in queues if one is not None for member in one.members}
        return person.id in asked or self.is_requester(person, directory)

    def acting(self, person: Person, directory: Directory) -> Who:
        """Return as whom a person moves what is not theirs.

        An operator puts right what waits, but not where they have an interest of their own: what
        they have asked for, or what an agent of theirs asks for, they move like everybody else.
        """
        neutral = not self.never_decides(person, directory)
        return Operator(name=person.id) if Role.OPERATOR in person.roles and neutral else person

    def may_take(self, person: Person, directory: Directory) -> None:
        """Refuse whoever cannot be given a place.

        Raises:
            MoveRefused: The person never decides this, or has a place already.
        """
        if self.never_decides(person, directory):
            raise MoveRefused(
                f"{person.shown} can never decide approval {self.id}: whoever asks for a call, "
                "or owns the agent that makes it, has no say in it."
            )
        if person.id in {*self.ballot.own, *self.ballot.stay}:
            raise MoveRefused(f"{person.shown} is asked about approval {self.id} already.")

    def remind_now(
        self, who: Who, directory: Directory, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Have those reminded whose answer is awaited, at most once an hour.

        Whoever asks or is asked may, and whoever runs Signoff.

        Raises:
            AlreadyDecided: It has been decided.
            TooLate: It is over.
            MoveRefused: The person has nothing to do with it, or it is too soon.
        """
        self._must_be_open(directory)
        self._must_be_in_time(now)
        self._must_be_concerned(who, directory)
        automatic = [one for one in self.reminders[: self.reminded] if one <= now]
        last = max((one for one in (*automatic, self.reminded_at) if one), default=None)
        if last is not None and now < last + REMIND_EVERY:
            raise MoveRefused(
                f"Those who are asked about approval {self.id} were reminded at "
                f"{last:%Y-%m-%d %H:%M} UTC; they can be again an hour later."
            )
        awaited = self.ballot.awaited
        if not awaited:
            raise MoveRefused(f"Nobody's answer to approval {self.id} is awaited.")
        event = self.note(What.REMINDED, now=now, by=who.id, more={"people": list(awaited)})
        return self.model_copy(update={"reminded_at": now}), (event,)

    def _seats_after(self, of: str, to: str, directory: Directory) -> tuple[Seat, ...]:
        here = (self.level, self.round)
        # What was routed before there were seats has none until somebody moves.
        seats = self.seats or tuple(
            Seat(level=self.level, round=self.round, person=one) for one in self.ballot.own
        )
        until = self.terms.asking(self.level).until if self.terms is not None else ""
        reach = covers(until, self.facts, directory.limits(to))
        return tuple(
            one.model_copy(update={"person": to, "instead_of": "", "covers": one.covers and reach})
            if one.person == of and (one.level, one.round) == here
            else one
            for one in seats
            # A place that stayed open to them at an earlier level is theirs no more.
            if one.person != of or (one.level, one.round) == here
        )
