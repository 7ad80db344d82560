"""What people do about a question short of deciding it: claim, ask back, comment, prolong.

None of these moves decides anything, and none lets anybody decide who might not before.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final, Self

from pydantic import JsonValue

from signoff.core.approvals.collaboration import (
    CLAIM,
    LONGEST_CLAIM,
    MOST_COMMENTS,
    QUEUE,
    Claim,
    Comment,
    Extension,
    Sort,
    Who,
    cleaned,
)
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.question import Question
from signoff.core.base.durations import format_duration
from signoff.core.base.errors import AlreadyDecided, Claimed, MoveRefused, TooLate
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Clock


class Handled(Question):
    """A question with the moves that do not decide it.

    Attributes:
        claimed: Who has reserved the decision; see `claim_at` for whether it still counts.
        comments: What was said, the oldest first.
        extensions: What was added to the deadlines.
        paused: Since when a question to the requester stops the clock of this level (UTC).
    """

    claimed: Claim | None = None
    comments: tuple[Comment, ...] = ()
    extensions: tuple[Extension, ...] = ()
    paused: datetime | None = None

    def may_decide(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse whoever may not decide, or may not any more, or not now.

        Raises:
            OwnRequest: The person is the requester, by any of his identities.
            NotAnApprover: The person is not asked at this level.
            AlreadyDecided: It has been decided.
            TooLate: The deadline has passed, whether or not anybody has noticed yet.
            Claimed: Somebody else has reserved the decision.
        """
        super().may_decide(person, directory, now=now)
        claim = self.claim_at(now)
        if claim is not None and claim.by != person.id:
            by = directory.get(claim.by)
            raise Claimed(
                f"{by.shown if by else claim.by} has claimed approval {self.id} until "
                f"{claim.until:%Y-%m-%d %H:%M} UTC. Until then it is theirs to decide, unless "
                "they release it.",
                until=claim.until,
            )

    def claim_at(self, now: datetime) -> Claim | None:
        """Return the claim that holds at a moment: none that ran out."""
        claim = self.claimed
        if claim is None or self.state is not State.PENDING or now >= claim.until:
            return None
        return claim if claim.by in self.ballot.awaited else None

    def claim(
        self,
        person: Person,
        directory: Directory,
        *,
        now: datetime,
        length: timedelta | None = None,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Reserve the decision for one of those who are asked; the deadline stays where it is.

        Whoever has it already has it anew from now on.

        Args:
            person: Who.
            directory: The people.
            now: The present.
            length: For how long; None is as the queue says in which the person is asked. It ends
                at the deadline, and a day after the first claim, however often it is renewed.

        Raises:
            DecisionRefused: The person may not decide, or somebody else has claimed it.
            MoveRefused: The length is none, or the person has answered already.
        """
        self.may_decide(person, directory, now=now)
        if person.id not in self.ballot.awaited:
            raise MoveRefused(f"{person.shown} has answered approval {self.id} already.")
        length = self._usual_claim(person, directory) if length is None else length
        if length <= timedelta():
            raise MoveRefused("A claim needs a length, such as 30m.")
        held = self.claim_at(now)
        first = held.first if held is not None else now
        until = min(now + length, first + LONGEST_CLAIM)
        if self.deadline is not None and now < self.deadline:
            until = min(until, self.deadline)
        since = None if first == now else first
        claim = Claim(by=person.id, at=now, until=until, since=since)
        after = self.model_copy(update={"claimed": claim})
        more: dict[str, JsonValue] = {"until": until.isoformat()}
        return after, (self.note(What.CLAIMED, now=now, by=person.id, more=more),)

    def release(
        self, who: Who, directory: Directory, *, now: datetime, reason: str = ""
    ) -> tuple[Self, tuple[Event, ...]]:
        """Give a claim back: whoever has it, or whoever runs Signoff.

        Raises:
            AlreadyDecided: It has been decided.
            MoveRefused: There is no claim, or it is somebody else's.
        """
        self._must_be_open(directory)
        claim = self.claim_at(now)
        if claim is None:
            raise MoveRefused(
                f"Nobody has claimed approval {self.id}; there is nothing to release."
            )
        if isinstance(who, Person) and who.id != claim.by:
            by = directory.get(claim.by)
            raise MoveRefused(
                f"{by.shown if by else claim.by} has claimed approval {self.id}; only they can "
                f"release it before {claim.until:%Y-%m-%d %H:%M} UTC."
            )
        return self._released(by=who.id, why=cleaned(reason), now=now)

    def end_claim(self, *, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        """Take away a claim that holds no longer; where there is none, nothing changes."""
        if self.claimed is None or self.claim_at(now) is not None:
            return self, ()
        return self._released(by="", why="the claim ran out", now=now)

    def comment(
        self, who: Who, directory: Directory, *, text: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Say something for all who see the card: who is asked, who has asked, who runs Signoff.

        Raises:
            AlreadyDecided: It has been decided.
            MoveRefused: The person has nothing to do with it, or there is no room for more.
        """
        self.may_comment(who, directory)
        return self._with_comment(who.id, text, Sort.COMMENT, now=now)

    def may_comment(self, who: Who, directory: Directory) -> None:
        """Refuse whoever may not comment; see `comment`.

        Raises:
            AlreadyDecided: It has been decided.
            MoveRefused: The person has nothing to do with it.
        """
        self._must_be_open(directory)
        self._must_be_concerned(who, directory)

    def ask_back(
        self, person: Person, directory: Directory, *, text: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Put a question to the requester; whoever may decide may ask.

        With ``clock = "pause"`` the deadline and the reminders move on by the time until the
        answer, at most by as long as the level is.

        Raises:
            DecisionRefused: The person may not decide.
            MoveRefused: The requester is nobody whom Signoff can reach, or there is no room.
        """
        self.may_decide(person, directory, now=now)
        if directory.find(self.origin.user) is None:
            raise MoveRefused(
                f"The requester {self.origin.user!r} is not in [[people]], so nobody can be asked. "
                "Ask them yourself, or reject with a reason."
            )
        paused = self._pause(now)
        return paused._with_comment(person.id, text, Sort.QUESTION, now=now)  # noqa: SLF001 -- itself

    def may_be_asked_back(self, directory: Directory) -> bool:
        """Say whether the requester can be asked something: they are known, and there is room."""
        room = len(self.comments) < MOST_COMMENTS
        return room and directory.find(self.origin.user) is not None

    def answer_back(
        self, person: Person, directory: Directory, *, text: str, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        """Say what the requester answers; without an open question it is a comment of theirs.

        Raises:
            AlreadyDecided: It has been decided.
            TooLate: The deadline has passed.
            MoveRefused: The person is not the requester, or there is no room.
        """
        self.may_answer_back(person, directory, now=now)
        sort = Sort.COMMENT if self.open_question is None else Sort.ANSWER
        resumed = self._resume(now)
        return resumed._with_comment(person.id, text, sort, now=now)  # noqa: SLF001 -- itself

    def may_answer_back(self, person: Person, directory: Directory, *, now: datetime) -> None:
        """Refuse whoever does not answer for the requester; see `answer_back`.

        Raises:
            AlreadyDecided: It has been decided.
            TooLate: The deadline has passed.
            MoveRefused: The person is not the requester.
        """
        self._must_be_open(directory)
        self._must_be_in_time(now)
        self._must_be_requester(person, directory, "answer for them")

    def _pause(self, now: datetime) -> Self:
        """Stop the clock for the requester, where the policy lets a question do so."""
        if self.terms is None or self.terms.clock is not Clock.PAUSE or self.paused is not None:
            return self
        most = self._given
        return self._later(most).model_copy(update={"paused": now}) if most else self

    def _resume(self, now: datetime) -> Self:
        """Let the clock go on: what is left of the longest pause is taken away again."""
        if self.paused is None:
            return self
        unused = min(now - self.paused, self._given) - self._given
        return self._later(unused).model_copy(update={"paused": None})

    def _later(self, more: timedelta) -> Self:
        """Return it with the deadline, and the reminders that are to come, moved."""
        come, left = self.reminders[: self.reminded], self.reminders[self.reminded :]
        update = {
            "deadline": None if self.deadline is None else self.deadline + more,
            "reminders": (*come, *(one + more for one in left)),
        }
        return self.model_copy(update=update)

    @property
    def _given(self) -> timedelta:
        """How long the present level is, by the clock."""
        ladder = self.terms.ladder if self.terms is not None else ()
        return ladder[self.level].within.by_the_clock if self.level < len(ladder) else timedelta()

    @property
    def next_due(self) -> datetime | None:
        """The next moment at which anything is to do: also the end of a claim."""
        due, claim = super().next_due, self.claimed
        if claim is None:
            return due
        return claim.until if due is None else min(due, claim.until)

    @property
    def queues(self) -> tuple[str, ...]:
        """The queues in which it waits at its present level: ``queue:finance``."""
        here = (one for one in self.seats if (one.level, one.round) == (self.level, self.round))
        return tuple(dict.fromkeys(one.via for one in here if one.via.startswith(QUEUE)))

    @property
    def open_question(self) -> Comment | None:
        """The latest question to the requester, if they have not answered since."""
        asked = (one for one in reversed(self.comments) if one.sort is not Sort.COMMENT)
        latest = next(asked, None)
        return latest if latest is not None and latest.sort is Sort.QUESTION else None

    def may_withdraw(self, person: Person, directory: Directory) -> None:
        """Refuse whoever may not take the question back: anybody but the requester.

        Raises:
            AlreadyDecided: It has been decided.
            MoveRefused: The person is not the requester.
        """
        self._must_be_open(directory)
        self._must_be_requester(person, directory, "withdraw it")

    def extend(
        self,
        who: Who,
        directory: Directory,
        *,
        more: timedelta,
        reason: str,
        now: datetime,
    ) -> tuple[Self, tuple[Event, ...]]:
        """Move the deadline: whoever may decide may, and whoever runs Signoff.

        All that is added to one deadline together is at most as long as the policy gave.

        Raises:
            DecisionRefused: The person may not decide, or it is over.
            MoveRefused: There is no deadline, no reason, or more is wanted than may be added.
        """
        deadline = self.may_extend(who, directory, now=now)
        why = cleaned(reason)
        if not why:
            raise MoveRefused("More time needs a reason, for whoever waits.")
        room = self.time_to_add
        if not timedelta() < more <= room:
            most = f"{format_duration(room)} is the most"
            raise MoveRefused(f"Approval {self.id} cannot be prolonged by that: {most}.")
        until = deadline + more
        step = Extension(
            by=who.id, at=now, more=more, reason=why, level=self.level, round=self.round
        )
        after = self.model_copy(update={"deadline": until, "extensions": (*self.extensions, step)})
        details: dict[str, JsonValue] = {
            "by": format_duration(more),
            "until": until.isoformat(),
        }
        return after, (self.note(What.EXTENDED, now=now, by=who.id, why=why, more=details),)

    def may_extend(self, who: Who, directory: Directory, *, now: datetime) -> datetime:
        """Return the deadline that may be moved, or refuse whoever may not do so; see `extend`.

        Raises:
            DecisionRefused: The person may not decide, or it is over.
            MoveRefused: There is no deadline, or it was moved as far as may be.
        """
        self._must_be_open(directory)
        if isinstance(who, Person):
            self.may_decide(who, directory, now=now)
        self._must_be_in_time(now)
        if self.deadline is None:
            raise MoveRefused(f"Approval {self.id} has no deadline that could be moved.")
        if not self.time_to_add:
            raise MoveRefused(f"Approval {self.id} was prolonged enough; nothing can be added.")
        return self.deadline

    def is_requester(self, person: Person, directory: Directory) -> bool:
        """Say whether a person is the requester, by any of his identities."""
        return directory.same(person.id, self.origin.user) or person.owns(self.origin.user)

    def never_decides(self, person: Person, directory: Directory) -> bool:
        """Say whether a person has no say in it: the requester, and whoever owns the agent.

        Nor has whoever may be one of them, under another name.
        """
        return any(directory.may_be(person, one) for one in (self.origin.user, *self.barred))

    def _usual_claim(self, person: Person, directory: Directory) -> timedelta:
        vias = (one.via.removeprefix(QUEUE) for one in self.seats if one.person == person.id)
        queues = (directory.queues[name] for name in vias if name in directory.queues)
        return next((queue.claim for queue in queues), CLAIM)

    @property
    def time_to_add(self) -> timedelta:
        """How much may still be added to the end of this level."""
        here = (self.level, self.round)
        added = (one.more for one in self.extensions if (one.level, one.round) == here)
        return max(self._given - sum(added, timedelta()), timedelta())

    def _released(self, *, by: str, why: str, now: datetime) -> tuple[Self, tuple[Event, ...]]:
        more: dict[str, JsonValue] = {"of": self.claimed.by if self.claimed else ""}
        event = self.note(What.RELEASED, now=now, by=by, why=why, more=more)
        return self.model_copy(update={"claimed": None}), (event,)

    def _with_comment(
        self, by: str, text: str, sort: Sort, *, now: datetime
    ) -> tuple[Self, tuple[Event, ...]]:
        said = cleaned(text)
        if not said:
            raise MoveRefused("There are no words in it.")
        if len(self.comments) >= MOST_COMMENTS:
            raise MoveRefused(
                f"Approval {self.id} has {MOST_COMMENTS} comments already; there is no room for "
                "more. Decide it, or talk about it elsewhere."
            )
        after = self.model_copy(
            update={"comments": (*self.comments, Comment(by=by, at=now, text=said, sort=sort))}
        )
        return after, (self.note(_EVENTS[sort], now=now, by=by, why=said),)

    def _must_be_open(self, directory: Directory) -> None:
        if self.state is not State.PENDING:
            raise AlreadyDecided(f"Approval {self.id} is already {self.outcome(directory)}.")

    def _must_be_in_time(self, now: datetime) -> None:
        if self.is_late(now) and not self.stays_open:
            raise TooLate(f"Approval {self.id} expired at {self.deadline:%Y-%m-%d %H:%M} UTC.")

    def _must_be_concerned(self, who: Who, directory: Directory) -> None:
        if isinstance(who, Person) and not (
            who.id in self.approvers or self.is_requester(who, directory)
        ):
            raise MoveRefused(f"{who.shown} has nothing to do with approval {self.id}.")

    def _must_be_requester(self, person: Person, directory: Directory, what: str) -> None:
        if not self.is_requester(person, directory):
            raise MoveRefused(
                f"{person.shown} has not asked for approval {self.id}; only the requester can "
                f"{what}."
            )


_EVENTS: Final = {
    Sort.COMMENT: What.COMMENTED,
    Sort.QUESTION: What.ASKED_BACK,
    Sort.ANSWER: What.ANSWERED_BACK,
}
