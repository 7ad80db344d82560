"""Approvals in the API: their content, and the effect of an answer."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx
import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, RILEY, ask, make_approval, make_origin, paused, present
from channels.rest.conftest import Office
from signoff.broker.ledger.change import Change
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval


async def pending(office: Office, **parts: Any) -> Approval:
    """Return an approval that waits for Mara and Cleo."""
    _, (approval,) = await paused(office.decider.ledger, **parts)
    return approval


def yes(approval: Approval, **more: JsonValue) -> dict[str, JsonValue]:
    """Return the body of an approval."""
    return {"digest": approval.digest, **more}


async def test_a_yes_decides_as_the_persons_own(office: Office, mara: httpx.AsyncClient) -> None:
    """It is recorded with channel and token, the run continues, and the response shows it."""
    approval = await pending(office)
    shown = (await mara.get(f"approvals/{approval.id}")).json()
    call = {"tool": "reimburse", "args": dict(approval.call.args), "hidden": []}
    assert shown["call"] == call
    assert (shown["requester"], shown["approvers"]) == ("riley", ["cleo", "mara"])
    body = yes(approval, reason=" fine ")
    answer = await mara.post(f"approvals/{approval.id}/approve", json=body)
    assert answer.status_code == 200
    told = answer.json()
    assert (told["state"], told["decision"]["by"]) == ("approved", "mara")
    assert (told["decision"]["channel"], told["decision"]["reason"]) == ("api", "fine")
    run = await office.decider.ledger.run(approval.origin.run)
    assert run.state == "answered"
    lines = (await mara.get(f"approvals/{approval.id}/timeline")).json()
    assert [one["what"] for one in lines] == ["opened", "approved"]
    assert lines[-1]["more"]["token"]
    again = await mara.post(f"approvals/{approval.id}/reject", json={})
    assert (again.status_code, again.json()["type"]) == (409, "urn:signoff:problem:already-decided")


async def test_values_go_into_the_template_or_are_refused_with_an_example(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """An invalid value gets an error for its field, and changes nothing."""
    approval = await pending(office, template={"amount": 2000})
    path = f"approvals/{approval.id}/approve"
    bad = await mara.post(path, json=yes(approval, values={"amount": "lots"}))
    assert (bad.status_code, bad.json()["key"]) == (422, "amount")
    assert bad.json()["example"]
    good = await mara.post(path, json=yes(approval, values={"amount": 1500}))
    assert good.json()["decision"]["payload"] == {"amount": 1500}


async def test_only_the_call_that_was_shown_is_approved(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """A digest of another call, or a body without one, decides nothing."""
    approval = await pending(office)
    path = f"approvals/{approval.id}/approve"
    wrong = await mara.post(path, json={"digest": "sha256:" + "0" * 64})
    assert (wrong.status_code, wrong.json()["type"]) == (409, "urn:signoff:problem:digest")
    missing = (await mara.post(path, json={"verdict": "yes"})).json()
    assert missing["detail"] == "/digest: it is missing; /verdict: there is no such field"
    assert missing["errors"][0] == {"pointer": "/digest", "detail": "it is missing"}
    assert (await mara.post(path)).json()["detail"] == "the body: it is missing"
    short = (await mara.post(path, json={"digest": "sha256:0"})).json()
    assert "sha256: and 64 hexadecimal digits" in short["detail"]
    assert (await office.decider.ledger.approval(approval.id)).state == "pending"


async def test_the_rules_for_deciding_apply_to_rest(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient
) -> None:
    """The requester, others, late people, and approvals that need two steps are refused."""
    approval = await pending(office, asked=(CLEO, RILEY))
    path = f"approvals/{approval.id}/approve"
    own = await riley.post(path, json=yes(approval))
    assert (own.status_code, own.json()["type"]) == (403, "urn:signoff:problem:own-request")
    assert (await mara.post(path, json=yes(approval))).status_code == 404
    mine = await pending(office)
    body = {"reason": "I could not know"}
    other = await office.holder(person="cleo", scopes=["admin", "approvals:decide"])
    ended = await office.holder(person="mara", scopes=["approvals:decide"])
    await other.post(f"approvals/{mine.id}/reject", json=body)
    assert (await ended.post(f"approvals/{mine.id}/reject", json={})).status_code == 409
    late = await pending(office, within=timedelta(milliseconds=1))
    while await office.decider.ledger.now() < present(late.deadline):
        pass
    answer = await mara.post(f"approvals/{late.id}/approve", json=yes(late))
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:signoff:problem:too-late")


async def test_an_administrator_who_is_not_an_approver_cannot_decide(office: Office) -> None:
    """Reading everything does not give the right to answer."""
    approval = await pending(office, asked=(CLEO,))
    boss = await office.holder(person="mara", scopes=["admin", "approvals:decide"])
    assert (await boss.get(f"approvals/{approval.id}")).status_code == 200
    for verb, body in (("approve", yes(approval)), ("reject", {})):
        answer = await boss.post(f"approvals/{approval.id}/{verb}", json=body)
        assert answer.json()["type"] == "urn:signoff:problem:not-an-approver"
        assert answer.status_code == 403


async def test_two_steps_are_not_passed_by(office: Office, mara: httpx.AsyncClient) -> None:
    """An approval is refused if the policy needs a second step; a rejection counts."""
    approval = ask(make_approval(origin=make_origin(confirmation="two")), MARA, second_step=True)
    _, (other,) = await paused(office.decider.ledger)
    was = await office.decider.ledger.approval(other.id)
    two = was.model_copy(update={"terms": approval.terms})
    await office.decider.ledger.commit(Change().put(two, was=was))
    answer = await mara.post(f"approvals/{two.id}/approve", json=yes(two))
    assert answer.json()["type"] == "urn:signoff:problem:second-step-needed"
    assert (await mara.get(f"approvals/{two.id}")).json()["two_steps"] is True
    assert (await office.decider.ledger.approval(two.id)).steps == ()
    assert (await mara.post(f"approvals/{two.id}/reject", json={})).json()["state"] == "rejected"


async def test_only_requester_or_administrator_withdraws_a_request(
    office: Office, mara: httpx.AsyncClient, riley: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """The requester or an administrator may withdraw it; approvers reject instead."""
    first, second = await pending(office), await pending(office)
    body = {"reason": "not needed any more"}
    refused = await mara.post(f"approvals/{first.id}/withdraw", json=body)
    assert refused.json()["type"] == "urn:signoff:problem:not-the-requester"
    assert (await riley.post(f"approvals/{first.id}/withdraw", json={"reason": ""})).is_error
    done = (await riley.post(f"approvals/{first.id}/withdraw", json=body)).json()
    assert (done["state"], done["decision"]["by"]) == ("withdrawn", "riley")
    assert (await admin.post(f"approvals/{second.id}/withdraw", json=body)).status_code == 200
    gone = await riley.post(f"approvals/{first.id}/withdraw", json=body)
    assert (gone.status_code, gone.json()["type"]) == (409, "urn:signoff:problem:not-pending")


async def test_one_of_eight_concurrent_decisions_succeeds(office: Office) -> None:
    """One response is 200 and seven are 409, and the audit has one decision."""
    approval = await pending(office)
    clients = [await office.holder(person=one) for one in ("mara", "cleo") * 4]
    bodies = [("approve", yes(approval)), ("reject", {"reason": "no"})] * 4
    answers = await asyncio.gather(
        *(
            client.post(f"approvals/{approval.id}/{verb}", json=body)
            for client, (verb, body) in zip(clients, bodies, strict=True)
        )
    )
    assert sorted(one.status_code for one in answers) == [200] + [409] * 7
    events = await office.decider.ledger.history(approval.id)
    assert len([one for one in events if one.what in {"approved", "rejected"}]) == 1


async def test_an_unchanged_approval_is_not_sent_again(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """With `If-None-Match`, an approval is sent only if its version has changed."""
    approval = await pending(office)
    path = f"approvals/{approval.id}"
    tag = (await mara.get(path)).headers["etag"]
    same = await mara.get(path, headers={"If-None-Match": f'"x", {tag}'})
    assert (same.status_code, same.content) == (304, b"")
    await mara.post(f"{path}/reject", json={})
    assert (await mara.get(path, headers={"If-None-Match": tag})).status_code == 200


async def test_only_audit_readers_get_timeline_details(office: Office) -> None:
    """Other people do not get addresses and values."""
    approval = await pending(office)
    reader = await office.holder(person="mara", scopes=["approvals:read"])
    lines = (await reader.get(f"approvals/{approval.id}/timeline")).json()
    assert all(one["more"] == {} for one in lines)


async def test_only_approvers_operators_and_auditors_see_deliveries(office: Office) -> None:
    """As on the page, the requester does not read what approvers' mailboxes have answered."""
    approval = await pending(office)
    events = [
        deliveries.undelivered(approval, "mara", "email", "550 <mara@x> is full", now=NOON)[1],
        deliveries.away(approval, "mara", "email", "In hospital until May", now=NOON)[1],
    ]
    await office.decider.ledger.commit(Change().note([one for some in events for one in some]))
    read, path = ["approvals:read"], f"approvals/{approval.id}/timeline"
    for holder, inside in (
        ({"person": "mara", "scopes": read}, True),
        ({"users": ("sam",), "scopes": ["admin"]}, True),
        ({"person": "riley", "scopes": read}, False),
        ({"users": ("riley",), "scopes": read}, False),
    ):
        reader = await office.holder(**holder)
        kinds = {one["what"] for one in (await reader.get(path)).json()}
        assert "opened" in kinds
        assert kinds & {"undelivered", "away"} == ({"undelivered", "away"} if inside else set())


async def test_pages_contain_each_approval_once_while_others_are_added(
    office: Office, mara: httpx.AsyncClient, admin: httpx.AsyncClient
) -> None:
    """The pages contain each approval of the start once, the newest first."""
    there = [await pending(office, siblings=1) for _ in range(5)]
    _, siblings = await paused(office.decider.ledger, siblings=7)
    expected = {one.id for one in (*there, *siblings)}
    for path in ("approvals", "approvals?state=pending", "approvals?waiting_for=mara"):
        seen, cursor = [], ""
        while cursor is not None:
            answer = await mara.get(path, params={"limit": "2", "cursor": cursor} | _query(path))
            page = answer.json()
            seen += [one["id"] for one in page["items"]]
            cursor = page["next"]
            await pending(office)
        assert len(seen) == len(set(seen)), path
        assert expected <= set(seen) or path.startswith("approvals?"), path
        assert expected <= set(seen)
        at = [one["opened_at"] for one in page["items"]]
        assert at == sorted(at, reverse=True)


def _query(path: str) -> dict[str, str]:
    """Return the query of a path, because `params` would replace it."""
    _, _, query = path.partition("?")
    return dict([query.split("=")]) if query else {}


async def test_an_empty_page_can_have_a_cursor(
    office: Office, admin: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If few records match, a page may be empty and still have a cursor."""
    monkeypatch.setattr("signoff.channels.rest.pages.SCANNED", 50)
    await paused(office.decider.ledger, siblings=120)
    first = (await admin.get("approvals?tool=nothing")).json()
    assert first["items"] == []
    pages = 1
    while first["next"]:
        first = (
            await admin.get("approvals", params={"tool": "nothing", "cursor": first["next"]})
        ).json()
        pages += 1
    assert pages == 3


@pytest.mark.parametrize("cursor", ["x", "AAAA", "é", "MTIz", "IA", "LTEgYQ"])
async def test_a_foreign_cursor_is_refused(
    office: Office, mara: httpx.AsyncClient, cursor: str
) -> None:
    """A cursor that does not come from a page is refused."""
    answer = await mara.get("approvals", params={"cursor": cursor})
    assert (answer.status_code, answer.json()["type"]) == (422, "urn:signoff:problem:cursor")
