"""The router's approvers: present people, turns, on-call schedules and deadlines."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from signoff.broker.directory.absences import People
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import NotAnApprover
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock

ANN, BEN = (
    MARA.model_copy(update={"id": one, "name": one, "email": f"{one}@example.com", "aliases": ()})
    for one in ("ann", "ben")
)


def office(
    channels: Channels, *ask: str, within: str = "4h", people: Sequence[Person] = (), **groups: Any
) -> Channels:
    """Set a policy that asks these references, with these people."""
    everybody = people or (MARA, CLEO, RILEY.model_copy(update={"manager": "mara"}), ANN, BEN)
    channels.directory.become(Directory(everybody, **groups))
    level = {"ask": ask, "within": within}
    channels.policies = (Policy(name="expenses", levels=(level,)),)
    return channels


async def leave(channels: Channels, person: Person, delegate: str, *, until: int = 1) -> None:
    """Set a person's absence from today on, as another process does."""
    today = (await channels.ledger.now()).date()
    absence = Absence(start=today, end=today + timedelta(days=until), delegate=delegate)
    people = People(channels.ledger, channels.directory)
    await people.leave(person, absence, by=person.id, more={})


async def asked(channels: Channels, **parts: Any) -> Approval:
    """Open and route a request, and return it."""
    approval = await channels.open(**parts)
    await channels.router.drain()
    return await channels.ledger.approval(approval.id)


async def test_router_asks_the_delegate_only_during_the_absence(
    channels: Channels,
) -> None:
    """The same router asks the manager, then the delegate, then the manager again."""
    office(channels, "requester.manager")
    before = await asked(channels)
    assert before.approvers == {"mara"}
    await leave(channels, MARA, "cleo")
    during = await asked(channels)
    assert during.approvers == {"cleo"}
    # She keeps the earlier request; the delegate does not get it.
    await channels.decider.approve(during.id, CLEO, channel="cli")
    with pytest.raises(NotAnApprover):
        await channels.decider.approve(before.id, CLEO, channel="cli")
    await channels.decider.approve(before.id, MARA, channel="cli")
    await People(channels.ledger, channels.directory).come_back(MARA, by="mara", more={})
    assert (await asked(channels)).approvers == {"mara"}


async def test_requester_is_never_asked_as_a_delegate(channels: Channels) -> None:
    """The manager is away, and the requester is the delegate: the default is asked."""
    office(channels, "requester.manager")
    await leave(channels, MARA, "riley")
    approval = await asked(channels)
    assert approval.approvers == {"cleo"}
    event = (await channels.events(approval))[-1]
    assert "Riley Voss, who stands in, may not decide this" in event.why


@pytest.mark.parametrize("pick", [Pick.ROUND_ROBIN, Pick.LEAST_RECENT])
async def test_turns_are_fair_among_processes(channels: Channels, pick: Pick) -> None:
    """Two routers share forty requests: each of four has ten, give or take one per process."""
    queue = Queue(name="q", members=("ann", "ben", "mara", "cleo"), pick=pick)
    office(channels, "queue:q", queues=[queue])
    opened = [await channels.open(amount=number) for number in range(40)]
    async with asyncio.TaskGroup() as group:
        for _ in range(2):
            group.create_task(channels.router.drain())
    found = await channels.ledger.approvals([one.id for one in opened])
    counted = Counter(seat.person for one in found for seat in one.seats)
    assert sum(counted.values()) == 40
    assert max(counted.values()) - min(counted.values()) <= 2
    turns = (await channels.ledger.store.scored(["turns:q"]))[0]
    assert set(turns) == set(queue.members)


async def test_queue_rotation_skips_absent_members_until_they_return(channels: Channels) -> None:
    """With least-recent, a person who returns is asked first."""
    queue = Queue(name="q", members=("ann", "ben"), pick=Pick.LEAST_RECENT)
    office(channels, "queue:q", queues=[queue])
    await leave(channels, ANN, "")
    assert [(await asked(channels)).approvers for _ in range(2)] == [{"ben"}, {"ben"}]
    await People(channels.ledger, channels.directory).come_back(ANN, by="ann", more={})
    assert [(await asked(channels)).approvers for _ in range(2)] == [{"ann"}, {"ben"}]


async def test_rota_asks_the_person_on_call(still_channels: Channels, clock: VirtualClock) -> None:
    """By the ledger's clock, one person is asked this week and another the next."""
    start = datetime(2026, 3, 2, 9)  # noqa: DTZ001 -- local time there
    rota = Schedule(name="r", people=("ann", "ben"), start=start, time_zone="Europe/Berlin")
    channels = office(still_channels, "schedule:r", schedules=[rota])
    clock.advance(datetime(2026, 3, 9, 7, 59, tzinfo=UTC) - clock.now())
    assert (await asked(channels)).approvers == {"ann"}
    clock.advance(datetime(2026, 3, 9, 8, 0, tzinfo=UTC) - clock.now())
    assert (await asked(channels)).approvers == {"ben"}


async def test_working_time_deadline_uses_the_delegate_calendar(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """Four working hours of a delegate in New York, from a Friday evening before the change."""
    worker = CLEO.model_copy(
        update={"time_zone": "America/New_York", "hours": ("Mon-Fri 09:00-17:00",)}
    )
    people = (MARA.model_copy(update={"hours": ("Mon-Sun 00:00-24:00",)}), worker, RILEY)
    channels = office(still_channels, "mara", within="4h business", people=people)
    clock.advance(datetime(2026, 3, 6, 20, 0, tzinfo=UTC) - clock.now())  # 15:00 there, winter time
    await leave(channels, people[0], "cleo", until=9)
    approval = await asked(channels)
    assert approval.approvers == {"cleo"}
    assert approval.state is State.PENDING
    # Two hours on Friday; on Monday it is summer time: 11:00 there is 15:00 UTC.
    assert approval.deadline == datetime(2026, 3, 9, 15, 0, tzinfo=UTC)
