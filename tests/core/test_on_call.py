"""Who would be asked now and next, compared with whom the router chooses at each moment."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from itertools import islice, pairwise
from zoneinfo import ZoneInfo

from hypothesis import example, given
from hypothesis import strategies as st

from builders import CLEO, MARA, NOON, RILEY
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.directory.schedules import Override, Schedule
from signoff.core.policies.levels import Earlier, Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.on_call import AHEAD, groups_on_call, levels_on_call, on_call, shifts
from signoff.core.routing.selection import choose

QUARTER, DAY = timedelta(minutes=15), timedelta(days=1)
NAMES = ("ann", "ben", "cho")
CLOCKS = {
    "Europe/Berlin": (date(2026, 3, 29), date(2026, 10, 25)),
    "America/New_York": (date(2026, 3, 8), date(2026, 11, 1)),
    "Australia/Lord_Howe": (date(2026, 4, 5), date(2026, 10, 4)),  # by half an hour
    "Pacific/Chatham": (date(2026, 4, 5), date(2026, 9, 27)),  # 12:45 and 13:45 ahead
    "Africa/Cairo": (date(2026, 4, 24), date(2026, 10, 30)),  # skips midnight
    "Antarctica/Troll": (date(2026, 3, 29), date(2026, 10, 25)),  # by two hours
    "Asia/Kathmandu": (date(2028, 2, 29), date(2026, 12, 31)),  # never; 5:45 ahead
    "UTC": (date(2028, 2, 29), date(2028, 3, 1)),
}
"""Zones, each with two days: those on which the clocks change, or a leap day."""

zones = st.sampled_from(sorted(CLOCKS))


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Directory, datetime]:
    """Draw three people with absences, a schedule and a queue of them, and a moment."""
    zone = draw(zones)
    around = CLOCKS[zone][draw(st.integers(0, 1))]
    days = st.integers(-3, 3).map(lambda many: around + many * DAY)
    people = []
    for name in NAMES:
        away = []
        for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
            start = draw(days)
            end = max(start, draw(days))
            delegate = draw(st.sampled_from(["", *NAMES]))
            away.append(Absence(start=start, end=end, delegate=delegate))
        people.append(
            Person(
                id=name,
                email=f"{name}@example.com",
                time_zone=draw(st.sampled_from([zone, draw(zones)])),
                away=tuple(away),
                active=draw(st.sampled_from([True, True, True, True, False])),
            )
        )
    midnight = datetime.combine(around, datetime.min.time())
    begins = midnight + draw(st.sampled_from([*range(-400, 100, 4), 9, 10, 11])) * QUARTER
    overrides = []
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        start = midnight + draw(st.integers(-100, 200)) * QUARTER
        end = start + draw(st.integers(1, 100)) * QUARTER
        taker = draw(st.sampled_from([*NAMES, "cho@example.com", "gone"]))
        overrides.append(Override(start=start, end=end, person=taker))
    schedule = Schedule(
        name="rota",
        time_zone=zone,
        overrides=tuple(overrides),
        people=tuple(draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=3))),
        start=begins,
        every=draw(st.sampled_from(["1h", "90m", "6h", "12h", "1d", "2d", "1w"])),
    )
    queue = Queue(
        name="desk",
        members=tuple(draw(st.permutations(NAMES)))[: draw(st.integers(1, 3))],
        pick=draw(st.sampled_from(Pick)),
    )
    moment = midnight.replace(tzinfo=UTC) + draw(st.integers(-200, 200)) * QUARTER
    return Directory(people, queues=[queue], schedules=[schedule]), moment


@given(world=worlds(), ask=st.sampled_from(["schedule:rota", "queue:desk", "ann"]))
def test_each_shift_has_the_people_whom_the_router_chooses(
    world: tuple[Directory, datetime], ask: str
) -> None:
    """At each half hour of two days, the shift of that moment has the same people."""
    directory, now = world
    found = list(islice(shifts(Level(ask=(ask,)), directory, now=now), 100))
    assert found[0].start == now
    for one, following in pairwise(found):
        assert one.until == following.start
        assert one.people != following.people
    policy = Policy(name="p", ask=(ask,))
    for number in range(2 * 48):
        at = now + 2 * number * QUARTER
        here = next((one for one in reversed(found) if one.start <= at), found[0])
        if len(found) == 100 and here is found[-1]:
            break
        choice = choose([policy], Fallback(), directory, {"user": "riley"}, now=at)
        asked = choice.start.seats if choice.start is not None else ()
        assert [(one.person, one.instead_of) for one in asked] == [
            (one.id, one.instead_of) for one in here.people
        ], at


@given(
    zone=zones,
    which=st.integers(0, 1),
    every=st.sampled_from([60, 90, 120, 720, 1440, 2880]),
    begins=st.integers(-200, 0),
)
@example(zone="Antarctica/Troll", which=0, every=60, begins=-2)
def test_a_rotation_follows_a_walk_along_the_local_clock(
    zone: str, which: int, every: int, begins: int
) -> None:
    """A handover is when the clock first shows its time; a skipped time counts on from before."""
    place, around = ZoneInfo(zone), CLOCKS[zone][which]
    start = datetime.combine(around, datetime.min.time()) + begins * QUARTER
    first = start.replace(tzinfo=place).astimezone(UTC) - DAY
    walk = [first + number * QUARTER for number in range(5 * 96)]
    clock = dict[datetime, datetime]()
    for at in walk:
        clock.setdefault(at.astimezone(place).replace(tzinfo=None), at)

    def shown(wall: datetime) -> datetime:
        back = next(back for back in range(9) if wall - back * QUARTER in clock)
        return clock[wall - back * QUARTER] + back * QUARTER

    names = tuple(f"p{number}" for number in range(97))
    length = timedelta(minutes=every)
    handovers = [shown(start + number * length) for number in range(3 * DAY // length)]
    rota = Schedule(name="rota", time_zone=zone, people=names, start=start, every=length)
    for at in walk:
        passed = sum(one <= at for one in handovers)
        if passed == len(handovers):
            break
        assert rota.on_call(at) == (names[passed - 1 : passed] if passed else ())
        following = min(one for one in handovers if one > at)
        assert rota.next_handover(at, at + 9 * DAY) == following
        assert rota.next_handover(at, following - QUARTER) is None


CALENDAR = """\
BEGIN:VCALENDAR
VERSION:2.0
PRODID:-//test//EN
BEGIN:VEVENT
UID:nights@example.com
DTSTAMP:20260101T000000Z
DTSTART;TZID=Europe/Berlin:20260301T220000
DTEND;TZID=Europe/Berlin:20260302T060000
RRULE:FREQ=DAILY;UNTIL=20260430T000000Z
SUMMARY:ann
END:VEVENT
BEGIN:VEVENT
UID:leap@example.com
DTSTAMP:20260101T000000Z
DTSTART;VALUE=DATE:20260327
DURATION:P3D
SUMMARY:ben
END:VEVENT
BEGIN:VEVENT
UID:long@example.com
DTSTAMP:20260101T000000Z
DTSTART:20261201T000000
DTEND:20261202T000000
SUMMARY:cho
END:VEVENT
END:VCALENDAR
"""


@given(quarters=st.integers(0, 40 * 96))
def test_the_shifts_of_a_calendar_begin_and_end_with_its_events(quarters: int) -> None:
    """Nights over a change of the clocks, whole days, floating times, and a gap of months."""
    rota = Schedule(name="rota", time_zone="Europe/Berlin", calendar=CALENDAR)
    people = [Person(id=one, email=f"{one}@example.com") for one in NAMES]
    directory = Directory(people, schedules=[rota])
    now = datetime(2026, 3, 20, tzinfo=UTC) + quarters * QUARTER
    found = list(islice(shifts(Level(ask=("schedule:rota",)), directory, now=now), 3))
    for one in found:
        assert one.until is not None
        at = one.start
        while at < min(one.until, one.start + 3 * DAY):
            assert [person.id for person in one.people] == [*rota.on_call(at)], at
            at += QUARTER
        assert [*rota.on_call(one.until)] != [person.id for person in one.people]


def test_a_schedule_without_an_end_has_no_next_shift() -> None:
    """A rotation of one person changes never, and one that begins in two years not soon."""
    rotas = [
        Schedule(name="alone", people=("mara",), start=datetime(2026, 1, 5, 9)),  # noqa: DTZ001
        Schedule(name="later", people=("mara",), start=datetime(2028, 1, 5, 9)),  # noqa: DTZ001
        Schedule(name="last", people=("mara",), start=datetime(9999, 12, 31)),  # noqa: DTZ001
    ]
    alone, later, last = groups_on_call(Directory([MARA], schedules=rotas), now=NOON)
    assert [one.id for one in alone.now.people] == ["mara"]
    assert (alone.now.until, alone.next) == (None, None)
    assert (later.now.people, later.next) == (last.now.people, last.next) == ((), None)
    assert later.now.notes == ("nobody is on call in the schedule later",)
    soon = NOON + 2 * AHEAD
    (row,) = groups_on_call(Directory([MARA], schedules=rotas[1:2]), now=soon)
    assert [one.id for one in row.now.people] == ["mara"]


def test_a_queue_in_turn_names_the_member_of_the_request_after_the_next() -> None:
    """A member who is away is passed over, and her delegate counts as her."""
    away = Absence(start=NOON.date(), end=NOON.date(), delegate="riley")
    absent = MARA.model_copy(update={"away": (away,)})
    queue = Queue(name="desk", members=("mara", "cleo"), pick=Pick.ROUND_ROBIN)
    directory = Directory([absent, CLEO, RILEY], queues=[queue])
    row = on_call("queue:desk", Level(ask=("queue:desk",)), directory, now=NOON)
    assert [(one.id, one.instead_of) for one in row.now.people] == [("riley", "mara")]
    assert [one.id for one in row.next_request] == ["cleo"]
    assert row.next is not None
    assert row.next.start == row.now.until == datetime(2026, 3, 3, tzinfo=UTC)
    assert [one.id for one in row.next.people] == ["mara"]
    asked = {"desk": {"mara": 1.0}}
    row = on_call("queue:desk", Level(ask=("queue:desk",)), directory, now=NOON, rotations=asked)
    assert [one.id for one in row.now.people] == ["cleo"]


def test_levels_say_what_depends_on_the_requester_and_which_quorum_cannot_be_met() -> None:
    """One of the two people of the second level is away; the first level needs the requester."""
    away = Absence(start=NOON.date(), end=NOON.date())
    absent = MARA.model_copy(update={"away": (away,)})
    policy = Policy(
        name="expenses",
        levels=(
            Level(ask=("requester.manager",)),
            Level(ask=("mara", "cleo"), quorum=2, name="both"),
            Level(ask=("asked.manager",)),
        ),
    )
    boss = CLEO.model_copy(update={"manager": "riley"})
    directory = Directory([absent, boss, RILEY])
    first, second, third = levels_on_call(policy.terms({}), directory, now=NOON)
    assert (first.name, first.depends_on, first.now.people) == (
        "expenses, level 1",
        "requester.manager",
        (),
    )
    assert second.name == "expenses, both"
    assert [one.id for one in second.now.people] == ["cleo"]
    assert second.now.short == "2 of them must approve, and only 1 can be asked"
    assert second.next is not None
    assert (second.next.short, len(second.next.people)) == ("", 2)
    assert [one.id for one in third.now.people] == ["riley"]


def test_a_quorum_that_earlier_approvers_may_complete_is_not_called_short() -> None:
    """People of the level before may still answer at the second one, and not at the third."""
    levels = (
        Level(ask=("mara",)),
        Level(ask=("cleo",), quorum=2, earlier=Earlier.STAY),
        Level(ask=("cleo",), quorum=2),
    )
    policy = Policy(name="expenses", levels=levels)
    _, second, third = levels_on_call(policy.terms({}), Directory([MARA, CLEO]), now=NOON)
    assert (second.now.short, second.next) == ("", None)
    assert third.now.short == "2 of them must approve, and only 1 can be asked"


def test_a_shift_ends_when_the_delegate_of_a_delegate_leaves() -> None:
    """Mara and Cleo are away until Wednesday; Riley stands in, and is away on Tuesday."""
    monday = NOON.date()
    week = Absence(start=monday, end=monday + 2 * DAY, delegate="cleo")
    mara = MARA.model_copy(update={"away": (week,)})
    cleo = CLEO.model_copy(update={"away": (week.model_copy(update={"delegate": "riley"}),)})
    tuesday = Absence(start=monday + DAY, end=monday + DAY)
    riley = RILEY.model_copy(update={"away": (tuesday,)})
    found = shifts(Level(ask=("mara",)), Directory([mara, cleo, riley]), now=NOON)
    assert [(one.start.day, [person.id for person in one.people]) for one in found] == [
        (2, ["riley"]),
        (3, []),
        (4, ["riley"]),
        (5, ["mara"]),
    ]
