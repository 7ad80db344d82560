"""Freezes in the API: readers of approvals see them, administrators start and end them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from channels.rest.conftest import Office
from signoff.broker.freezes import Freezes
from signoff.core.access.api_tokens import Scope

WHY = {"why": "the bank called"}


async def test_an_administrator_freezes_and_thaws(
    office: Office, admin: httpx.AsyncClient, mara: httpx.AsyncClient
) -> None:
    """It takes effect immediately; the audit has the person, the token and the reason."""
    made = await admin.post("freezes", json={"tool": "reimburse", **WHY})
    assert made.status_code == 200, made.text
    (frozen,) = await Freezes(office.decider.ledger).all()
    assert made.json()["id"] == frozen.id
    assert (made.json()["stops"], made.json()["why"]) == ("reimburse()", "the bank called")
    assert (await mara.get("freezes")).json() == [made.json()]

    twice = await admin.post("freezes", json={"tool": "reimburse", **WHY})
    assert (twice.status_code, twice.json()["type"]) == (
        409,
        "urn:signoff:problem:freeze-refused",
    )
    await admin.post("freezes", json={"app": "finance", "tool": "pay", **WHY})
    left = await admin.post(f"freezes/{frozen.id}/thaw", json={"why": "false alarm"})
    assert [one["stops"] for one in left.json()] == ["pay() of finance"]
    gone = await admin.post(f"freezes/{frozen.id}/thaw", json={})
    assert gone.status_code == 404
    lines = (await admin.get("audit")).text
    for what, why in (("frozen", "the bank called"), ("thawed", "false alarm")):
        (line, *_) = [one for one in lines.splitlines() if f'"what":"{what}"' in one]
        assert why in line
        assert '"token":' in line


async def test_everything_is_frozen_by_saying_so(admin: httpx.AsyncClient) -> None:
    """A body without a scope freezes nothing."""
    for body in (
        WHY,
        {"everything": True, "tool": "pay", **WHY},
        {"everything": True},
        {"why": ""},
        {"tool": " ", "app": "finance", **WHY},
    ):
        answer = await admin.post("freezes", json=body)
        assert answer.status_code == 422, answer.text
    assert (await admin.post("freezes", json={"tool": "x", "why": "  "})).status_code == 409
    assert (await admin.get("freezes")).json() == []
    assert (await admin.post("freezes", json={"everything": True, **WHY})).is_success


@pytest.mark.parametrize("path", ["freezes", "freezes/fz_1/thaw"])
async def test_a_token_without_the_scope_cannot_freeze(
    office: Office, mara: httpx.AsyncClient, path: str
) -> None:
    """Tokens to decide, submit or audit do not have the scope."""
    answer = await mara.post(path, json={"tool": "pay", **WHY})
    assert (answer.status_code, answer.json()["type"]) == (403, "urn:signoff:problem:scope")
    submitter = await office.holder(scopes={Scope.RUNS_SUBMIT}, users=("*",))
    assert (await submitter.get("freezes")).status_code == 403


async def test_an_app_token_freezes_only_its_apps(office: Office) -> None:
    """It cannot end other freezes, and does not see those of other apps."""
    freezes = Freezes(office.decider.ledger)
    other = await freezes.freeze(app="other", by="ops", why="x")
    every = await freezes.freeze(tool="pay", by="ops", why="x")
    limited = await office.holder(scopes={Scope.ADMIN}, apps=("finance",))
    bodies: list[dict[str, Any]] = [{"tool": "pay"}, {"app": "other"}, {"everything": True}]
    for body in bodies:
        assert (await limited.post("freezes", json=body | WHY)).status_code == 403
    assert [one["id"] for one in (await limited.get("freezes")).json()] == [every.id]
    assert (await limited.post(f"freezes/{other.id}/thaw", json={})).status_code == 404
    assert (await limited.post(f"freezes/{every.id}/thaw", json={})).status_code == 403
    mine = await limited.post("freezes", json={"app": "finance", **WHY})
    assert (await limited.post(f"freezes/{mine.json()['id']}/thaw", json={})).is_success


async def test_a_repeated_key_freezes_and_unfreezes_once(
    office: Office, admin: httpx.AsyncClient
) -> None:
    """A repeated request gets the same response and is not carried out again."""
    body, key = {"app": "finance", **WHY}, {"Idempotency-Key": "one"}
    first = await admin.post("freezes", json=body, headers=key)
    again = await admin.post("freezes", json=body, headers=key)
    assert again.json() == first.json()
    path, thaw = f"freezes/{first.json()['id']}/thaw", {"Idempotency-Key": "two"}
    assert (await admin.post(path, json={}, headers=thaw)).json() == []
    assert (await admin.post(path, json={}, headers=thaw)).json() == []
    assert await Freezes(office.decider.ledger).all() == ()
