"""Absences that people set at run time: compared with a model that looks at single days."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from signoff.core.directory.absences import Presence, circle, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person

FIRST = date(2026, 3, 2)
DAY = timedelta(days=1)
SPAN = 16
NAMES = ("mara", "cleo", "dan", "riley")


def day(number: int) -> date:
    """Return a day by its number."""
    return FIRST + number * DAY


def noon(number: int) -> datetime:
    """Return the noon of a day."""
    return datetime(2026, 3, 2, 12, tzinfo=UTC) + number * DAY


@st.composite
def absences(draw: st.DrawFn, *delegates: str) -> Absence:
    """Generate an absence of some days."""
    start = draw(st.integers(0, SPAN))
    return Absence(
        start=day(start),
        end=day(start + draw(st.integers(0, 6))),
        delegate=draw(st.sampled_from(delegates or ("",))),
        second_factor=draw(st.booleans()),
    )


def is_replaced(earlier: Absence, later: Absence) -> bool:
    """Return whether a report about the same days takes the place of an earlier one."""
    weaker = earlier.second_factor and not later.second_factor
    return later.start <= earlier.start and earlier.end <= later.end and not weaker


def ended(absences: list[Absence], today: date) -> list[Absence]:
    """Return absences without those that have begun; only days from today on are compared."""
    return [one for one in absences if one.start > today]


RETURN, SLEEP = "return", "sleep"
STEPS = st.lists(st.one_of(absences("cleo", ""), st.sampled_from([RETURN, SLEEP])), max_size=8)


@given(st.lists(absences("dan", ""), max_size=3), STEPS)
def test_the_last_report_about_a_day_counts(written: list[Absence], steps: list[object]) -> None:
    """Also for a second step, where only the settings and reports with a second factor count."""
    person = Person(id="mara", email="mara@example.com", away=tuple(written))
    settings, reports = written, list[Absence]()
    presence, today = Presence(), 0
    for step in steps:
        if isinstance(step, Absence):
            presence = presence.leave(step)
            reports = [one for one in reports if not is_replaced(one, step)]
            reports.append(step)
        elif step == RETURN:
            presence = presence.returned(day(today))
            settings, reports = ended(settings, day(today)), ended(reports, day(today))
        else:
            today += 3
            presence = presence.without_past(day(today))
    directory = with_absences(Directory([person]), {"mara": presence, "ghost": presence})

    for number in range(today, SPAN + 8):
        for view, needed in ((directory, False), (directory.proven(), True)):
            known = view.get("mara")
            assert known is not None
            found = known.absence(noon(number))
            counting = [one for one in reports if one.second_factor or not needed]
            wanted = [one for one in (*settings, *counting) if one.covers(day(number))]
            assert (found is None) == (not wanted)
            if found is not None:
                last = wanted[-1]
                assert (found.delegate, found.second_factor) == (last.delegate, last.second_factor)


def test_a_return_ends_an_absence_on_the_day_before() -> None:
    """One that begins on the day of the return is over, and a later one stays."""
    away = tuple(Absence(start=day(start), end=day(start + 3)) for start in (0, 2, 3))
    back = Presence(away=away).returned(day(2))
    assert [(one.start, one.end) for one in back.away] == [(day(0), day(1)), (day(3), day(6))]
    assert back.back == day(2)


def test_a_report_without_a_second_factor_does_not_delete_one_with_it() -> None:
    """A mailbox alone cannot end the delegation of a person who has proven who they are."""
    proven = Absence(start=day(1), end=day(2), delegate="cleo", second_factor=True)
    weak = Absence(start=day(0), end=day(3))
    strong = weak.model_copy(update={"second_factor": True})
    assert Presence(away=(proven,)).leave(weak).away == (proven, weak)
    assert Presence(away=(proven,)).leave(strong).away == (strong,)
    assert Presence(away=(weak,)).leave(weak).away == (weak,)
    for part in ((0, 1), (2, 3), (1, 1)):
        shorter = Absence(start=day(part[0]), end=day(part[1]), second_factor=True)
        assert Presence(away=(proven,)).leave(shorter).away == (proven, shorter)


@given(
    st.fixed_dictionaries({one: st.lists(absences(*NAMES, ""), max_size=3) for one in NAMES}),
    absences(*NAMES, "", "ghost"),
)
def test_delegates_form_a_circle_if_they_do_on_one_of_the_days(
    away: dict[str, list[Absence]], absence: Absence
) -> None:
    """On each day the last absence of a person counts; a circle may also be beside the person."""
    people = [Person(id=one, email=f"{one}@example.com", away=tuple(away[one])) for one in NAMES]
    directory = Directory(people)

    def way_on(number: int) -> list[str]:
        way, here = ["mara"], absence
        while here.delegate in NAMES:
            way.append(here.delegate)
            if here.delegate in way[:-1]:
                return way
            covering = [one for one in away[here.delegate] if one.covers(day(number))]
            if not covering:
                return []
            here = covering[-1]
        return []

    days = [one for one in range(SPAN + 8) if absence.covers(day(one))]
    ways = [tuple(way) for one in days if (way := way_on(one))]
    found = circle(directory, "mara", absence)
    assert found in (ways or [()])


def test_a_later_absence_on_the_same_days_ends_a_circle() -> None:
    """Riley names Dan, who names Mara, but on Dan's only day a later absence names nobody."""
    one, both = {"start": day(1), "end": day(1)}, {"start": day(1), "end": day(2)}
    away = {
        "mara": (),
        "riley": (Absence(**both, delegate="dan"), Absence(**one)),
        "dan": (Absence(**one, delegate="mara"),),
    }
    people = [Person(id=name, email=f"{name}@example.com", away=away[name]) for name in away]
    assert circle(Directory(people), "mara", Absence(**both, delegate="riley")) == ()
    without = [Person(id="riley", email="riley@example.com", away=away["riley"][:1]), *people[::2]]
    way = circle(Directory(without), "mara", Absence(**both, delegate="riley"))
    assert way == ("mara", "riley", "dan", "mara")
