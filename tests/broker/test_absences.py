"""Absences that people set, and the turns of queues: both in the ledger, for all processes."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY, asked_approval
from signoff.broker.directory.absences import People
from signoff.broker.directory.rotation import RotationKeeper
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.events import What
from signoff.core.base.errors import AbsenceRefused, RecordUnreadable
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.levels import Level
from signoff.core.routing.resolve import find

DAY = timedelta(days=1)


async def events(ledger: Ledger) -> list[tuple[str, dict[str, object]]]:
    """Return what the audit has about people."""
    from signoff.broker.ledger import audit
    from signoff.core.approvals.events import Event

    read = [Event.model_validate_json(text) async for _, text, _ in audit.entries(ledger.store)]
    return [(one.what.value, dict(one.more)) for one in read if one.what in {What.LEFT, What.BACK}]


def settings(*absences: Absence) -> Directory:
    """Return the directory; Mara is away in it on these days."""
    return Directory([MARA.model_copy(update={"away": absences}), CLEO, RILEY])


def days(first: datetime, start: int, end: int, delegate: str = "") -> Absence:
    """Return an absence, by days from a moment on."""
    begin = first.date() + start * DAY
    return Absence(start=begin, end=first.date() + end * DAY, delegate=delegate)


async def away(people: People, person: Person, now: datetime) -> bool:
    """Say whether somebody is away at a moment."""
    found = (await people.directory()).get(person.id)
    assert found is not None
    return found.absence(now) is not None


async def test_an_absence_is_seen_by_every_process_at_once(ledger: Ledger) -> None:
    """And what was said is in the audit, with who said it and how."""
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


async def test_a_return_counts_more_than_the_settings(ledger: Ledger) -> None:
    """What has begun by the settings is over; what is still to come there stays."""
    now = await ledger.now()
    people = People(ledger, settings(days(now, -2, 2), days(now, 9, 9)))
    assert await away(people, MARA, now)
    await people.come_back(MARA, by="mara", more={})
    assert not await away(people, MARA, now + DAY)
    assert await away(people, MARA, now + 9 * DAY)
    with pytest.raises(AbsenceRefused, match="Mara Lind is not away"):
        await people.come_back(MARA, by="mara", more={})


async def test_what_is_over_is_forgotten(ledger: Ledger) -> None:
    """The record does not grow with the years; whom the settings do not know is dropped."""
    now = await ledger.now()
    people = People(ledger, settings())
    await people.leave(MARA, days(now, 0, 5), by="mara", more={})
    await people.come_back(MARA, by="mara", more={})
    await People(ledger, Directory([CLEO])).leave(CLEO, days(now, 0, 5), by="cleo", more={})
    record = await ledger.raw("absences")
    assert record is not None
    assert "mara" not in record[1]
    assert "cleo" in record[1]


async def test_what_cannot_be_is_refused(ledger: Ledger) -> None:
    """Over already, unknown delegates, and people who stand in for each other on the same day."""
    now = await ledger.now()
    people = People(ledger, settings())
    with pytest.raises(AbsenceRefused, match="would have ended"):
        await people.leave(MARA, days(now, -3, -1), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="'tom' is not the id"):
        await people.leave(MARA, days(now, 0, 1, "tom"), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="mara → mara"):
        await people.leave(MARA, days(now, 0, 1, "mara"), by="mara", more={})
    await people.leave(MARA, days(now, 0, 5, "cleo"), by="mara", more={})
    with pytest.raises(AbsenceRefused, match="cleo → mara → cleo"):
        await people.leave(CLEO, days(now, 5, 9, "mara"), by="cleo", more={})
    await people.leave(CLEO, days(now, 6, 9, "mara"), by="cleo", more={})


async def test_many_at_once_lose_nothing(ledger: Ledger) -> None:
    """Twenty people leave in the same moment."""
    crowd = [Person(id=f"p{at}", email=f"p{at}@example.com") for at in range(20)]
    now = await ledger.now()
    people = People(ledger, Directory(crowd))
    async with asyncio.TaskGroup() as group:
        for one in crowd:
            group.create_task(people.leave(one, days(now, 0, 1), by=one.id, more={}))
    assert all([await away(people, one, now) for one in crowd])


async def test_a_record_of_another_shape_is_an_error(ledger: Ledger) -> None:
    """Nobody is taken to be here whose absence cannot be read."""
    await ledger.commit(Change().put_raw("absences", '{"mara": {"away": "always"}}'))
    with pytest.raises(RecordUnreadable, match="record absences"):
        await People(ledger, settings()).directory()


async def test_turns_go_on_over_batches_and_processes(ledger: Ledger) -> None:
    """Three askings in one batch and three in the next, by another process: two for each member."""
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
    """Alone it would never be written; beside one it is written with it or not at all."""
    with pytest.raises(ValueError, match="write that first"):
        Change().index("turns:q", "mara", 1)
    approval = asked_approval()
    await ledger.commit(Change().put(approval, was=None).index("turns:q", "mara", 7))
    assert await ledger.store.scored(["turns:q", "turns:x"]) == [{"mara": 7.0}, {}]
    assert await ledger.store.members("waiting") == [approval.id]
