"""Several calls approved by one request, and an approval's comments and claim."""

from __future__ import annotations

from typing import Any

import httpx

from builders import CLEO, paused, present
from channels.rest.conftest import Office
from signoff.broker.ledger.change import Change
from signoff.core.approvals.approval import Approval


async def harmless(office: Office, *, batch: bool = True, **parts: Any) -> Approval:
    """Return an approval that its policy calls harmless."""
    _, (was,) = await paused(office.decider.ledger, **parts)
    terms = present(was.terms).model_copy(update={"batch": batch})
    await office.decider.ledger.commit(
        Change().put(was.model_copy(update={"terms": terms}), was=was)
    )
    return await office.decider.ledger.approval(was.id)


async def test_each_call_of_a_batch_is_decided_separately(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A harmful, foreign, unknown or changed call does not block the others."""
    first, last = await harmless(office), await harmless(office)
    alone = await harmless(office, batch=False)
    others = await harmless(office, asked=(CLEO,))
    changed = await harmless(office)
    wanted = [
        (first.id, first.digest),
        (alone.id, alone.digest),
        (others.id, others.digest),
        ("ap_nothing", first.digest),
        (changed.id, "sha256:" + "0" * 64),
        (last.id, last.digest),
    ]
    body = {"approvals": [{"id": name, "digest": digest} for name, digest in wanted]}
    answer = await mara.post("approvals/together", json=body)
    assert answer.status_code == 200, answer.text
    told = answer.json()
    assert [one["id"] for one in told] == [name for name, _ in wanted]
    assert [one["approval"] and one["approval"]["state"] for one in told] == [
        "approved",
        None,
        None,
        None,
        None,
        "approved",
    ]
    kinds = [one["problem"] and one["problem"]["type"].rpartition(":")[2] for one in told]
    assert kinds == [None, "refused", "not-found", "not-found", "digest", None]
    for one in (alone, others, changed):
        assert await office.decider.ledger.approval(one.id) == one
    (event,) = [
        one for one in await office.decider.ledger.history(first.id) if one.what == "approved"
    ]
    assert (event.by, event.more["batch"], bool(event.more["token"])) == ("mara", True, True)


async def test_a_repeated_batch_is_decided_once(office: Office, mara: httpx.AsyncClient) -> None:
    """With one key, each result is repeated; without one, each is already decided."""
    made = [await harmless(office) for _ in range(2)]
    body = {"approvals": [{"id": one.id, "digest": one.digest} for one in made]}
    for _ in range(2):
        answer = await mara.post(
            "approvals/together", json=body, headers={"Idempotency-Key": "all"}
        )
        assert [one["approval"]["state"] for one in answer.json()] == ["approved"] * 2
    assert answer.headers["idempotent-replayed"] == "true"
    again = await mara.post("approvals/together", json=body)
    assert {one["problem"]["type"].rpartition(":")[2] for one in again.json()} == {
        "already-decided"
    }


async def test_a_batch_decision_needs_a_permitted_person(
    office: Office, admin: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """It needs a person's token with the scope; the requester is refused for each."""
    one = await harmless(office)
    body = {"approvals": [{"id": one.id, "digest": one.digest}]}
    reader = await office.holder(person="mara", scopes=["approvals:read"])
    assert (await admin.post("approvals/together", json=body)).status_code == 403
    assert (await reader.post("approvals/together", json=body)).status_code == 403
    (told,) = (await riley.post("approvals/together", json=body)).json()
    assert told["problem"]["status"] == 403
    assert (await office.decider.ledger.approval(one.id)).state == "pending"
    for wrong in ([], [{"id": one.id}], body["approvals"] * 51):
        answer = await riley.post("approvals/together", json={"approvals": wrong})
        assert answer.status_code == 422


async def test_an_approval_shows_claim_comments_and_awaited_people(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """The claim, the comments with their kinds, and the awaited people."""
    one = f"approvals/{(await harmless(office)).id}"
    await mara.post(f"{one}/claim", json={"length": "1h"})
    await mara.post(f"{one}/ask", json={"text": "For whom?"})
    await riley.post(f"{one}/comment", json={"text": "For Sam."})
    shown = (await mara.get(one)).json()
    assert shown["claimed"]["by"] == "mara"
    assert shown["awaited"] == ["cleo", "mara"]
    assert [(each["by"], each["sort"], each["text"]) for each in shown["comments"]] == [
        ("mara", "question", "For whom?"),
        ("riley", "answer", "For Sam."),
    ]
    await mara.post(f"{one}/reject", json={})
    over = (await mara.get(one)).json()
    assert (over["claimed"], over["awaited"], len(over["comments"])) == (None, [], 2)


async def test_an_unreadable_record_does_not_block_the_batch(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """The response names the error, and the later approvals are decided."""
    ledger = office.decider.ledger
    made = [await harmless(office), await harmless(office)]
    run = f"run:{made[0].origin.run}"
    (version, _) = present(await ledger.raw(run))
    await ledger.commit(Change().put_raw(run, '{"needs": 999}', was=version))
    body = {"approvals": [{"id": one.id, "digest": one.digest} for one in made]}
    unread, done = (await mara.post("approvals/together", json=body)).json()
    assert unread["problem"]["status"] == 500
    assert done["approval"]["state"] == "approved"
