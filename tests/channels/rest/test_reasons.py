"""A reason that reads like a condition, beside an approval in the API."""

from __future__ import annotations

import httpx

from builders import paused, present
from channels.granting import asked
from channels.rest.conftest import Office
from signoff.core.approvals.events import What

LIMIT = "only up to 500"


async def test_condition_is_refused_until_the_client_states_that_it_is_none(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """Nothing is decided, the refusal is audited, and the confirmed reason is stored."""
    ledger = office.decider.ledger
    _, (approval,) = await paused(ledger)
    path, body = f"approvals/{approval.id}/approve", {"digest": approval.digest, "reason": LIMIT}
    refused = await mara.post(path, json=body)
    told = refused.json()
    assert (refused.status_code, told["type"]) == (422, "urn:signoff:problem:reason-contradicts")
    assert told["read"] == LIMIT
    assert LIMIT in told["detail"]
    assert (await ledger.approval(approval.id)).state == "pending"
    assert (await ledger.history(approval.id))[-1].what is What.REFUSED_ANSWER

    done = await mara.post(path, json=body | {"as_it_is": True})
    assert done.status_code == 200, done.text
    assert done.json()["decision"]["reason"] == LIMIT
    assert (await ledger.history(approval.id))[-1].more["as_it_is"] is True


async def test_rejection_takes_any_reason(office: Office, mara: httpx.AsyncClient) -> None:
    """A no with a condition is a no."""
    _, (approval,) = await paused(office.decider.ledger)
    done = await mara.post(f"approvals/{approval.id}/reject", json={"reason": LIMIT})
    assert done.json()["state"] == "rejected"


async def test_grant_is_refused_until_the_client_confirms_the_reason(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A grant approves a call too, so the same question is asked and its answer is audited."""
    ledger = office.decider.ledger
    approval = await asked(ledger, "first")
    path = f"approvals/{approval.id}/grant"
    body = {"digest": approval.digest, "length": "4h", "reason": LIMIT}
    refused = await mara.post(path, json=body)
    assert (refused.status_code, refused.json()["type"]) == (
        422,
        "urn:signoff:problem:reason-contradicts",
    )
    assert (await ledger.approval(approval.id)).state == "pending"
    assert (await mara.get("grants")).json()["items"] == []

    given = await mara.post(path, json=body | {"as_it_is": True})
    assert given.status_code == 201, given.text
    assert present((await ledger.approval(approval.id)).decision).reason == LIMIT
    noted = {one.what: one.more for one in await ledger.history(approval.id)}
    assert noted[What.GRANTED]["as_it_is"] is True
