"""Grants in the API: given, seen, used and revoked."""

from __future__ import annotations

import httpx
import pytest
from pydantic import JsonValue

from channels.granting import asked
from channels.rest.conftest import Office
from signoff.core.approvals.approval import Approval


def wish(approval: Approval, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the body of a grant."""
    return {"digest": approval.digest, "length": "4h", **more}


async def test_a_grant_is_created_used_and_revoked(
    office: Office, mara: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """It approves the displayed call and similar calls in its giver's name."""
    approval = await asked(office.decider.ledger, "first")
    body = wish(approval, uses=3, limit="args.amount <= 300", reason="conference")
    given = await mara.post(f"approvals/{approval.id}/grant", json=body)
    assert given.status_code == 201, given.text
    grant = given.json()
    assert (grant["state"], grant["by"], grant["channel"]) == ("open", "mara", "api")
    assert (grant["uses"], grant["vary"]) == (3, {"amount": "number"})
    assert "args.amount <= 300" in grant["limits"]
    assert given.headers["location"] == f"/api/v1/grants/{grant['id']}"
    assert (await mara.get(f"approvals/{approval.id}")).json()["state"] == "approved"
    done = await asked(office.decider.ledger, "second", amount=250)
    for name in (grant["id"], approval.id):
        assert (await mara.get(f"grants/{name}")).json()["used"] == 1
    uses = (await mara.get(f"grants/{grant['id']}/uses")).json()["items"]
    assert [one["id"] for one in uses] == [done.id]
    assert (await mara.get(f"approvals/{done.id}")).json()["decision"]["by"] == "mara"
    assert [one["id"] for one in (await admin.get("grants")).json()["items"]] == [grant["id"]]
    gone = await mara.post(f"grants/{grant['id']}/revoke", json={"reason": "the trip is over"})
    assert (gone.json()["state"], gone.json()["revoked_by"]) == ("revoked", "mara")
    again = await mara.post(f"grants/{grant['id']}/revoke", json={"reason": "x"})
    assert (again.status_code, again.json()["type"]) == (409, "urn:signoff:problem:grant-refused")
    assert (await mara.get("grants")).json()["items"] == []
    (kept,) = (await mara.get("grants", params={"all": True})).json()["items"]
    assert kept["revoked_why"] == "the trip is over"
    events = await office.decider.ledger.history(approval.id)
    noted = {one.what.value: one.more for one in events}
    assert noted["granted"]["token"]
    assert noted["grant_revoked"]["token"]


async def test_only_the_displayed_call_can_be_granted_by_its_approver(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """Another digest, another person or more than the policy allows is refused."""
    approval = await asked(office.decider.ledger, "first")
    path = f"approvals/{approval.id}/grant"
    cleo = await office.holder(person="cleo")
    for client, body, status in (
        (mara, wish(approval) | {"digest": "sha256:" + "0" * 64}, 409),
        (mara, wish(approval, length="9h"), 409),
        (mara, wish(approval, length="2h business"), 422),
        (mara, wish(approval, uses=21), 409),
        (mara, wish(approval, uses=0), 422),
        (mara, wish(approval, limit="no_such_name == 1"), 409),
        (cleo, wish(approval), 404),
        (riley, wish(approval), 403),
    ):
        answer = await client.post(path, json=body)
        assert answer.status_code == status, (body, answer.text)
    assert await office.decider.ledger.approval(approval.id) == approval


async def test_a_repeated_key_creates_and_revokes_one_grant(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """With one key it is given once and revoked once."""
    approval = await asked(office.decider.ledger, "first")
    path, key = f"approvals/{approval.id}/grant", {"Idempotency-Key": "g"}
    first = await mara.post(path, json=wish(approval), headers=key)
    again = await mara.post(path, json=wish(approval), headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    assert again.json()["id"] == first.json()["id"]
    assert (await mara.post(path, json=wish(approval))).status_code == 409
    path = f"grants/{first.json()['id']}/revoke"
    for _ in range(2):
        answer = await mara.post(path, json={"reason": "x"}, headers={"Idempotency-Key": "r"})
        assert (answer.status_code, answer.json()["state"]) == (200, "revoked")


@pytest.mark.parametrize("who", ["cleo", "riley", "system"])
async def test_only_giver_and_administrators_see_a_grant(
    office: Office, mara: httpx.AsyncClient, admin: httpx.AsyncClient, who: str
) -> None:
    """Only its giver and administrators see it, its uses, or revoke it."""
    approval = await asked(office.decider.ledger, "first")
    given = (await mara.post(f"approvals/{approval.id}/grant", json=wish(approval))).json()
    parts = {"users": ("*",)} if who == "system" else {"person": who}
    other = await office.holder(**parts)
    assert (await other.get("grants", params={"all": True})).json()["items"] == []
    for path in (f"grants/{given['id']}", f"grants/{approval.id}", f"grants/{given['id']}/uses"):
        assert (await other.get(path)).status_code == 404
    revoke = await other.post(f"grants/{given['id']}/revoke", json={"reason": "x"})
    assert revoke.status_code == (403 if who == "system" else 404)
    assert (await admin.post(f"grants/{given['id']}/revoke", json={"reason": "x"})).is_success
