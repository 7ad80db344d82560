"""Queues in the API: their waiting requests and their readers."""

from __future__ import annotations

from datetime import date, datetime

import httpx
import pytest

from builders import CLEO, MARA, RILEY, paused
from channels.rest.conftest import Office
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.levels import Seat


@pytest.fixture
def directory() -> Directory:
    """Mara and Cleo are in one queue, and Riley in another; Mara and Riley are on call in turn."""
    queues = (Queue(name="finance", members=("mara", "cleo")), Queue(name="it", members=("riley",)))
    rota = Schedule(
        name="rota",
        people=("mara", "riley"),
        start=datetime(2026, 1, 5, 9),  # noqa: DTZ001 -- local time
    )
    return Directory([MARA, CLEO, RILEY], queues=queues, schedules=[rota])


async def queued(office: Office, *people: str, queue: str = "finance") -> Approval:
    """Return an approval that waits in a queue for some of its members."""
    asked = tuple(one for one in (MARA, CLEO) if one.id in people)
    _, (was,) = await paused(office.decider.ledger, asked=asked)
    seats = tuple(Seat(person=one, via=f"queue:{queue}") for one in people)
    await office.decider.ledger.commit(
        Change().put(was.model_copy(update={"seats": seats}), was=was)
    )
    return await office.decider.ledger.approval(was.id)


async def test_queues_report_waiting_requests_and_awaited_people(
    office: Office, admin: httpx.AsyncClient, mara: httpx.AsyncClient
) -> None:
    """An administrator sees all queues with the awaited people; a person sees her own."""
    first = await queued(office, "mara", "cleo")
    await queued(office, "cleo")
    await mara.post(f"approvals/{first.id}/claim", json={"length": "1h"})
    rows = {one["name"]: one for one in (await admin.get("queues")).json()}
    assert {name: one["waiting"] for name, one in rows.items()} == {
        "all": 2,
        "queue:finance": 2,
        "queue:it": 0,
        "mara": 1,
        "cleo": 2,
    }
    finance = rows["queue:finance"]
    assert finance["on"] == ["cleo", "mara"]
    assert finance["next_due"] == (await admin.get(f"approvals/{first.id}")).json()["deadline"]
    assert [(one["id"], one["by"]) for one in finance["claimed"]] == [(first.id, "mara")]
    assert finance["oldest"] == (await admin.get(f"approvals/{first.id}")).json()["opened_at"]
    mine = {one["name"]: one["waiting"] for one in (await mara.get("queues")).json()}
    assert mine == {"queue:finance": 2, "mara": 1}


async def test_a_queue_is_shown_to_its_members_page_by_page(
    office: Office, admin: httpx.AsyncClient, mara: httpx.AsyncClient
) -> None:
    """Each approval appears once, the newest first, also those for other members."""
    made = [(await queued(office, "cleo")).id for _ in range(5)]
    found, cursor = [], ""
    while cursor is not None:
        answer = await mara.get("queues/finance", params={"limit": 2, "cursor": cursor})
        page = answer.json()
        found += [one["id"] for one in page["items"]]
        cursor = page["next"]
    assert found == made[::-1]
    assert (await mara.get(f"approvals/{made[0]}")).status_code == 200
    for name in ("queue:finance", "cleo", "cleo@example.com", "all"):
        items = (await admin.get(f"queues/{name}")).json()["items"]
        assert [one["id"] for one in items] == made[::-1], name


async def test_foreign_queues_get_404(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """Requests of other people, other queues and all together get 404, like unknown ids."""
    await queued(office, "mara")
    system = await office.holder(users=("*",))
    for client, names in (
        (mara, ("it", "queue:it", "cleo", "all", "sales", "queue:mara")),
        (riley, ("finance", "mara", "all")),
        (system, ("finance", "mara", "all")),
    ):
        for name in names:
            assert (await client.get(f"queues/{name}")).status_code == 404, name
    assert (await system.get("queues")).json() == []


async def test_an_app_token_counts_only_requests_of_its_app(office: Office) -> None:
    """Requests that it may not see are not counted."""
    await queued(office, "mara")
    for app, count in (("finance", 1), ("travel", 0)):
        client = await office.holder(person="mara", apps=(app,))
        rows = (await client.get("queues")).json()
        assert {one["name"]: one["waiting"] for one in rows}["queue:finance"] == count
        assert len((await client.get("queues/finance")).json()["items"]) == count


async def test_a_person_gets_only_metrics_of_their_queues(
    office: Office, admin: httpx.AsyncClient, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """An administrator has all metrics; a person without a queue has none."""
    first, other = await queued(office, "mara"), await queued(office, "mara", queue="it")
    for one in (first, other):
        body = {"digest": one.digest}
        assert (await mara.post(f"approvals/{one.id}/approve", json=body)).is_success
    found = (await admin.get("figures")).json()
    assert (found["count"], [one["name"] for one in found["took"]]) == (
        2,
        ["queue:finance", "queue:it"],
    )
    assert [one["outcomes"] for one in found["came"]] == [{"approved": 2}]
    for client, name in ((mara, "queue:finance"), (riley, "queue:it")):
        (took,) = (await client.get("figures")).json()["took"]
        assert (took["name"], took["count"]) == (name, 1)
    system = await office.holder(users=("*",))
    assert (await system.get("figures")).json()["count"] == 0
    travel = await office.holder(person="mara", apps=("travel",))
    assert (await travel.get("figures")).json()["count"] == 0


async def test_who_is_on_call_now_and_next(
    admin: httpx.AsyncClient,
    mara: httpx.AsyncClient,
    riley: httpx.AsyncClient,
    office: Office,
) -> None:
    """An administrator sees all groups, a person their own; another moment can be asked about."""
    at = {"at": "2026-03-03T12:00:00+01:00"}
    rota, *queues = (await admin.get("on-call", params=at)).json()
    assert rota == {
        "name": "schedule:rota",
        "now": {
            "start": "2026-03-03T12:00:00+01:00",
            "until": "2026-03-09T09:00:00Z",
            "people": [{"id": "mara", "instead_of": ""}],
            "short": "",
            "notes": [],
        },
        "next": {
            "start": "2026-03-09T09:00:00Z",
            "until": "2026-03-16T09:00:00Z",
            "people": [{"id": "riley", "instead_of": ""}],
            "short": "",
            "notes": [],
        },
        "next_request": [],
    }
    assert [one["name"] for one in queues] == ["queue:finance", "queue:it"]
    for client, names in ((mara, ["rota", "finance"]), (riley, ["rota", "it"])):
        found = (await client.get("on-call")).json()
        assert [one["name"].partition(":")[2] for one in found] == names
    until = date(9999, 12, 31)
    away = Absence(start=date(2026, 1, 1), end=until, delegate="cleo")
    await office.decider.people.leave(MARA, away, by="test", more={})
    (rota, *_) = (await admin.get("on-call", params=at)).json()
    assert rota["now"]["people"] == [{"id": "cleo", "instead_of": "mara"}]


@pytest.mark.parametrize("at", ["2026-03-03T12:00:00", "soon", "0001-01-01T00:00:00+14:00"])
async def test_a_moment_that_is_none_is_refused(admin: httpx.AsyncClient, at: str) -> None:
    """It needs an offset, and a year for which there are deadlines."""
    assert (await admin.get("on-call", params={"at": at})).status_code == 422
