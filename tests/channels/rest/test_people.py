"""Absences in the API: one's own, and anybody's for administrators."""

from __future__ import annotations

from datetime import timedelta

import httpx
import pytest

from builders import CLEO, MARA, paused, present
from channels.rest.conftest import Office


async def days(office: Office) -> tuple[str, str]:
    """Return today and a day of next week, as the API has them."""
    today = (await office.decider.ledger.now()).date()
    return today.isoformat(), (today + timedelta(days=7)).isoformat()


async def test_a_person_sets_and_ends_their_absence(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """It takes effect immediately with the delegate; the audit has the token."""
    today, later = await days(office)
    body = {"to": later, "delegate": "cleo@example.com"}
    away = await mara.post("people/mara/away", json=body)
    assert away.status_code == 200, away.text
    absence = {"from": today, "to": later, "delegate": "cleo"}
    assert (away.json()["away_now"], away.json()["away"]) == (True, [absence])
    nothing = {"waiting": [], "handed_over": [], "next": ""}
    assert (await mara.get("people/mara")).json() | nothing == away.json()
    found = await office.decider.people.directory()
    assert (
        present(present(found.get("mara")).absence(await office.decider.ledger.now())).delegate
        == "cleo"
    )
    back = await mara.post("people/mara/back", json={})
    assert back.json()["away_now"] is False
    again = await mara.post("people/mara/back", json={})
    assert (again.status_code, again.json()["type"]) == (422, "urn:signoff:problem:absence")
    auditor = await office.holder(person="mara", scopes=["audit:read"])
    lines = (await auditor.get("audit")).text
    assert '"what":"left"' in lines
    assert '"token":' in lines.partition('"what":"left"')[2]


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"to": "soon"},
        {"to": "2020-01-01"},
        {"from": "2999-02-01", "to": "2999-01-01"},
        {"to": "2999-01-01", "delegate": "nobody"},
        {"to": "2999-01-01", "delegate": "mara"},
        {"to": "2999-01-01", "until": "2999-01-01"},
    ],
)
async def test_an_absence_that_cannot_be_is_refused(
    office: Office, mara: httpx.AsyncClient, body: dict[str, str]
) -> None:
    """The error says what is wrong, and nothing changes."""
    answer = await mara.post("people/mara/away", json=body)
    assert answer.status_code == 422, answer.text
    assert (await mara.get("people/mara")).json()["away"] == []


async def test_only_administrators_manage_absences_of_others(
    office: Office, mara: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """Other people get 404 for them, and no addresses."""
    _, later = await days(office)
    assert [one["id"] for one in (await mara.get("people")).json()] == ["mara"]
    everybody = await admin.get("people")
    assert {one["id"] for one in everybody.json()} == {"mara", "cleo", "riley"}
    assert "@" not in everybody.text
    system = await office.holder(users=("*",))
    assert (await system.get("people")).json() == []
    for client in (mara, system):
        seen, none = await client.get("people/cleo"), await client.get("people/cleoo")
        assert seen.status_code == none.status_code == 404
        assert seen.text.replace("cleo", "") == none.text.replace("cleoo", "")
    assert (await mara.post("people/cleo/away", json={"to": later})).status_code == 404
    assert (await mara.post("people/cleo/back", json={})).status_code == 404
    assert (await system.post("people/cleo/back", json={})).status_code == 403
    reader = await office.holder(person="mara", scopes=["approvals:read"])
    assert (await reader.post("people/mara/away", json={"to": later})).status_code == 403
    done = await admin.post("people/cleo/away", json={"to": later})
    assert done.json()["away_now"] is True
    assert (await admin.get("people/cleo")).json()["away_now"] is True


async def test_a_repeated_key_records_an_absence_once(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """With one key, the audit has one entry."""
    _, later = await days(office)
    for _ in range(2):
        answer = await mara.post(
            "people/mara/away", json={"to": later}, headers={"Idempotency-Key": "a"}
        )
        assert answer.status_code == 200
    auditor = await office.holder(person="mara", scopes=["audit:read"])
    assert (await auditor.get("audit")).text.count('"what":"left"') == 1


async def test_waiting_requests_are_listed_and_handed_to_the_delegate(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """Waiting requests stay until the client asks to hand them over to the delegate."""
    _, later = await days(office)
    _, made = await paused(office.decider.ledger, siblings=2, asked=[MARA])
    body = {"to": later, "delegate": "cleo"}
    said = (await mara.post("people/mara/away", json=body)).json()
    assert sorted(said["waiting"]) == sorted(one.id for one in made)
    assert said["handed_over"] == []
    assert "Cleo Park can answer as well" in said["next"]
    assert "hand_over = true" in said["next"]
    assert {(await _own(office, one.id)) for one in made} == {("mara",)}
    given = (await mara.post("people/mara/away", json=body | {"hand_over": True})).json()
    assert sorted(given["handed_over"]) == sorted(one.id for one in made)
    assert (given["waiting"], given["next"]) == ([], "")
    assert {(await _own(office, one.id)) for one in made} == {("cleo",)}


async def test_a_request_that_cannot_be_reassigned_reports_the_reason(
    office: Office, admin: httpx.AsyncClient
) -> None:
    """The delegate is asked already; without a delegate nothing changes."""
    today, later = await days(office)
    _, (made,) = await paused(office.decider.ledger, asked=[MARA, CLEO])
    alone = await admin.post("people/mara/away", json={"to": later, "hand_over": True})
    assert (alone.status_code, alone.json()["type"]) == (422, "urn:signoff:problem:absence")
    assert (await admin.get("people/mara")).json()["away"] == []
    body = {"from": today, "to": later, "delegate": "cleo", "hand_over": True}
    said = (await admin.post("people/mara/away", json=body)).json()
    assert said["waiting"] == [made.id]
    assert f"{made.id} was not handed over: Cleo Park is asked about" in said["next"]


async def _own(office: Office, approval: str) -> tuple[str, ...]:
    return (await office.decider.ledger.approval(approval)).ballot.own


async def test_a_repeated_request_hands_over_nothing_new(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A client repeats it after Mara is back: what came meanwhile stays with her."""
    await paused(office.decider.ledger, asked=[MARA])
    _, later = await days(office)
    body = {"to": later, "delegate": "cleo", "hand_over": True}
    once = {"Idempotency-Key": "a"}
    first = await mara.post("people/mara/away", json=body, headers=once)
    assert len(first.json()["handed_over"]) == 1
    await mara.post("people/mara/back", json={})
    await paused(office.decider.ledger, asked=[MARA])
    again = await mara.post("people/mara/away", json=body, headers=once)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.json()["handed_over"] == []
    assert len(again.json()["waiting"]) == 1
