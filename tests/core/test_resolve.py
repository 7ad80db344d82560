"""The approvers of a level: references, queues in turn, delegates and barred people."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.core.directory.absences import Presence, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.directory.schedules import Override, Schedule
from signoff.core.policies.levels import Level
from signoff.core.routing.resolve import Found, find, informed

NOW = datetime(2026, 3, 3, 12, tzinfo=UTC)
TODAY = NOW.date()
DAY = timedelta(days=1)


def person(one: str, *, manager: str = "", delegate: str | None = None) -> Person:
    """Return a person; with a delegate, or with "", they are away today."""
    away = () if delegate is None else (Absence(start=TODAY, end=TODAY, delegate=delegate),)
    return Person(id=one, email=f"{one}@example.com", manager=manager, away=away)


def look(
    *ask: str,
    people: list[Person],
    barred: tuple[str, ...] = (),
    last_asked: dict[str, float] | None = None,
    **more: Any,
) -> Found:
    """Find the seats of a level that asks these references; Riley is the requester."""
    directory = Directory(people, **more)
    level = Level(ask=ask)
    facts = {"user": "riley@example.com"}
    return find(
        level, directory, facts=facts, barred=barred, now=NOW, rotations={"q": last_asked or {}}
    )


def seats(found: Found) -> list[str]:
    """Return the seats as ``mara`` or ``tom for mara``."""
    return [
        f"{one.person} for {one.instead_of}" if one.instead_of else one.person
        for one in found.seats
    ]


def test_people_are_asked_in_the_order_of_the_level() -> None:
    """Each person is asked once; unknown people are noted, and the others are still asked."""
    people = [person("mara"), person("tom")]
    found = look("tom", "mara", "ghost", "tom", people=people)
    assert seats(found) == ["tom", "mara"]
    assert found.notes == ("ghost is not in the directory",)


def test_the_requesters_manager_is_found_by_any_address() -> None:
    """The run names an address, and the directory an id."""
    found = look("requester.manager", people=[person("riley", manager="mara"), person("mara")])
    assert seats(found) == ["mara"]
    assert found.seats[0].via == "requester.manager"


@pytest.mark.parametrize("barred", ["mara", "MARA@example.com"])
def test_barred_manager_is_skipped_for_the_next_manager(barred: str) -> None:
    """The agent's owner is the manager, so the manager's manager is asked."""
    people = [person("riley", manager="mara"), person("mara", manager="olga"), person("olga")]
    found = look("requester.manager", people=people, barred=("riley", barred))
    assert seats(found) == ["olga"]
    assert found.notes == ("mara may not decide this; the next manager is asked",)


def test_manager_references_skip_barred_managers() -> None:
    """References go to the second and third allowed manager; above the last there is nobody."""
    people = [
        person("riley", manager="a"),
        person("a", manager="b"),
        person("b", manager="c"),
        person("c"),
    ]
    for reference, wanted in (
        ("requester.manager", ["a"]),
        ("requester.manager.manager", ["b"]),
        ("requester.manager.manager.manager", ["c"]),
        ("requester.manager.manager.manager.manager", []),
    ):
        found = look(reference, people=people)
        assert [seat.person for seat in found.seats] == wanted
    found = look("requester.manager.manager", people=people, barred=("riley", "a"))
    assert [seat.person for seat in found.seats] == ["c"]


@pytest.mark.parametrize(
    ("people", "note"),
    [
        ([], "not in the directory: no manager"),
        ([person("riley")], "riley has no manager"),
        ([person("riley", manager="ghost")], "riley has no manager in the directory"),
        ([person("riley", manager="riley")], "manager of their own manager"),
        ([person("riley", manager="m"), person("m", manager="riley")], "of their own manager"),
    ],
)
def test_manager_reference_without_a_manager_asks_nobody(people: list[Person], note: str) -> None:
    """A circle of managers ends the search."""
    found = look("requester.manager", people=people, barred=("riley", "m"))
    assert found.seats == ()
    assert note in found.notes[-1]


def test_second_delegate_replaces_the_absent_approver() -> None:
    """The delegate's seat stands for the person that the level asks, not for the one between."""
    people = [person("mara", delegate="tom"), person("tom", delegate="cleo"), person("cleo")]
    found = look("mara", people=people)
    assert seats(found) == ["cleo for mara"]
    assert found.notes == ("mara is away; cleo stands in",)


def test_delegate_gets_one_seat_per_person_they_replace() -> None:
    """They also have a seat of their own if they are asked themselves."""
    people = [person("mara", delegate="cleo"), person("tom", delegate="cleo"), person("cleo")]
    assert seats(look("mara", "tom", "cleo", "mara", people=people)) == [
        "cleo for mara", "cleo for tom", "cleo"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("people", "note"),
    [
        ([person("mara", delegate="")], "mara is away until 2026-03-03"),
        ([person("mara", delegate="ghost")], "ghost is not in the directory"),
        ([person("mara", delegate="mara")], "mara → mara"),
        ([person("mara", delegate="tom"), person("tom", delegate="mara")], "mara → tom → mara"),
        (
            [person("mara", delegate="a"), person("a", delegate="b"), person("b", delegate="a")],
            "mara → a → b → a",
        ),
        ([person("mara", delegate="riley"), person("riley")], "riley, who stands in, may not"),
    ],
)
def test_absent_person_without_a_delegate_is_not_asked(people: list[Person], note: str) -> None:
    """Circles of delegates are found and noted."""
    found = look("mara", people=people, barred=("riley",))
    assert found.seats == ()
    assert note in found.notes[0]


def test_a_barred_delegate_names_nobody() -> None:
    """The manager's delegate could otherwise go away, and choose who decides their own request."""
    people = [person("mara", delegate="riley"), person("riley", delegate="cleo"), person("cleo")]
    found = look("mara", "cleo", people=people, barred=("riley",))
    assert seats(found) == ["cleo"]
    assert found.notes == ("mara is away; riley, who stands in, may not decide this",)


def test_barred_person_has_no_delegate() -> None:
    """The requester is asked and away, but their delegate does not decide for them."""
    people = [person("riley", delegate="cleo"), person("cleo")]
    assert look("riley", people=people, barred=("riley@example.com",)).seats == ()


def test_queue_and_group_references_resolve_to_their_members() -> None:
    """A queue is found by name and a Slack group by id; an unknown one is noted."""
    people = [person("mara"), person("tom")]
    queue = Queue(name="q", members=("tom", "ghost", "mara"))
    found = look("queue:q", people=people, queues=[queue])
    assert seats(found) == ["tom", "mara"]
    assert {one.via for one in found.seats} == {"queue:q"}
    assert found.notes == ("ghost (queue:q) is not in the directory",)
    group = look("slack-group:S01", people=people, groups={"S01": ("mara",)})
    assert seats(group) == ["mara"]
    found = look("queue:x", "schedule:x", "slack-group:S02", people=people)
    assert (len(found.notes), found.seats) == (3, ())


def test_on_call_reference_asks_the_person_on_call() -> None:
    """People are found by id or address; an unreadable calendar asks nobody and is noted."""
    start = datetime(2026, 3, 2, 9)  # noqa: DTZ001 -- local time there
    rota = Schedule(name="r", people=("tom", "mara"), start=start, every="1d")
    later = Schedule(name="l", people=("tom",), start=start + 9 * DAY)
    bad = Schedule(name="b", calendar="BEGIN:VCALENDAR")
    people, schedules = [person("mara"), person("tom")], [rota, later, bad]
    assert seats(look("schedule:r", people=people, schedules=schedules)) == ["mara"]
    found = look("schedule:l", "schedule:b", people=people, schedules=schedules)
    assert found.seats == ()
    assert found.notes[0] == "nobody is on call in the schedule l"
    assert found.notes[1].startswith("schedule b: ")


PICKS = st.sampled_from([Pick.ROUND_ROBIN, Pick.LEAST_RECENT])


@given(
    pick=PICKS,
    size=st.integers(1, 6),
    away=st.sets(st.integers(0, 5)),
    rounds=st.integers(1, 40),
)
def test_turns_are_fair(pick: Pick, size: int, away: set[int], rounds: int) -> None:
    """Among the present members, no one is asked more than once more often than another."""
    people = [person(f"p{at}", delegate="" if at in away else None) for at in range(size)]
    queue = Queue(name="q", members=tuple(one.id for one in people), pick=pick)
    last_asked: dict[str, float] = {}
    counted: Counter[str] = Counter()
    for number in range(rounds):
        found = look("queue:q", people=people, queues=[queue], last_asked=last_asked)
        if len(away & set(range(size))) == size:
            assert found.seats == ()
            return
        (seat,) = found.seats
        last_asked[seat.stands_for] = number
        counted[seat.person] += 1
    there = [counted[f"p{at}"] for at in range(size) if at not in away]
    assert max(there) - min(there) <= 1
    assert sum(there) == rounds


def test_least_recent_catches_up_and_round_robin_does_not() -> None:
    """A member who returns comes first, or keeps their place in the rotation."""
    last_asked = {"a": 5.0, "b": 1.0, "c": 4.0}
    members = ("a", "b", "c")
    assert list(Queue(name="q", members=members, pick=Pick.LEAST_RECENT).in_order(last_asked)) == [
        "b", "c", "a"
    ]  # fmt: skip
    robin = Queue(name="q", members=members, pick=Pick.ROUND_ROBIN)
    assert list(robin.in_order(last_asked | {"gone": 9.0})) == ["b", "c", "a"]
    assert list(robin.in_order({"c": 4.0})) == ["a", "b", "c"]
    assert list(robin.in_order({})) == ["a", "b", "c"]


ids = st.sampled_from("abcdef")


@given(
    managers=st.lists(st.sampled_from(["", *"abcdef"]), min_size=6, max_size=6),
    delegates=st.lists(st.sampled_from([None, "", *"abcdef"]), min_size=6, max_size=6),
    barred=st.sets(ids, max_size=3),
    ask=st.lists(st.one_of(ids, st.sampled_from(["requester.manager", "queue:q"])), min_size=1),
    pick=st.sampled_from(Pick),
)
def test_resolution_never_gives_a_seat_to_a_barred_or_absent_person(
    *,
    managers: list[str],
    delegates: list[str | None],
    barred: set[str],
    ask: list[str],
    pick: Pick,
) -> None:
    """No seat is of a barred or absent person, or twice for one person; the search ends."""
    people = [
        person(one, manager=manager, delegate=delegate)
        for one, manager, delegate in zip("abcdef", managers, delegates, strict=True)
    ]
    directory = Directory(people, queues=[Queue(name="q", members=("c", "d", "e"), pick=pick)])
    # The requester is always barred.
    never = {*barred, "a"}
    found = find(
        Level(ask=tuple(ask)), directory, facts={"user": "a"}, barred=tuple(never), now=NOW
    )
    for seat in found.seats:
        assert not {seat.person, seat.stands_for} & never
        acting, principal = directory.get(seat.person), directory.get(seat.stands_for)
        assert acting is not None
        assert principal is not None
        assert acting.absence(NOW) is None
        assert (principal.absence(NOW) is not None) == bool(seat.instead_of)
    pairs = [(one.person, one.instead_of) for one in found.seats]
    assert len(set(pairs)) == len(pairs)
    asked = [one for one in ask if len(one) == 1 and one not in never]
    there = {one for one in asked if delegates["abcdef".index(one)] is None}
    assert there <= {one.person for one in found.seats}


SHIFT = datetime(2026, 3, 3, 11, 30)  # noqa: DTZ001 -- local time


def taken(
    *people: Person,
    by: str = "anna",
    barred: tuple[str, ...] = (),
    ask: str = "schedule:on-call",
    length: timedelta = timedelta(hours=1),
) -> Found:
    """Find the seats of a schedule: Ben is on call, and somebody takes the time from 11:30 on."""
    override = Override(start=SHIFT, end=SHIFT + length, person=by)
    rota = Schedule(name="on-call", people=("ben",), start=SHIFT - DAY, overrides=(override,))
    everybody = list(people or (person("ben"), person("anna")))
    return look(ask, people=everybody, barred=barred, schedules=[rota])


def test_an_override_lets_another_person_take_a_shift_as_a_delegate() -> None:
    """Anna is asked for Ben, by id or address; somebody who is not there takes nothing."""
    for by in ("anna", "Anna@example.com"):
        found = taken(by=by)
        assert seats(found) == ["anna for ben"]
        assert found.seats[0].via == "schedule:on-call"
        assert found.notes == ("ben has given away this shift; anna stands in",)
    assert (seats(taken(by="ben")), taken(by="ben").notes) == (["ben"], ())
    assert seats(taken(by="ghost")) == ["ben"]
    assert taken(by="ghost").notes == ("ghost (schedule:on-call) is not in the directory",)


def test_an_override_obeys_the_rules_of_delegates() -> None:
    """Nobody who is barred takes a shift or gives one away, and an absent taker has a delegate."""
    found = taken(barred=("anna",))
    assert seats(found) == []
    assert found.notes == (
        "ben has given away this shift; anna, who stands in, may not decide this",
    )
    found = taken(barred=("ben",))
    assert (seats(found), found.notes) == ([], ("ben may not decide this and is left out",))
    away = (person("ben"), person("anna", delegate="tom"), person("tom"))
    found = taken(*away)
    assert seats(found) == ["tom for ben"]
    assert found.seats[0].through == ("anna",)
    assert seats(taken(*away, barred=("anna",))) == []
    assert seats(taken(*away, barred=("tom",))) == []
    found = taken(person("ben"), person("anna", delegate="ben"))
    assert seats(found) == []
    assert found.notes == ("ben has given away this shift; nobody is left in ben → anna → ben",)
    both = (person("ben", delegate="tom"), person("anna"), person("tom"))
    assert seats(taken(*both)) == ["anna for ben"]


def test_an_override_is_for_its_schedule_and_its_time_alone() -> None:
    """Ben is still asked where a policy names him, and again when the time is over."""
    assert seats(taken(ask="ben")) == ["ben"]
    assert seats(taken(length=timedelta(minutes=30))) == ["ben"]


def test_the_person_who_takes_a_shift_is_informed() -> None:
    """The person on call is told, and for this time that is Anna."""
    override = Override(start=SHIFT, end=SHIFT + DAY, person="anna")
    rota = Schedule(name="on-call", people=("ben",), start=SHIFT - DAY, overrides=(override,))
    directory = Directory([person("ben"), person("anna")], schedules=[rota])
    assert informed(("schedule:on-call",), directory, facts={}, now=NOW) == ("anna",)


def test_absences_that_were_set_count_too() -> None:
    """They override those of the settings; an early return counts too."""
    mara, tom = person("mara", delegate="ghost"), person("tom")
    directory = Directory([mara, tom])
    away = Absence(start=TODAY, end=TODAY + 5 * DAY, delegate="tom")
    gone = Presence().leave(away)
    found = with_absences(directory, {"mara": gone, "nobody": gone}).get("mara")
    assert found is not None
    assert found.absence(NOW) == away
    back = gone.returned(TODAY)
    there = with_absences(directory, {"mara": back}).get("mara")
    assert there is not None
    assert there.absence(NOW) is None
    assert directory.get("mara") is mara
    assert with_absences(directory, {}) is directory


def test_return_ends_the_current_absence_only() -> None:
    """A current absence ends the day before; a later one stays."""
    running = Absence(start=TODAY - 2 * DAY, end=TODAY + 2 * DAY)
    later = Absence(start=TODAY + 9 * DAY, end=TODAY + 9 * DAY)
    presence = Presence().leave(running).leave(later).returned(TODAY)
    ended = running.model_copy(update={"end": TODAY - DAY})
    assert presence.away == (ended, later)
    assert presence.without_past(TODAY).away == (later,)
    wider = Absence(start=TODAY, end=TODAY + 20 * DAY)
    assert presence.leave(wider).away == (ended, wider)
