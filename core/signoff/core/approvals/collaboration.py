"""What people do besides deciding: claim, comment, ask back, extend, hand over and remind.

These moves do not decide anything. Each move returns the next `Approval` and its events. Each
`may_…` raises an error if the move is refused.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo
from typing import Final

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, Moved
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import (
    LONGEST_TEXT,
    Assurance,
    Claim,
    Comment,
    CommentKind,
    Extension,
    Handover,
)
from signoff.core.base.durations import Span, format_duration
from signoff.core.base.errors import MoveRefused, SecondFactorNeeded, TooLate
from signoff.core.base.model import Value
from signoff.core.base.moments import moment_text
from signoff.core.base.text import clean_text
from signoff.core.directory import working_time
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import QUEUE
from signoff.core.policies.conditions import covers
from signoff.core.policies.levels import Seat
from signoff.core.policies.policy import OnQuestion

CLAIM: Final = timedelta(minutes=30)
"""How long a claim holds unless the person or their queue says otherwise."""

REMIND_EVERY: Final = timedelta(hours=1)
"""The least time between any reminder and a manual one."""

LONGEST_CLAIM: Final = timedelta(hours=24)
"""The longest time for which one person can claim an approval, including renewals."""

MOST_COMMENTS: Final = 50
_MOST_HANDOVERS: Final = 20

_EVENTS: Final = {
    CommentKind.COMMENT: What.COMMENTED,
    CommentKind.QUESTION: What.ASKED_BACK,
    CommentKind.ANSWER: What.ANSWERED_BACK,
}


class Operator(Value):
    """Somebody who runs Signoff, at the command line or by role. Operators decide nothing.

    Attributes:
        name: For the audit: ``root (cli)``, or the id of the person with the role.
    """

    name: str

    @property
    def id(self) -> str:
        """The id that the audit shows."""
        return self.name

    @property
    def shown(self) -> str:
        """The name for people."""
        return self.name


Who = Person | Operator


def acting(approval: Approval, person: Person, directory: Directory) -> Who:
    """Return the capacity in which a person makes moves that are not reserved for approvers.

    Operators can correct pending approvals. For requests of their own or of their agents, they act
    as ordinary people.
    """
    neutral = not approval.never_decides(person, directory)
    return Operator(name=person.id) if Role.OPERATOR in person.roles and neutral else person


# Claims.


def claim(
    approval: Approval,
    person: Person,
    directory: Directory,
    *,
    now: datetime,
    length: timedelta | None = None,
) -> Moved:
    """Reserve the decision for one of the approvers; the deadline does not change.

    Claiming again restarts the claim, which ends at most a day after the first claim.

    Args:
        approval: The approval.
        person: The approver who claims it.
        directory: The people.
        now: The present.
        length: How long it lasts, at most a day and not beyond the deadline; None takes the length
            from the queue in which the person is asked.

    Raises:
        DecisionRefused: The person may not decide, or another person has claimed it.
        MoveRefused: The length is not positive, or the person has answered already.
    """
    approval.may_decide(person, directory, now=now)
    if person.id not in approval.ballot.awaited:
        raise MoveRefused(f"{person.shown} has answered approval {approval.id} already.")
    length = _usual_claim(approval, person, directory) if length is None else length
    if length <= timedelta():
        raise MoveRefused("A claim needs a length, such as 30m.")
    held = approval.claim_at(now)
    first = held.first if held is not None else now
    until = min(now + length, first + LONGEST_CLAIM)
    if approval.deadline is not None and now < approval.deadline:
        until = min(until, approval.deadline)
    since = None if first == now else first
    claimed = Claim(by=person.id, at=now, until=until, since=since)
    after = approval.model_copy(update={"claimed": claimed})
    more: dict[str, JsonValue] = {"until": until.isoformat()}
    return after, (approval.note(What.CLAIMED, now=now, by=person.id, more=more),)


def release(
    approval: Approval, who: Who, directory: Directory, *, now: datetime, reason: str = ""
) -> Moved:
    """Release a claim; its holder and operators may.

    Raises:
        AlreadyDecided: It has been decided.
        MoveRefused: There is no claim, or another person holds it.
    """
    approval.must_be_open(directory)
    held = approval.claim_at(now)
    if held is None:
        raise MoveRefused(
            f"Nobody has claimed approval {approval.id}; there is nothing to release."
        )
    if isinstance(who, Person) and who.id != held.by:
        until = moment_text(held.until, directory.zone_of(who.id))
        raise MoveRefused(
            f"{directory.shown(held.by)} has claimed approval {approval.id}; only they or an "
            f"operator can release it before {until}."
        )
    return _released(approval, by=who.id, why=cleaned(reason), now=now)


def end_claim(approval: Approval, *, now: datetime) -> Moved:
    """Remove an expired claim; without one nothing changes."""
    if approval.claimed is None or approval.claim_at(now) is not None:
        return approval, ()
    return _released(approval, by="", why="the claim ran out", now=now)


def end_claim_of(approval: Approval, person: str, *, why: str, now: datetime) -> Moved:
    """Remove the claim of a person who has left; without one nothing changes."""
    if approval.claimed is None or approval.claimed.by != person:
        return approval, ()
    return _released(approval, by="", why=why, now=now)


def _usual_claim(approval: Approval, person: Person, directory: Directory) -> timedelta:
    names = (one.via.removeprefix(QUEUE) for one in approval.seats if one.person == person.id)
    queues = (directory.queues[name] for name in names if name in directory.queues)
    return next((queue.claim for queue in queues), CLAIM)


def _released(approval: Approval, *, by: str, why: str, now: datetime) -> Moved:
    more: dict[str, JsonValue] = {"of": approval.claimed.by if approval.claimed else ""}
    event = approval.note(What.RELEASED, now=now, by=by, why=why, more=more)
    return approval.model_copy(update={"claimed": None}), (event,)


# Comments, and questions to the requester.


def may_comment(approval: Approval, who: Who, directory: Directory) -> None:
    """Refuse a person who may not comment: approvers, the requester and operators may.

    Raises:
        AlreadyDecided: It has been decided.
        MoveRefused: The person has nothing to do with it.
    """
    approval.must_be_open(directory)
    _must_be_concerned(approval, who, directory)


def comment(
    approval: Approval, who: Who, directory: Directory, *, text: str, now: datetime
) -> Moved:
    """Add a comment, which everybody who sees the card can read.

    Raises:
        AlreadyDecided: It has been decided.
        MoveRefused: The person may not comment, the text is empty, or there is no room for more.
    """
    may_comment(approval, who, directory)
    return _with_comment(approval, who.id, text, CommentKind.COMMENT, now=now)


def can_ask_back(approval: Approval, directory: Directory) -> bool:
    """Say whether the requester can be asked: they are in the directory, and there is room."""
    room = len(approval.comments) < MOST_COMMENTS
    return room and directory.find(approval.origin.user) is not None


def ask_back(
    approval: Approval, person: Person, directory: Directory, *, text: str, now: datetime
) -> Moved:
    """Ask the requester a question; everybody who may decide can do this.

    With ``clock = "pause"`` the deadline and the reminders are postponed by the time until the
    answer, at most by the length of the level.

    Raises:
        DecisionRefused: The person may not decide.
        MoveRefused: The requester is not in the directory, or there is no room for more.
    """
    approval.may_decide(person, directory, now=now)
    if directory.find(approval.origin.user) is None:
        raise MoveRefused(
            f"The requester {approval.origin.user!r} is not in [[people]], so nobody can be asked. "
            "Ask them yourself, or reject with a reason."
        )
    return _with_comment(
        _paused(approval, directory, now), person.id, text, CommentKind.QUESTION, now=now
    )


def may_answer_back(
    approval: Approval, person: Person, directory: Directory, *, now: datetime
) -> None:
    """Refuse a person who is not the requester, or answers too late.

    Raises:
        AlreadyDecided: It has been decided.
        TooLate: The deadline has passed.
        MoveRefused: The person is not the requester.
    """
    approval.must_be_open(directory)
    _must_be_in_time(approval, now, directory.zone_of(person.id))
    if not approval.is_requester(person, directory):
        raise MoveRefused(
            f"{person.shown} has not asked for approval {approval.id}; only the requester can "
            "answer for them."
        )


def answer_back(
    approval: Approval, person: Person, directory: Directory, *, text: str, now: datetime
) -> Moved:
    """Add the requester's answer; without an open question it is a comment.

    Raises:
        AlreadyDecided: It has been decided.
        TooLate: The deadline has passed.
        MoveRefused: The person is not the requester, or there is no room for more.
    """
    may_answer_back(approval, person, directory, now=now)
    sort = CommentKind.COMMENT if approval.open_question is None else CommentKind.ANSWER
    return _with_comment(_resumed(approval, directory, now), person.id, text, sort, now=now)


def people_here(approval: Approval, directory: Directory) -> list[Person]:
    """Return the people with a seat at the present level. Their working time counts."""
    if approval.in_two_steps:
        directory = directory.proven()
    return [one for name in approval.ballot.own if (one := directory.get(name)) is not None]


def _paused(approval: Approval, directory: Directory, now: datetime) -> Approval:
    """Stop the clock until the requester answers, if the policy says so.

    The clock of a program's request never stops, because the program does not wait longer.
    """
    terms, deadline = approval.terms, approval.deadline
    stops = terms is not None and terms.clock is OnQuestion.PAUSE and approval.paused is None
    if not stops or deadline is None or approval.window is not None:
        return approval
    due = (deadline, *approval.reminders[approval.reminded :])
    within, people = _within(approval), people_here(approval, directory)
    moved = [working_time.after(one, within, people) for one in due]
    return _due_at(approval, moved).model_copy(update={"paused": now, "paused_due": due})


def _resumed(approval: Approval, directory: Directory, now: datetime) -> Approval:
    """Restart the clock with as much time left as when it stopped.

    A pause is never longer than the level.
    """
    since, due = approval.paused, approval.paused_due
    if since is None:
        return approval
    going = approval.model_copy(update={"paused": None, "paused_due": ()})
    if approval.deadline is None or not due:
        return going
    within, people = _within(approval), people_here(approval, directory)

    def moved(one: datetime) -> datetime:
        left = working_time.between(since, one, people, business=within.business)
        gone_on = working_time.after(now, Span(left, within.business), people)
        return min(gone_on, working_time.after(one, within, people))

    added = (
        one.more
        for one in approval.extensions
        if one.at >= since and (one.level, one.round) == (approval.level, approval.round)
    )
    deadline, *reminders = map(moved, due)
    left = len(approval.reminders) - approval.reminded
    return _due_at(going, [deadline + sum(added, timedelta()), *reminders[len(reminders) - left :]])


def _due_at(approval: Approval, due: Sequence[datetime]) -> Approval:
    """Return an approval with a new deadline and new future reminders."""
    come = approval.reminders[: approval.reminded]
    return approval.model_copy(update={"deadline": due[0], "reminders": (*come, *due[1:])})


def _within(approval: Approval) -> Span:
    """Return the length of the present level."""
    ladder = approval.terms.ladder if approval.terms is not None else ()
    return ladder[approval.level].within if approval.level < len(ladder) else Span(timedelta())


def _with_comment(
    approval: Approval, by: str, text: str, sort: CommentKind, *, now: datetime
) -> Moved:
    said = cleaned(text)
    if not said:
        raise MoveRefused("There are no words in it.")
    if len(approval.comments) >= MOST_COMMENTS:
        raise MoveRefused(
            f"Approval {approval.id} has {MOST_COMMENTS} comments already; there is no room for "
            "more. Decide it, or talk about it elsewhere."
        )
    fresh = Comment(by=by, at=now, text=said, sort=sort)
    after = approval.model_copy(update={"comments": (*approval.comments, fresh)})
    return after, (approval.note(_EVENTS[sort], now=now, by=by, why=said),)


# More time.


def time_to_add(approval: Approval) -> timedelta:
    """Return how much time can still be added to the present level.

    All extensions of a level together are at most as long as the level in the policy.
    """
    here, given = (approval.level, approval.round), _within(approval).by_the_clock
    added = (one.more for one in approval.extensions if (one.level, one.round) == here)
    return max(given - sum(added, timedelta()), timedelta())


def may_extend(approval: Approval, who: Who, directory: Directory, *, now: datetime) -> datetime:
    """Return the deadline that may be extended, by people who may decide and by operators.

    Raises:
        DecisionRefused: The person may not decide, or it is over.
        MoveRefused: There is no deadline, or no more time can be added.
    """
    approval.must_be_open(directory)
    if isinstance(who, Person):
        approval.may_decide(who, directory, now=now)
    _must_be_in_time(approval, now, directory.zone_of(who.id))
    if approval.deadline is None:
        raise MoveRefused(f"Approval {approval.id} has no deadline that could be moved.")
    if not time_to_add(approval):
        raise MoveRefused(f"Approval {approval.id} was prolonged enough; nothing can be added.")
    return approval.deadline


def extend(
    approval: Approval,
    who: Who,
    directory: Directory,
    *,
    more: timedelta,
    reason: str,
    now: datetime,
) -> Moved:
    """Move the deadline by `more`.

    Raises:
        DecisionRefused: The person may not decide, or it is over.
        MoveRefused: There is no deadline, no reason, or it is more than `time_to_add`.
    """
    deadline = may_extend(approval, who, directory, now=now)
    why = cleaned(reason)
    if not why:
        raise MoveRefused("More time needs a reason, for the people who wait.")
    room = time_to_add(approval)
    if not timedelta() < more <= room:
        most = f"{format_duration(room)} is the most"
        raise MoveRefused(f"Approval {approval.id} cannot be prolonged by that: {most}.")
    until = deadline + more
    if approval.has_closed(until):
        raise MoveRefused(
            f"Approval {approval.id} cannot be prolonged by that: the program that asks waits "
            f"until {moment_text(approval.window or until, directory.zone_of(who.id))}."
        )
    step = Extension(
        by=who.id, at=now, more=more, reason=why, level=approval.level, round=approval.round
    )
    after = approval.model_copy(
        update={"deadline": until, "extensions": (*approval.extensions, step)}
    )
    details: dict[str, JsonValue] = {"by": format_duration(more), "until": until.isoformat()}
    return after, (approval.note(What.EXTENDED, now=now, by=who.id, why=why, more=details),)


# Handing a seat over.


def may_reassign(
    approval: Approval,
    who: Who,
    directory: Directory,
    *,
    of: Person,
    now: datetime,
    assurance: Assurance = Assurance.ACCOUNT,
) -> None:
    """Refuse a person who may not hand over a seat; its holder and operators may.

    Raises:
        DecisionRefused: The person may not decide, or it is over.
        MoveRefused: It is not their seat, they have answered, or it was handed over too often.
        SecondFactorNeeded: An approval takes a second factor, and none was given for this move.
    """
    approval.must_be_open(directory)
    _must_be_in_time(approval, now, directory.zone_of(who.id))
    if isinstance(who, Person):
        approval.may_decide(who, directory, now=now)
        if who.id != of.id:
            raise MoveRefused(f"{who.shown} can only give away their own place.")
    ballot = approval.ballot
    if of.id not in ballot.own:
        raise MoveRefused(f"{of.shown} has no place in approval {approval.id} to be given away.")
    if any(vote.by == of.id for vote in ballot.votes):
        raise MoveRefused(f"{of.shown} has answered approval {approval.id} already.")
    if len(approval.handovers) >= _MOST_HANDOVERS:
        raise MoveRefused(f"Approval {approval.id} was handed on often enough. Decide it.")
    if approval.in_two_steps and not assurance.gives_away:
        raise SecondFactorNeeded(
            f"Handing on approval {approval.id} takes a second factor, as a yes to it does. Do it "
            "on the inbox page."
        )


def may_take(approval: Approval, person: Person, directory: Directory) -> None:
    """Refuse a person who cannot be given a seat.

    Raises:
        MoveRefused: The person never decides this, or has a seat already.
    """
    if approval.never_decides(person, directory):
        raise MoveRefused(
            f"{person.shown} can never decide approval {approval.id}: the requester of a call "
            "and the owner of its agent have no say in it."
        )
    ballot = approval.ballot
    if any(directory.is_one(person.id, one) for one in (*ballot.own, *ballot.stay)):
        raise MoveRefused(f"{person.shown} is asked about approval {approval.id} already.")


def reassign(
    approval: Approval,
    who: Who,
    directory: Directory,
    *,
    of: Person,
    to: Person,
    reason: str,
    now: datetime,
    assurance: Assurance = Assurance.ACCOUNT,
) -> Moved:
    """Hand over a seat to another person: one's own seat, or any seat as an operator.

    The former holder can no longer answer, and their claim and first step are void. If an approval
    needs a second factor, handing it over needs one too. Otherwise a mailbox or a token alone could
    choose the person whose second factor counts.

    Args:
        approval: The approval.
        who: Who hands it over.
        directory: The people.
        of: The person who has the seat.
        to: The person who gets it.
        reason: The reason.
        now: The present.
        assurance: How well the identity of `who` is proven.

    Raises:
        DecisionRefused: The person may not decide, or it is over.
        MoveRefused: It is not their seat, they have answered, the other person has a seat or never
            decides this, or there is no reason.
        SecondFactorNeeded: An approval takes a second factor, and none was given for this move.
    """
    may_reassign(approval, who, directory, of=of, now=now, assurance=assurance)
    why = cleaned(reason)
    if not why:
        raise MoveRefused("Handing it on needs a reason.")
    if not any({of.id, to.id} <= place for place in approval.ballot.shared):
        may_take(approval, to, directory)
    if directory.is_one(who.id, to.id):
        raise MoveRefused(
            f"{to.shown} hands over the places of others in approval {approval.id}, and cannot "
            "take one of them."
        )
    step = Handover(of=of.id, to=to.id, by=who.id, at=now, reason=why)
    said = Comment(by=who.id, at=now, text=f"Handed on from {of.shown} to {to.shown}: {why}")
    held = approval.claimed
    after = approval.model_copy(
        update={
            "comments": (*approval.comments, said)[-MOST_COMMENTS:],
            "seats": _seats_after(approval, of.id, to.id, directory),
            "handovers": (*approval.handovers, step),
            "steps": tuple(one for one in approval.steps if one.by != of.id),
            "claimed": None if held and held.by == of.id else held,
        }
    )
    more: dict[str, JsonValue] = {"of": of.id, "to": to.id}
    return after, (approval.note(What.REASSIGNED, now=now, by=who.id, why=why, more=more),)


def _seats_after(approval: Approval, of: str, to: str, directory: Directory) -> tuple[Seat, ...]:
    here = (approval.level, approval.round)
    # Approvals that were routed before seats existed have none until a move.
    seats = approval.seats or tuple(
        Seat(level=approval.level, round=approval.round, person=one) for one in approval.ballot.own
    )
    until = approval.terms.asking(approval.level).until if approval.terms is not None else ""
    reach = covers(until, approval.facts, directory.limits(to))
    others = [one for one in seats if one.person != of and (one.level, one.round) == here]
    places = {one.stands_for for one in others}
    held = {one.stands_for for one in others if one.person == to}

    def given(one: Seat) -> Seat:
        # People who share a place go on sharing it, so that it counts once.
        shared = one.stands_for in places and one.stands_for != to
        return one.model_copy(
            update={
                "person": to,
                "instead_of": one.stands_for if shared else "",
                "covers": one.covers and reach,
                "through": one.holders,
            }
        )

    return tuple(
        given(one) if one.person == of else one
        for one in seats
        # The former holder also loses seats of earlier levels at which they could still answer.
        if one.person != of or ((one.level, one.round) == here and one.stands_for not in held)
    )


# Reminding.


def remind_now(approval: Approval, who: Who, directory: Directory, *, now: datetime) -> Moved:
    """Remind the people whose answer is awaited, at most once an hour.

    Approvers, the requester and operators may.

    Raises:
        AlreadyDecided: It has been decided.
        TooLate: It is over.
        MoveRefused: The person has nothing to do with it, or it is too soon.
    """
    approval.must_be_open(directory)
    _must_be_in_time(approval, now, directory.zone_of(who.id))
    _must_be_concerned(approval, who, directory)
    automatic = [one for one in approval.reminders[: approval.reminded] if one <= now]
    last = max((one for one in (*automatic, approval.reminded_at) if one), default=None)
    if last is not None and now < last + REMIND_EVERY:
        raise MoveRefused(
            f"Those who are asked about approval {approval.id} were reminded on "
            f"{moment_text(last, directory.zone_of(who.id))}. Remind them again an hour later."
        )
    awaited = approval.ballot.awaited
    if not awaited:
        raise MoveRefused(f"Nobody's answer to approval {approval.id} is awaited.")
    event = approval.note(What.REMINDED, now=now, by=who.id, more={"people": list(awaited)})
    return approval.model_copy(update={"reminded_at": now}), (event,)


def cleaned(text: str) -> str:
    """Return a person's text as it is stored, at most `LONGEST_TEXT` characters."""
    return clean_text(text).strip()[:LONGEST_TEXT].strip()


def _must_be_in_time(approval: Approval, now: datetime, zone: tzinfo) -> None:
    deadline = approval.within_window(approval.deadline) or approval.window
    open_still = approval.stays_open and not approval.has_closed(now)
    if deadline is not None and approval.is_late(now) and not open_still:
        raise TooLate(f"Approval {approval.id} expired on {moment_text(deadline, zone)}.")


def _must_be_concerned(approval: Approval, who: Who, directory: Directory) -> None:
    if isinstance(who, Person) and not (
        who.id in approval.approvers or approval.is_requester(who, directory)
    ):
        raise MoveRefused(f"{who.shown} has nothing to do with approval {approval.id}.")
