"""Approvers who go away or leave the directory after they were asked, and their delegates."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, time

from pydantic import JsonValue

from signoff.core.approvals import collaboration, deliveries
from signoff.core.approvals.approval import Approval, Moved, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.parts import Handover
from signoff.core.directory.hours import zone
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import QUEUE, Pick, Rotations
from signoff.core.policies.levels import Level, Seat
from signoff.core.routing.resolve import SCHEDULE, find
from signoff.core.routing.selection import NO_ROTATIONS


def why_gone(person_id: str, directory: Directory, now: datetime) -> str:
    """Say why a person is absent: away, or not in the directory any more; "" if present."""
    person = directory.get(person_id)
    if person is None:
        return f"{directory.why_missing(person_id)} any more"
    absence = person.absence(now)
    return f"{person.shown} is away until {absence.end}" if absence is not None else ""


def next_departure(approval: Approval, directory: Directory, now: datetime) -> datetime | None:
    """Return when the next approver of the present level goes away (UTC), None if nobody does."""
    if approval.in_two_steps:
        directory = directory.proven()
    ballot = approval.ballot
    people = (directory.get(one) for one in ballot.awaited if one in ballot.own)
    starts = (
        datetime.combine(absence.start, time(), zone(one.time_zone)).astimezone(UTC)
        for one in people
        if one is not None
        for absence in one.away
        if absence.start > one.day(now)
    )
    return min(starts, default=None)


def too_few(approval: Approval, directory: Directory, now: datetime) -> str:
    """Say why the people who can still answer cannot approve it."""
    missing = deliveries.unreached(approval)
    absent = [one for one in missing if one in approval.absent]
    gone = [why_gone(one, directory, now) or f"{one} is away" for one in absent]
    people = (directory.get(one) for one in missing if one not in approval.absent)
    names = ", ".join(one.shown for one in people if one is not None)
    if not deliveries.is_reachable(approval) and not gone:
        return "nobody who was asked can be reached"
    why = "; ".join([*gone, *([f"no card reaches {names}"] if names else [])])
    return f"too few can still answer: {approval.ballot.need} must approve, and {why}"


def stand_in(
    approval: Approval, directory: Directory, *, now: datetime, rotations: Rotations = NO_ROTATIONS
) -> Moved:
    """Record which approvers of the present level are absent, and give seats to their stand-ins.

    The stand-in is the delegate. If there is none, the reference in `ask` is resolved again: to the
    next member of a queue that asks one at a time, another manager, or the person on call. Both
    share the place, and the first answer counts. Claims of absent people end. People from
    whom an operator has taken a place of this level stand in only for those who name them.

    Returns:
        The unchanged approval and no events if nothing has changed.
    """
    if approval.state is not State.PENDING or approval.terms is None:
        return approval, ()
    if approval.in_two_steps:
        directory = directory.proven()
    here, events = approval, list[Event]()
    gone = dict(_gone(approval, directory, now))
    for person, why in gone.items():
        search = _Search(here, directory, now, rotations)
        released: tuple[Event, ...] = ()
        if person not in approval.absent:
            here, released = collaboration.end_claim_of(here, person, why=why, now=now)
        seat = search.instead_of(person)
        if seat is not None:
            here = here.model_copy(update={"seats": _behind(here.seats, person, seat)})
        elif person in approval.absent:
            continue
        more: dict[str, JsonValue] = {"of": person}
        if seat is not None:
            more["to"] = seat.person
        told = directory.get(seat.person) if seat is not None else None
        text = f"{why}; {told.shown} stands in" if told is not None else why
        note = approval.note(What.ABSENT, now=now, by="router", why=text, more=more)
        events += [*released, note]
    if tuple(gone) != here.absent:
        here = here.model_copy(update={"absent": tuple(gone)})
    return here, tuple(events)


def _gone(approval: Approval, directory: Directory, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield the awaited approvers of the present level who are absent, and why."""
    ballot = approval.ballot
    for person in ballot.awaited:
        if person in ballot.own and (why := why_gone(person, directory, now)):
            yield person, why


@dataclass(frozen=True, slots=True)
class _Search:
    approval: Approval
    directory: Directory
    now: datetime
    rotations: Rotations

    def instead_of(self, person: str) -> Seat | None:
        """Return a seat that a stand-in shares with an absent person, None if there is none."""
        approval = self.approval
        own = [one for one in approval.seats_here if one.person == person]
        taken = {*approval.ballot.own, *approval.ballot.stay}
        one_id = self.directory.one_id
        present = {one_id(one) for one in taken if one != person and one not in approval.absent}
        handed_on = [one for one in approval.handovers if _is_of_level(one, approval)]
        got = {one.to for one in handed_on}
        # What an operator has taken from somebody does not come back to them.
        given = {one.of for one in handed_on if one.by != one.of} - taken
        for seat in own:
            sharing = (one for one in approval.seats_here if one.stands_for == seat.stands_for)
            if any(one.person in got and one_id(one.person) in present for one in sharing):
                # Somebody has given the place to a person who is there.
                return None
            for reference in dict.fromkeys((person, seat.stands_for, *self._asked_by(seat))):
                # The delegate of somebody who was given the place is their own choice.
                chosen = reference == person and person in got
                for found in self._meant(reference, () if chosen else given):
                    if one_id(found.person) in present:
                        # The stand-in is asked already, maybe under another id, and counts once.
                        return None
                    if found.person not in taken:
                        update = {
                            "person": found.person,
                            "instead_of": seat.stands_for,
                            "covers": seat.covers and found.covers,
                            "through": (*seat.holders, *found.holders),
                        }
                        return seat.model_copy(update=update)
        return None

    def _asked_by(self, seat: Seat) -> tuple[str, ...]:
        """Return the reference that led to a seat, if it means one person at a time."""
        queue = self.directory.queues.get(seat.via.removeprefix(QUEUE))
        one_in_turn = seat.via.startswith(QUEUE) and queue and queue.pick is not Pick.EVERYONE
        single = one_in_turn or seat.via.startswith((SCHEDULE, "requester."))
        return (seat.via,) if single else ()

    def _meant(self, reference: str, never: Collection[str]) -> tuple[Seat, ...]:
        approval = self.approval
        until = approval.terms.asking(approval.level).until if approval.terms is not None else ""
        return find(
            Level(ask=(reference,)).model_copy(update={"until": until}),
            self.directory,
            facts=approval.facts,
            barred=(approval.origin.user, *approval.barred, *never),
            now=self.now,
            rotations=self.rotations,
        ).seats


def _is_of_level(handover: Handover, approval: Approval) -> bool:
    return approval.since is None or handover.at >= approval.since


def _behind(seats: tuple[Seat, ...], person: str, fresh: Seat) -> tuple[Seat, ...]:
    """Insert a seat after that of a person, so that the order is kept."""
    at = max(
        index
        for index, one in enumerate(seats)
        if (one.person, one.level, one.round) == (person, fresh.level, fresh.round)
    )
    return (*seats[: at + 1], fresh, *seats[at + 1 :])
