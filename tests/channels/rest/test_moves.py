"""Moves in the API that do not decide."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from builders import CLEO, paused
from channels.rest.conftest import Office


async def test_each_action_is_recorded_with_its_person_and_token(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """Each is in the timeline with its person and token."""
    _, (approval,) = await paused(office.decider.ledger)
    one = f"approvals/{approval.id}"
    cleo = await office.holder(person="cleo")

    async def done(who: httpx.AsyncClient, verb: str, body: JsonValue, status: int = 200) -> Any:
        answer = await who.post(f"{one}/{verb}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    await done(mara, "claim", {"length": "1h"})
    refused = await done(cleo, "reject", {}, 409)
    assert refused["type"] == "urn:signoff:problem:claimed"
    await done(cleo, "release", {}, 403)
    await done(mara, "release", {})
    await done(mara, "ask", {"text": "For whom?"})
    await done(riley, "comment", {"text": "For Sam."})
    await done(cleo, "comment", {"text": "Fine by me."})
    was = (await mara.get(one)).json()["deadline"]
    assert (await done(mara, "extend", {"by": "1h", "reason": "away"}))["deadline"] > was
    lines = (await mara.get(f"{one}/timeline")).json()
    assert [(line["what"], line["by"]) for line in lines[1:]] == [
        ("claimed", "mara"),
        ("refused_answer", "cleo"),
        ("refused_answer", "cleo"),
        ("released", "mara"),
        ("asked_back", "mara"),
        ("answered_back", "riley"),
        ("commented", "cleo"),
        ("extended", "mara"),
    ]
    assert all(line["more"]["token"] for line in lines[1:])


async def test_a_place_is_given_to_another_person(
    office: Office, mara: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """Its holder and an administrator may do it; a claim needs a person."""
    _, (approval,) = await paused(office.decider.ledger, asked=(CLEO,))
    one = f"approvals/{approval.id}"
    assert (await mara.get(one)).status_code == 404
    body = {"to": "mara", "of": "cleo", "reason": "on holiday"}
    answer = await admin.post(f"{one}/reassign", json=body)
    assert answer.json()["approvers"] == ["mara"], answer.text
    assert (await mara.get(one)).status_code == 200
    assert (await admin.post(f"{one}/claim", json={})).status_code == 403
    body = {"digest": approval.digest}
    assert (await mara.post(f"{one}/approve", json=body)).json()["state"] == "approved"


async def test_a_repeated_key_performs_an_action_once(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """With one key, a comment appears once."""
    _, (approval,) = await paused(office.decider.ledger)
    for _ in range(2):
        answer = await mara.post(
            f"approvals/{approval.id}/comment",
            json={"text": "hello"},
            headers={"Idempotency-Key": "c"},
        )
        assert answer.status_code == 200
    assert len((await office.decider.ledger.approval(approval.id)).comments) == 1


@pytest.mark.parametrize(
    ("verb", "body"),
    [
        ("claim", {"length": "soon"}),
        ("claim", {"length": "2h business"}),
        ("extend", {"by": "", "reason": "x"}),
        ("extend", {"by": "1h"}),
        ("ask", {"text": ""}),
        ("reassign", {"to": "nobody", "reason": "x"}),
        ("reassign", {"to": "mara", "of": "nobody", "reason": "x"}),
    ],
)
async def test_a_malformed_action_changes_nothing(
    office: Office, mara: httpx.AsyncClient, verb: str, body: dict[str, str]
) -> None:
    """It is refused with the error, and the approval stays unchanged."""
    _, (approval,) = await paused(office.decider.ledger)
    answer = await mara.post(f"approvals/{approval.id}/{verb}", json=body)
    assert answer.status_code == 422
    assert await office.decider.ledger.approval(approval.id) == approval
