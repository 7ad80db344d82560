"""Searching approvals in the API: filters and orders."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from builders import CLEO, MARA, paused
from channels.rest.conftest import Office
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval
from signoff.core.policies.levels import Seat


async def some(office: Office) -> list[Approval]:
    """Return three that wait for Mara, the second in a queue and claimed, and one decided.

    By next due time, the third comes first, and then the end of the claim.
    """
    ledger, decider = office.decider.ledger, office.decider
    first = (await paused(ledger, asked=(MARA,), within=timedelta(hours=9)))[1][0]
    second = (await paused(ledger, asked=(MARA, CLEO), within=timedelta(days=3)))[1][0]
    third = (await paused(ledger, asked=(MARA,), within=timedelta(minutes=9)))[1][0]
    over = (await paused(ledger, asked=(MARA,)))[1][0]
    seats = (Seat(person="mara", via="queue:finance"),)
    queued = second.model_copy(update={"seats": seats, "hint": "for the Straße in Zürich"})
    await ledger.commit(Change().put(queued, was=second))
    mara = await office.holder(person="mara")
    assert (await mara.post(f"approvals/{second.id}/claim", json={})).is_success
    await decider.approve(over.id, MARA, channel="email")
    return [first, second, third, over]


@pytest.mark.parametrize(
    ("query", "places"),
    [
        ({}, [3, 2, 1, 0]),
        ({"sort": "oldest"}, [0, 1, 2, 3]),
        ({"sort": "due"}, [2, 1, 0]),
        ({"state": "pending", "sort": "oldest"}, [0, 1, 2]),
        ({"state": "claimed"}, [1]),
        ({"state": "free", "sort": "due"}, [2, 0]),
        ({"state": "approved"}, [3]),
        ({"q": "STRASSE zürich"}, [1]),
        ({"q": "straße nowhere"}, []),
        ({"queue": "finance"}, [1]),
        ({"queue": "queue:finance"}, [1]),
        ({"due": "hour"}, [2]),
        ({"due": "day", "sort": "due"}, [2, 0]),
        ({"person": "cleo"}, []),
        ({"person": "mara@example.com", "state": "approved"}, [3]),
        ({"person": "riley"}, [3, 2, 1, 0]),
        ({"waiting_for": "mara", "sort": "oldest"}, [0, 1, 2]),
        ({"waiting_for": "mara", "sort": "due"}, [2, 1, 0]),
        ({"tool": "Reimburse"}, [3, 2, 1, 0]),
        ({"app": "travel"}, []),
    ],
)
async def test_a_search_filters_and_sorts_approvals(
    office: Office, admin: httpx.AsyncClient, query: dict[str, str], places: list[int]
) -> None:
    """By words, state, queue, person and deadline; the newest, oldest or next due first."""
    made = await some(office)
    answer = await admin.get("approvals", params=query)
    assert answer.status_code == 200, answer.text
    found = [one["id"] for one in answer.json()["items"]]
    assert found == [made[place].id for place in places]


async def test_pages_in_any_order_contain_each_approval_once(
    office: Office, admin: httpx.AsyncClient
) -> None:
    """The cursor keeps the order of its page."""
    made = await some(office)
    for sort, places in (("oldest", [0, 1, 2, 3]), ("due", [2, 1, 0]), ("newest", [3, 2, 1, 0])):
        found, cursor = [], ""
        while cursor is not None:
            query: dict[str, str | int] = {"sort": sort, "limit": 1, "cursor": cursor}
            page = (await admin.get("approvals", params=query)).json()
            found += [one["id"] for one in page["items"]]
            cursor = page["next"]
        assert found == [made[place].id for place in places]


@pytest.mark.parametrize("query", [{"state": "open"}, {"sort": "size"}, {"due": "soon"}])
async def test_an_unknown_value_is_refused_with_its_parameter(
    admin: httpx.AsyncClient, query: dict[str, str]
) -> None:
    """The problem names the parameter."""
    answer = await admin.get("approvals", params=query)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == next(iter(query))


@pytest.mark.parametrize(
    ("path", "query", "named"),
    [
        ("approvals", "status=pending", ["'status'", "state", "cursor"]),
        ("approvals", "state=pending&State=approved", ["'State'"]),
        ("approvals", "state=pending&state=approved", ["'state'", "more than once"]),
        ("runs", "requester=riley", ["'requester'", "user"]),
        ("audit", "aproval=ap_x", ["'aproval'", "approval"]),
        ("queues", "name=finance", ["'name'", "no parameters"]),
        ("grants", "open=1", ["'open'", "all"]),
    ],
)
async def test_an_unknown_parameter_is_refused_and_the_known_ones_are_named(
    admin: httpx.AsyncClient, path: str, query: str, named: list[str]
) -> None:
    """A misspelt filter would otherwise return everything."""
    answer = await admin.get(f"{path}?{query}")
    assert answer.status_code == 422, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(one in answer.json()["detail"] for one in named), answer.text
