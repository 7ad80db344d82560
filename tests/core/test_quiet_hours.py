"""Quiet hours: which messages wait until the person works again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from builders import make_approval
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.parts import Claim, Comment
from signoff.core.base.durations import Span
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.working_time import after, has_worked, works
from signoff.core.policies.levels import Seat, Start
from signoff.core.policies.policy import Terms
from signoff.core.routing.quiet_hours import (
    LEAST,
    card_waits_for,
    held_until,
    quiet_until,
    waits_for,
)

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
OFFICE = ("Mon-Fri 08:00-17:00",)
EVENING = datetime(2026, 3, 2, 19, 0, tzinfo=UTC)
"""20:00 on a Monday in Berlin."""

MORNING = datetime(2026, 3, 3, 7, 0, tzinfo=UTC)
"""08:00 on the Tuesday."""


def approver(*hours: str, quiet: bool | None = True, **parts: object) -> Person:
    """Return a person in Berlin with these working hours."""
    return Person.model_validate(
        {
            "id": "mara",
            "name": "Mara Lind",
            "email": "mara@example.com",
            "time_zone": "Europe/Berlin",
            "hours": hours,
            "quiet_hours": quiet,
            **parts,
        }
    )


MARA = approver(*OFFICE)


def waiting(
    person: Person = MARA,
    *,
    within: Span | timedelta = DAY,
    now: datetime = EVENING,
    urgent: bool = False,
) -> Approval:
    """Return an approval that a person was asked about just now."""
    span = within if isinstance(within, Span) else Span(within)
    terms = Terms(policy="expenses", ask=(person.id,), within=span, urgent=urgent)
    start = Start(0, 0, (Seat(person=person.id),), after(now, span, [person]))
    asked = (Asked(person=person.id, channel="email", address=person.email),)
    return make_approval(now=now).ask(terms, asked, now=now, start=start)[0]


def test_a_card_waits_for_the_next_start_of_the_hours() -> None:
    """At 20:00 a card waits for 08:00; at 08:00 it goes out."""
    approval = waiting()
    assert held_until(approval, [MARA], now=EVENING) == MORNING
    assert held_until(approval, [MARA], now=MORNING) is None


def test_weekends_holidays_and_absences_are_waited_for() -> None:
    """The next working hours are those after Easter and after the person's holidays."""
    thursday = datetime(2026, 4, 2, 19, 0, tzinfo=UTC)
    mara = approver(
        *OFFICE,
        holidays="DE",
        away=(Absence.model_validate({"from": "2026-04-07", "to": "2026-04-07"}),),
    )
    approval = waiting(mara, within=Span(timedelta(hours=8), business=True), now=thursday)
    assert held_until(approval, [mara], now=thursday) == datetime(2026, 4, 8, 6, tzinfo=UTC)


@pytest.mark.parametrize(
    "person",
    [approver(*OFFICE, quiet=False), approver(*OFFICE, quiet=None), approver()],
    ids=["turned off", "not turned on", "no hours"],
)
def test_card_without_quiet_hours_goes_out_immediately(person: Person) -> None:
    """Quiet hours need the person's setting and working hours to wait for."""
    assert held_until(waiting(person), [person], now=EVENING) is None
    assert quiet_until(person, EVENING) is None


def test_urgent_card_goes_out_at_night() -> None:
    """The card of an urgent policy goes out at night."""
    assert held_until(waiting(urgent=True), [MARA], now=EVENING) is None


@pytest.mark.parametrize(
    ("within", "held"),
    [
        (timedelta(hours=4), False),  # ends at midnight
        (timedelta(hours=12), False),  # ends at 08:00
        (timedelta(hours=12, minutes=59), False),  # leaves 59 minutes
        (timedelta(hours=13), True),  # leaves an hour
        (timedelta(hours=24), True),
    ],
)
def test_a_deadline_by_the_clock_is_not_waited_away(*, within: timedelta, held: bool) -> None:
    """The card waits if an hour of working time is left then; otherwise it goes out immediately."""
    assert (held_until(waiting(within=within), [MARA], now=EVENING) == MORNING) is held


def test_a_short_level_needs_a_quarter_of_its_time() -> None:
    """For half an hour, ten minutes after 08:00 are enough, and five are not."""
    early, earlier = MORNING - timedelta(minutes=20), MORNING - timedelta(minutes=25)
    half = timedelta(minutes=30)
    assert held_until(waiting(within=half, now=early), [MARA], now=early) == MORNING
    assert held_until(waiting(within=half, now=earlier), [MARA], now=earlier) is None


def test_card_with_a_working_time_deadline_waits_for_working_hours() -> None:
    """On Friday evening, all four hours of working time are left for Monday."""
    friday = datetime(2026, 3, 6, 19, 0, tzinfo=UTC)
    approval = waiting(within=Span(timedelta(hours=4), business=True), now=friday)
    assert held_until(approval, [MARA], now=friday) == datetime(2026, 3, 9, 7, tzinfo=UTC)


def test_channel_card_waits_for_the_first_person_at_work() -> None:
    """In a channel, the first person at work is enough; if one works now, the card goes out."""
    tom = approver("Mon-Fri 06:00-15:00", id="tom", email="tom@example.com")
    night = approver("Mon-Fri 18:00-23:00", id="nia", email="nia@example.com")
    approval = waiting()
    assert held_until(approval, [MARA, tom], now=EVENING) == MORNING - 2 * HOUR
    assert held_until(approval, [MARA, night], now=EVENING) is None


def test_recent_claim_or_comment_of_the_person_ends_the_wait() -> None:
    """The person's own claim or comment in the last hour ends the wait; others' do not."""
    approval = waiting()
    later = EVENING + HOUR
    mine = Claim(by="mara", at=later, until=later + HOUR)
    others = Comment(by="tom", at=later, text="please have a look")
    claimed = approval.model_copy(update={"claimed": mine})
    assert held_until(claimed, [MARA], now=later) is None
    assert held_until(claimed, [MARA], now=later + 2 * HOUR) == MORNING
    remarked = approval.model_copy(update={"comments": (others,)})
    assert held_until(remarked, [MARA], now=later) == MORNING


def test_news_waits_whatever_the_deadline_is() -> None:
    """A message without a question has no deadline."""
    approval = waiting(within=timedelta(hours=4))
    assert held_until(approval, [MARA], now=EVENING, answers=False) == MORNING


def test_only_an_undelivered_card_is_shown_as_waiting() -> None:
    """Only an undelivered card of a person who is still asked is shown as waiting."""
    approval, directory = waiting(), Directory([MARA])
    (asked,) = approval.asked
    morning = "Mara Lind's morning, 08:00 Europe/Berlin"
    assert card_waits_for(approval, asked, directory, EVENING) == morning
    there = asked.model_copy(update={"receipt": "1"})
    assert not card_waits_for(approval, there, directory, EVENING)
    ended = approval.model_copy(update={"state": State.WITHDRAWN})
    assert not card_waits_for(ended, asked, directory, EVENING)


@pytest.mark.parametrize(
    ("hours", "now", "said"),
    [
        (OFFICE, EVENING, "Mara Lind's morning, 08:00 Europe/Berlin"),
        (("Mon-Sun 22:00-23:00",), EVENING, "Mara Lind's working hours, 22:00 Europe/Berlin"),
        (OFFICE, EVENING + 4 * DAY, "Mara Lind's morning, Mon 09 Mar 08:00 Europe/Berlin"),
    ],
)
def test_wait_reason_names_the_person_and_their_local_hours(
    hours: tuple[str, ...], now: datetime, said: str
) -> None:
    """The text names the person and the start of their hours in their own time."""
    person = approver(*hours)
    until = quiet_until(person, now)
    assert until is not None
    assert waits_for(person, until, now) == said


WINDOWS = st.sampled_from(
    (OFFICE, ("Mon-Sun 22:00-06:00",), ("Tue,Thu 12:00-13:00",), ("Mon-Fri 08:00-12:00",), ())
)
ZONES = st.sampled_from(("Europe/Berlin", "America/New_York", "Asia/Kathmandu", "UTC"))
MOMENTS = st.integers(0, 400 * 24 * 60).map(
    lambda minutes: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=minutes)
)
SPANS = st.builds(Span, st.integers(1, 90 * 60).map(lambda n: timedelta(minutes=n)), st.booleans())


@given(hours=WINDOWS, zone=ZONES, now=MOMENTS, within=SPANS, later=st.integers(0, 3_000))
def test_held_card_goes_out_in_working_hours_before_its_deadline(
    *, hours: tuple[str, ...], zone: str, now: datetime, within: Span, later: int
) -> None:
    """A card waits until the person works with time left to answer; then it goes out."""
    person = approver(*hours, time_zone=zone)
    approval = waiting(person, within=within, now=now)
    moment = now + timedelta(minutes=later)
    until = held_until(approval, [person], now=moment)
    assume(until is not None)
    assert until is not None
    assert approval.deadline is not None
    assert moment < until < approval.deadline
    assert not works(person, moment)
    assert works(person, until)
    level = approval.deadline - now
    assert has_worked(person, until, approval.deadline, least=min(LEAST, level / 4))
    assert held_until(approval, [person], now=until) is None


@given(hours=WINDOWS, zone=ZONES, now=MOMENTS, within=SPANS, step=st.integers(1, 600))
def test_later_check_gives_the_same_end_of_the_wait(
    *, hours: tuple[str, ...], zone: str, now: datetime, within: Span, step: int
) -> None:
    """A later check gives the same time, so an early timer changes nothing."""
    person = approver(*hours, time_zone=zone)
    approval = waiting(person, within=within, now=now)
    until = held_until(approval, [person], now=now)
    assume(until is not None)
    assert until is not None
    moment = min(now + timedelta(minutes=step), until - timedelta(seconds=1))
    assert held_until(approval, [person], now=moment) == until
