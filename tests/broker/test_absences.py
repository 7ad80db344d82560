"""Absences that people set, and the turns of queues: both are in the ledger for all processes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY, asked_approval, paused, present
from deciding import Decider
from signoff.broker.directory.absences import People
from signoff.broker.directory.rotation import RotationKeeper
from signoff.broker.freezes import Freezes
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import What
from signoff.core.base.errors import AbsenceRefused, NotAnApprover, RecordUnreadable
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.levels import Level
from signoff.core.routing.resolve import find

DAY = timedelta(days=1)


async def events(ledger: Ledger) -> list[tuple[str, dict[str, object]]]:
    """Return the audit's events about people."""
    from signoff.broker.ledger import audit
    from signoff.core.approvals.events import Event

    read = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return [(one.what.value, dict(one.more)) for one in read if one.what in {What.LEFT, What.BACK}]


def settings(*absences: Absence) -> Directory:
    """Return the directory; its settings say that Mara is away on these days."""
    return Directory([MARA.model_copy(update={"away": absences}), CLEO, RILEY])


def days(first: datetime, start: int, end: int, delegate: str = "") -> Absence:
    """Return an absence, as numbers of days from a moment."""
    begin = first.date() + start * DAY
    return Absence(start=begin, end=first.date() + end * DAY, delegate=delegate)


async def away(people: People, person: Person, now: datetime) -> bool:
    """Return whether a person is away at a moment."""
    found = (await people.directory()).get(person.id)
    assert found is not None
    return found.absence(now) is not None


async def test_an_absence_applies_in_every_process_immediately(ledger: Ledger) -> None:
    """The audit has what was said, by whom and in which channel."""
    here, there = People(ledger, settings()), People(ledger, settings())
    now = await ledger.now()
    assert await here.directory() is await here.directory()
    absence = days(now, 0, 3, "cleo")
    await here.leave(MARA, absence, by="mara", more={"channel": "email"})
    for people in (here, there):
        assert await away(people, MARA, now)
        assert await away(people, MARA, now + 3 * DAY)
        assert not await away(people, MARA, now + 4 * DAY)
    assert await there.directory() is await there.directory()
    await there.come_back(MARA, by="root (cli)", more={})
    assert not await away(here, MARA, now)
    assert await events(ledger) == [
        (
            "left",
            {
                "person": "mara",
                "from": absence.start.isoformat(),
                "to": absence.end.isoformat(),
                "delegate": "cleo",
                "second_factor": False,
                "channel": "email",
            },
        ),
        ("back", {"person": "mara"}),
    ]


async def test_a_change_after_a_lost_one_is_seen(ledger: Ledger) -> None:
    """If Redis loses an absence or a freeze, the next one has the same version."""
    here, there = People(ledger, settings()), People(ledger, settings())
    now = await ledger.now()
    await there.leave(MARA, days(now, 0, 3, "cleo"), by="mara", more={})
    await Freezes(ledger).freeze(tool="refund", by="mara", why="the bank called")
    assert await away(here, MARA, now)
    store = ledger.store
    await store.client.delete(store.prefix + "absences", store.prefix + "freezes")
    await there.leave(CLEO, days(now, 0, 3), by="cleo", more={})
    await Freezes(ledger).freeze(tool="pay", by="cleo", why="the bank called")
    assert (await away(here, MARA, now), await away(here, CLEO, now)) == (False, True)
    assert [one.tool for one in (await here.directory()).freezes] == ["pay"]


async def test_a_return_counts_more_than_the_settings(ledger: Ledger) -> None:
    """A current absence of the settings ends; a later one stays."""
    now = await ledger.now()
    people = People(ledger, settings(days(now, -2, 2), days(now, 9, 9)))
    assert await away(people, MARA, now)
    await people.come_back(MARA, by="mara", more={})
    assert not await away(people, MARA, now + DAY)
    assert await away(people, MARA, now + 9 * DAY)
    with pytest.raises(AbsenceRefused, match="Mara Lind is not away"):
        await people.come_back(MARA, by="mara", more={})


async def test_past_absences_and_unknown_people_are_dropped(ledger: Ledger) -> None:
    """Past absences and unknown people are dropped, so the record does not keep growing."""
    now = await ledger.now()
    people = People(ledger, settings())
    await people.leave(MARA, days(now, 0, 5), by="mara", more={})
    await people.come_back(MARA, by="mara", more={})
    await People(ledger, Directory([CLEO])).leave(CLEO, days(now, 0, 5), by="cleo", more={})
    record = await ledger.raw("absences")
    assert record is not None
    assert "mara" not in record[1]
    assert "cleo" in record[1]


async def test_invalid_absences_are_refused(ledger: Ledger) -> None:
    """Past absences, unknown delegates, and two delegates of each other on one day are refused."""
    now = await ledger.now()
    people = People(ledger, settings())
    with pytest.raises(AbsenceRefused, match="The absence ends on"):
        await people.leave(MARA, days(now, -3, -1), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="'tom' is not the id"):
        await people.leave(MARA, days(now, 0, 1, "tom"), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="mara → mara"):
        await people.leave(MARA, days(now, 0, 1, "mara"), by="mara", more={})
    await people.leave(MARA, days(now, 0, 5, "cleo"), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="cleo → mara → cleo"):
        await people.leave(CLEO, days(now, 5, 9, "mara"), by="cleo", more={})
    await people.leave(CLEO, days(now, 6, 9, "mara"), by="cleo", more={})


async def test_concurrent_absences_are_all_recorded(ledger: Ledger) -> None:
    """Twenty people set an absence at the same moment."""
    crowd = [Person(id=f"p{at}", email=f"p{at}@example.com") for at in range(20)]
    now = await ledger.now()
    people = People(ledger, Directory(crowd))
    async with asyncio.TaskGroup() as group:
        for one in crowd:
            group.create_task(people.leave(one, days(now, 0, 1), by=one.id, more={}))
    assert all([await away(people, one, now) for one in crowd])


async def test_a_record_of_another_shape_is_an_error(ledger: Ledger) -> None:
    """An unreadable record is an error, so that no absence is overlooked."""
    await ledger.commit(Change().put_raw("absences", '{"mara": {"away": "always"}}'))
    with pytest.raises(RecordUnreadable, match="record absences"):
        await People(ledger, settings()).directory()


async def test_rotation_continues_across_batches_and_processes(ledger: Ledger) -> None:
    """Two processes ask a queue three times each, and each of its three members gets two turns."""
    crowd = [Person(id=one, email=f"{one}@example.com") for one in "abc"]
    queue = Queue(name="q", members=("a", "b", "c"), pick=Pick.ROUND_ROBIN)
    directory = Directory(crowd, queues=[queue, Queue(name="all", members=("a",))])
    level = Level(ask=("queue:q", "queue:all"))
    asked: list[str] = []
    for _ in range(2):
        keeper = await RotationKeeper.read(ledger, directory)
        change = Change().put_raw(f"record:{len(asked)}", "x")
        for _ in range(3):
            found = find(
                level, directory, facts={}, barred=(), now=NOON, rotations=keeper.known
            )  # fmt: skip
            keeper.take(change, found.seats, now=NOON.astimezone(UTC))
            asked += [one.person for one in found.seats if one.via == "queue:q"]
        await ledger.commit(change)
    assert asked == list("abcabc")
    assert await ledger.store.keys("turns:") == ["turns:q"]


async def test_an_index_entry_needs_a_record(ledger: Ledger) -> None:
    """An index entry is written together with a record, or not at all."""
    with pytest.raises(ValueError, match="write that first"):
        Change().index("turns:q", "mara", 1)
    approval = asked_approval()
    await ledger.commit(Change().put(approval, was=None).index("turns:q", "mara", 7))
    assert await ledger.store.scored(["turns:q", "turns:x"]) == [{"mara": 7.0}, {}]
    assert await ledger.store.members("waiting") == [approval.id]


async def test_people_of_a_reload_count_before_the_ledger_is_read_again(ledger: Ledger) -> None:
    """Absences and freezes stay after a reload; people who were removed cannot decide."""
    written = settings()
    decider = Decider(ledger, written)
    _, (one,) = await paused(ledger)
    today = (await ledger.now()).date()
    await decider.people.leave(CLEO, Absence(start=today, end=today), by="cleo", more={})
    await Freezes(ledger).freeze(tool="refund", by="ops", why="an incident")
    await decider.roster.refresh()
    written.become(Directory([CLEO, RILEY]))
    assert present(decider.directory.get("cleo")).away
    assert [freeze.tool for freeze in decider.directory.freezes] == ["refund"]
    with pytest.raises(NotAnApprover, match="not in the directory any more"):
        await decider.approve(one.id, MARA, channel="inbox")
