"""Runs and the audit in the API, and repeated requests."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest

from builders import paused
from channels.rest.conftest import Office
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.core.approvals.events import What
from signoff.core.base.errors import LedgerUnavailable

BODY = {"app": "finance", "message": "Reimburse me"}


async def test_a_person_submits_as_himself_and_a_system_for_its_users(
    office: Office, riley: httpx.AsyncClient
) -> None:
    """The requester is the token's person, or a user whom the system's token names."""
    answer = await riley.post("runs", json=BODY)
    assert answer.status_code == 201
    run = answer.json()
    assert (run["user"], run["state"]) == ("riley", "queued")
    assert answer.headers["location"] == f"/api/v1/runs/{run['id']}"
    assert (await riley.get(f"runs/{run['id']}")).json() == run
    for user in ("mara", "riley@example.com", "*"):
        refused = await riley.post("runs", json={**BODY, "user": user})
        assert refused.json()["type"] == "urn:signoff:problem:not-for-this-user"
    system = await office.holder(users=("sam", "kim"), apps=("finance",))
    assert (await system.post("runs", json={**BODY, "user": "sam"})).status_code == 201
    assert (await system.post("runs", json={**BODY, "user": "riley"})).status_code == 403
    assert (await system.post("runs", json={**BODY, "user": "sam", "app": "x"})).status_code == 403
    assert (await system.post("runs", json=BODY)).status_code == 422
    everybody = await office.holder(users=("*",), apps=("finance",))
    assert (await everybody.post("runs", json={**BODY, "user": "  "})).status_code == 422
    assert [one["user"] for one in (await system.get("runs")).json()["items"]] == ["sam"]


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"message": ""}, "/message"),
        ({"message": "x" * 100_001}, "/message"),
        ({"app": "../x"}, "/app"),
        ({"session": "a\0b"}, None),
        ({"more": 1}, "/more"),
        ({"app": "nothing"}, None),
    ],
)
async def test_an_invalid_run_is_refused(
    office: Office,
    riley: httpx.AsyncClient,
    change: dict[str, str] | dict[str, int],
    where: str | None,
) -> None:
    """The error says what is wrong, and nothing is submitted."""
    answer = await riley.post("runs", json={**BODY, **change})
    assert answer.status_code == 422
    if where:
        assert answer.json()["errors"][0]["pointer"] == where
    assert await office.decider.ledger.recent_runs() == []


async def test_a_repeated_request_is_executed_once(
    office: Office, riley: httpx.AsyncClient
) -> None:
    """The same key and body give the same run; another body is refused, and another key is new."""
    key = {"Idempotency-Key": "order-7"}
    first = await riley.post("runs", json=BODY, headers=key)
    again = await riley.post("runs", json=BODY, headers=key)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.json()["id"] == again.json()["id"]
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    other = await riley.post("runs", json={**BODY, "message": "more"}, headers=key)
    assert (other.status_code, other.json()["type"]) == (
        422,
        "urn:signoff:problem:idempotency-key-used",
    )
    system = await office.holder(users=("*",))
    theirs = await system.post("runs", json={**BODY, "user": "sam"}, headers=key)
    assert theirs.json()["id"] != first.json()["id"]
    assert len(await office.decider.ledger.recent_runs()) == 2
    for bad in ("", "a b", "x" * 256):
        refused = await riley.post("runs", json=BODY, headers={"Idempotency-Key": bad})
        assert refused.json()["type"] == "urn:signoff:problem:idempotency-key"


async def test_one_of_many_concurrent_requests_is_executed(
    office: Office, riley: httpx.AsyncClient
) -> None:
    """The others get an error meanwhile, and nothing is done twice."""
    key = {"Idempotency-Key": "at-once"}
    answers = await asyncio.gather(*(riley.post("runs", json=BODY, headers=key) for _ in range(8)))
    codes = {one.status_code for one in answers}
    assert codes <= {201, 409}
    assert len({one.json()["id"] for one in answers if one.status_code == 201}) == 1
    assert len(await office.decider.ledger.recent_runs()) == 1


async def test_a_gateway_crash_before_the_commit_executes_nothing(
    office: Office, riley: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt is refused until the first one's lease ends, and then succeeds."""
    ledger = office.decider.ledger
    commit, release = ledger.commit, ledger.release_lease

    async def die(*args: object, **more: object) -> None:
        raise LedgerUnavailable("gone")

    monkeypatch.setattr(ledger, "commit", die)
    monkeypatch.setattr(ledger, "release_lease", die)
    key = {"Idempotency-Key": "killed"}
    assert (await riley.post("runs", json=BODY, headers=key)).status_code == 503
    monkeypatch.setattr(ledger, "commit", commit)
    monkeypatch.setattr(ledger, "release_lease", release)
    answer = await riley.post("runs", json=BODY, headers=key)
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:signoff:problem:in-flight")
    (lease,) = await ledger.store.keys("lease:")
    await ledger.store.client.delete(ledger.store.prefix + lease)
    assert (await riley.post("runs", json=BODY, headers=key)).status_code == 201
    assert len(await ledger.recent_runs()) == 1


async def test_a_gateway_crash_after_the_commit_executes_once(
    office: Office, riley: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next attempt gets the first one's result, because the commit contains it."""
    commit = office.decider.ledger.commit

    async def done_and_gone(change: Change) -> None:
        await commit(change)
        raise LedgerUnavailable("gone")

    key = {"Idempotency-Key": "killed"}
    monkeypatch.setattr(office.decider.ledger, "commit", done_and_gone)
    assert (await riley.post("runs", json=BODY, headers=key)).status_code == 503
    monkeypatch.setattr(office.decider.ledger, "commit", commit)
    again = await riley.post("runs", json=BODY, headers=key)
    assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
    (run,) = await office.decider.ledger.recent_runs()
    assert run.id == again.json()["id"]


async def test_a_repeated_decision_returns_the_same_response(
    office: Office, mara: httpx.AsyncClient
) -> None:
    """With its key, a repeated approval gets 200, without one 409; a refusal frees the key."""
    _, (approval,) = await paused(office.decider.ledger)
    path, key = f"approvals/{approval.id}/approve", {"Idempotency-Key": "yes"}
    wrong = {"digest": "sha256:" + "0" * 64}
    assert (await mara.post(path, json=wrong, headers=key)).status_code == 409
    body = {"digest": approval.digest}
    first = await mara.post(path, json=body, headers=key)
    again = await mara.post(path, json=body, headers=key)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.headers["idempotent-replayed"] == "true"
    assert (await mara.post(path, json=body)).status_code == 409
    events = await office.decider.ledger.history(approval.id)
    assert [one.what for one in events].count(What.APPROVED) == 1


async def test_the_audit_is_streamed_as_lines_and_continues_at_a_cursor(
    office: Office, admin: httpx.AsyncClient
) -> None:
    """Each of 1,000 entries appears once with its link, and a cursor continues after an entry."""
    ledger = office.decider.ledger
    _, (approval,) = await paused(ledger)
    await ledger.commit(Change().note((await ledger.history(approval.id)) * 1000))
    await paused(ledger, siblings=3)
    answer = await admin.get("audit")
    assert answer.headers["content-type"] == "application/jsonl"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["entry"]["what"] for one in lines[-4:]] == ["submitted"] + ["opened"] * 3
    assert lines[-1]["link"] == (await audit.verify(office.decider.ledger.store))[1]
    rest = await admin.get("audit", params={"after": lines[1]["id"]})
    assert [json.loads(line) for line in rest.text.splitlines()] == lines[2:]
    assert (await admin.get("audit", params={"after": lines[-1]["id"]})).text == ""
    for bad in ("x", "1", "-1-0", "1-0 2-0", "9" * 19 + "-0"):
        assert (await admin.get("audit", params={"after": bad})).status_code == 422


async def test_a_redis_that_is_away_is_a_problem_that_passes(
    office: Office, mara: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The response is 503 with a time to retry."""

    async def gone(*args: object) -> None:
        raise LedgerUnavailable("Redis cannot be reached.")

    monkeypatch.setattr(office.decider.ledger.store, "read_now", gone)
    answer = await mara.get("me")
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["type"] == "urn:signoff:problem:unavailable"


async def test_a_repeated_decision_returns_the_present_state(
    office: Office, mara: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the first request ends while the second one waits for its turn, both return the result."""
    ledger = office.decider.ledger
    _, (approval,) = await paused(ledger)
    path, key = f"approvals/{approval.id}/approve", {"Idempotency-Key": "yes"}
    body, take = {"digest": approval.digest}, ledger.take_lease
    first: list[httpx.Response] = []

    async def later(name: str, token: str, *, lease: float) -> bool:
        monkeypatch.setattr(ledger, "take_lease", take)
        first.append(await mara.post(path, json=body, headers=key))
        return await take(name, token, lease=lease)

    monkeypatch.setattr(ledger, "take_lease", later)
    again = await mara.post(path, json=body, headers=key)
    assert [one.status_code for one in first] == [200]
    assert again.headers["idempotent-replayed"] == "true"
    assert again.json()["state"] == "approved"
