"""Requests of programs: each is asked, decided and started once, with its numbers unchanged."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from agentapprovalprotocol import AsyncClient, ConflictError, CredentialRefused, NotFound
from pydantic import JsonValue

from builders import CLEO, MARA, present
from channels.aap.conftest import CALL, Provider
from signoff.broker.decisions import Outcome
from signoff.broker.ed25519 import Key
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit, listing
from signoff.broker.ledger.change import Change
from signoff.broker.receipts import Receipts
from signoff.channels.aap import instances
from signoff.channels.aap.requests import Requests
from signoff.core.approvals.approval import Approval, Handoff, State
from signoff.core.approvals.events import What
from signoff.core.approvals.masking import masked
from signoff.core.approvals.moves import Move
from signoff.core.approvals.programs import Consume
from signoff.core.base.hiding import HIDDEN
from signoff.core.policies.policy import Fallback, Policy

MISSING = "7ab8c8ec-7b2d-4fd6-9b52-752f9515eb71"


async def test_an_approved_request_is_started_once(provider: Provider) -> None:
    """Approved with a note, consumed under one key, and reported: the approval records all."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    assert (made.status, made.tool, made.arguments) == ("pending", "refund", CALL["arguments"])
    await provider.decide(made.id, note="twice charged")
    seen = await client.get(made.id)
    decision = present(seen.decision)
    assert (decision.status, decision.note) == ("approved", "twice charged")
    assert present(decision.expires_at) - decision.decided_at == timedelta(minutes=5)
    first = await client.consume(made.id, "c1")
    assert await client.consume(made.id, "c1") == first
    with pytest.raises(ConflictError) as refused:
        await client.consume(made.id, "c2")
    assert refused.value.code == "already_consumed"
    done = await client.report_outcome(made.id, "succeeded", "refund 77")
    assert present(present(done.consumption).outcome).note == "refund 77"
    assert await client.report_outcome(made.id, "succeeded", "refund 77") == done
    with pytest.raises(ConflictError) as changed:
        await client.report_outcome(made.id, "failed")
    assert changed.value.code == "outcome_conflict"
    approval = await provider.approval(made.id)
    assert (approval.handoff, approval.starts) == (Handoff.RESUMED, 1)
    whats = [one.what for one in await provider.decider.ledger.history(approval.id)]
    wanted = [What.OPENED, What.ASKED, What.APPROVED, What.STARTED, What.REFUSED_ANSWER]
    assert [one for one in whats if one in {*wanted, What.FINISHED}] == [
        *wanted,
        What.FINISHED,
        What.REFUSED_ANSWER,
    ]
    await audit.verify(provider.decider.ledger.store)


async def test_a_request_is_an_approval_without_a_run(provider: Provider) -> None:
    """Lists of runs do not contain it, and workers get no work."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    await provider.decide(made.id)
    ledger = provider.decider.ledger
    rows = await listing.runs(ledger, limit=10)
    assert [one for _, one in rows] == [None]
    assert (await ledger.recent_runs())[0].ended
    assert not [stage for stage in await ledger.backlog() if stage.startswith(("run", "resume"))]


async def test_concurrent_starts_of_an_approval_start_one_call(provider: Provider) -> None:
    """However many processes consume an approval, one of them starts the call."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    await provider.decide(made.id)

    async def start(number: int) -> str:
        try:
            await client.consume(made.id, f"c{number}")
        except ConflictError as error:
            return error.code
        return "started"

    for batch in range(20):
        found = await asyncio.gather(*(start(50 * batch + n) for n in range(50)))
        assert found.count("started") == (1 if batch == 0 else 0)
        assert {*found} <= {"started", "already_consumed"}
    assert (await provider.approval(made.id)).starts == 1


async def test_an_allow_or_deny_policy_answers_immediately(provider: Provider) -> None:
    """The response to the request itself contains the result of `allow` or `deny`."""
    client = await provider.client()
    allowed = await client.create({**CALL, "tool": "read_orders"}, "k1")
    assert allowed.status == "approved"
    denied = await client.create({**CALL, "tool": "drop_orders"}, "k2")
    assert denied.status == "denied"
    assert "nobody drops tables" in present(present(denied.decision).note)
    assert (await client.consume(allowed.id, "c")).consumption is not None


async def test_a_repeated_key_returns_the_same_request(provider: Provider) -> None:
    """Its current state is returned; another request under its key is refused."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    again = await asyncio.gather(*(client.create(CALL, "k1") for _ in range(5)))
    assert again == [made] * 5
    arguments: dict[str, JsonValue] = {"amount": 4901, "currency": "EUR"}
    for other in (
        {**CALL, "arguments": arguments},
        {**CALL, "timeout": "1h"},
        {**CALL, "context": {}},
        {**CALL, "server": "bank"},
        {**CALL, "agent_reasoning": ""},
    ):
        with pytest.raises(ConflictError) as refused:
            await client.create(other, "k1")
        assert refused.value.code == "idempotency_conflict"
    await provider.decide(made.id, "denied", "no")
    assert (await client.create(CALL, "k1")).status == "denied"
    other_instance = await provider.client("claude")
    assert (await other_instance.create(CALL, "k1")).id != made.id


SENT = '{ "b": 1.10, "a": [1e3, -0.0, 12345678901234567890.125, 123456789012345678901], "n": null }'


async def test_numbers_keep_every_digit(provider: Provider) -> None:
    """Every digit is kept; a fraction that a double would change is shown with its digits."""
    _, token = await provider.instance()
    body = f'{{"timeout":"30m" , "tool":"refund","arguments":{SENT},"context":{{"t":0.30}}}}'
    made = await provider.raw("POST", "/requests", token, key="k1", content=body)
    assert made.status_code == 201, made.text
    assert SENT in made.text
    assert '"context":{"t":0.30}' in made.text
    await provider.client_of(token).get(made.json()["id"])
    same = body.replace("1.10", "1.1").replace("1e3", "1000")
    again = await provider.raw("POST", "/requests", token, key="k1", content=same)
    assert again.status_code == 200
    assert SENT in again.text
    args = (await provider.approval(made.json()["id"])).call.args
    assert args["a"] == [1000.0, -0.0, "12345678901234567890.125", 123456789012345678901]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({**CALL, "note": "x"}, "note"),
        ({**CALL, "context": None}, "context"),
        ({**CALL, "server": None}, "server"),
        ({**CALL, "timeout": "0s"}, "timeout"),
        ({**CALL, "timeout": "1d"}, "timeout"),
        ({**CALL, "timeout": 30}, "timeout"),
        ({**CALL, "tool": ""}, "tool"),
        ({**CALL, "arguments": []}, "arguments"),
        ({"tool": "x", "timeout": "1m"}, "arguments"),
    ],
)
async def test_fields_outside_the_protocol_are_refused(
    provider: Provider, body: dict[str, Any], param: str
) -> None:
    """Unknown fields, nulls and wrong values get 400 with the field, and nothing is stored."""
    _, token = await provider.instance()
    answer = await provider.raw("POST", "/requests", token, key="k1", content=json.dumps(body))
    error = answer.json()["error"]
    assert (answer.status_code, error["type"], error["param"]) == (400, "invalid_request", param)
    assert error["request_id"] == answer.headers["x-request-id"]
    assert await provider.decider.ledger.store.members("approvals") == []


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        '{"tool":"a","tool":"b","arguments":{},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":1,"x":2},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":NaN},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":"\\ud800"},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":' + "[" * 5000 + "]" * 5000 + '},"timeout":"1m"}',
        '{"tool":"a","arguments":{},"context":{"x":' + "[" * 400 + "]" * 400 + '},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":1e99999999999999999999},"timeout":"1m"}',
        '{"tool":"a","arguments":{"x":1e999},"timeout":"1m"}',
    ],
)
async def test_malformed_json_never_becomes_a_request(provider: Provider, text: str) -> None:
    """Duplicate keys, half characters and endless nesting never become a request."""
    _, token = await provider.instance()
    answer = await provider.raw("POST", "/requests", token, key="k1", content=text)
    assert answer.status_code == (201 if "1e999}" in text else 400), answer.text
    if answer.status_code == 201:
        assert '"x":1e999' in answer.text


async def test_a_request_without_key_or_token_is_refused(provider: Provider) -> None:
    """Each gets the protocol's error for it, without information about other requests."""
    _, token = await provider.instance()
    body = json.dumps(CALL)
    bare = await provider.raw("POST", "/requests", token, content=body)
    assert (bare.status_code, bare.json()["error"]["code"]) == (400, "missing_idempotency_key")
    nobody = await provider.raw("POST", "/requests", "nonsense", key="k", content=body)
    assert (nobody.status_code, nobody.json()["error"]["type"]) == (401, "authentication")
    provisioner = await provider.provisioner()
    wrong = await provider.raw("POST", "/requests", provisioner, key="k", content=body)
    assert (wrong.status_code, wrong.json()["error"]["type"]) == (403, "authorization")
    manages = await provider.raw("POST", "/instances", token, key="k", content="{}")
    assert manages.status_code == 403
    for path in (f"/requests/{MISSING}", "/requests/nonsense", "/nothing"):
        assert (await provider.raw("GET", path, token)).status_code == 404
    message = (await provider.raw("GET", "/nothing", token)).json()["error"]["message"]
    assert message == "Nothing is at /aap/v1/nothing. Requests are at /aap/v1/requests."
    assert (await provider.raw("PUT", "/requests", token)).status_code == 405


async def test_guessing_tokens_is_slowed_down(provider: Provider) -> None:
    """After 60 invalid tokens the client gets 429; a valid token is still accepted."""
    _, token = await provider.instance()
    for _ in range(60):
        assert (await provider.raw("GET", f"/requests/{MISSING}", "nonsense")).status_code == 401
    slow = await provider.raw("GET", f"/requests/{MISSING}", "nonsense")
    assert (slow.status_code, slow.json()["error"]["type"]) == (429, "rate_limit")
    assert int(slow.headers["retry-after"]) > 0
    assert (await provider.raw("GET", f"/requests/{MISSING}", token)).status_code == 404


async def test_no_instance_sees_the_requests_of_another(provider: Provider) -> None:
    """It cannot cancel, start or report them either."""
    mine, other = await provider.client(), await provider.client("claude")
    made = await mine.create(CALL, "k1")
    await provider.decide(made.id)
    for attempt in (
        other.get(made.id),
        other.cancel(made.id),
        other.consume(made.id, "c"),
        other.report_outcome(made.id, "succeeded"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert (await provider.approval(made.id)).handoff is Handoff.RECORDED


async def test_a_poll_ends_with_the_decision(provider: Provider) -> None:
    """One commit answers every poll that waits in this process."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    polls = [asyncio.create_task(client.get(made.id, wait=30)) for _ in range(3)]
    await provider.requests.waiting.reads.wait()
    await provider.decide(made.id, "denied", "over budget")
    assert [one.status for one in await asyncio.gather(*polls)] == ["denied"] * 3
    assert not provider.requests.waiting.reads.is_set()


async def test_a_poll_that_times_out_returns_pending(provider: Provider) -> None:
    """So is a poll without a wait, or one that arrives while the gateway stops."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    assert (await client.get(made.id, wait=1)).status == "pending"
    poll = asyncio.create_task(client.get(made.id, wait=30))
    await provider.requests.waiting.reads.wait()
    provider.requests.waiting.close()
    assert (await poll).status == "pending"
    _, token = await provider.instance("other")
    wrong = await provider.raw("GET", f"/requests/{made.id}?wait=soon", token)
    assert wrong.json()["error"]["param"] == "wait"


async def test_a_cancelled_request_stays_cancelled(provider: Provider) -> None:
    """Its approvers are notified, a repetition changes nothing, and an ended one is refused."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    gone = await client.cancel(made.id)
    assert (gone.status, await client.cancel(made.id)) == ("cancelled", gone)
    other = await client.create(CALL, "k2")
    await provider.decide(other.id, "denied", "no")
    with pytest.raises(ConflictError) as refused:
        await client.cancel(other.id)
    assert refused.value.code == "already_terminal"
    with pytest.raises(ConflictError) as never:
        await client.consume(made.id, "c")
    assert never.value.code == "not_approved"
    with pytest.raises(ConflictError) as unstarted:
        await client.report_outcome(made.id, "failed")
    assert unstarted.value.code == "not_consumed"


async def test_a_counterproposal_denies_the_call_and_preapproves_its_value(
    provider: Provider,
) -> None:
    """If the agent asks for exactly that value, nobody is asked again."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    await provider.router.drain()
    approval = await provider.approval(made.id)
    values = {"amount": 2500}
    await provider.decider.approve(approval.id, MARA, channel="inbox", values=values)
    seen = await client.get(made.id)
    assert seen.status == "denied"
    assert '"amount": 2500' in present(present(seen.decision).note)
    arguments: dict[str, JsonValue] = {"amount": 2500, "currency": "EUR"}
    again = await client.create({**CALL, "arguments": arguments}, "k2")
    assert (await provider.approval(again.id)).supersedes == approval.id


async def test_a_frozen_tool_is_not_started(provider: Provider) -> None:
    """The program gets the reason; after the freeze ends, it starts the call."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    await provider.decide(made.id)
    freezes = Freezes(provider.decider.ledger)
    await freezes.freeze(app="codex", tool="refund", by="ops", why="fraud")
    with pytest.raises(ConflictError) as refused:
        await client.consume(made.id, "c")
    assert refused.value.code == "tool_frozen"
    await freezes.thaw(app="codex", tool="refund", by="ops", why="over")
    assert (await client.consume(made.id, "c")).consumption is not None


async def test_a_call_decided_while_it_is_started_is_checked_like_any_other(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The decision arrives between the read of a request and its start."""
    client = await provider.client()
    take, frozen = provider.decider.take, Freezes(provider.decider.ledger)

    async def decided_first(name: str, move: Move, *more: Any) -> Outcome:
        if (
            isinstance(move, Consume)
            and (await provider.decider.ledger.approval(name)).state is State.PENDING
        ):
            await provider.decider.approve(name, MARA, channel="inbox")
        return await take(name, move, *more)

    monkeypatch.setattr(provider.decider, "take", decided_first)
    await frozen.freeze(app="codex", tool="refund", by="ops", why="fraud")
    made = await client.create(CALL, "k1")
    await provider.router.drain()
    with pytest.raises(ConflictError) as refused:
        await client.consume(made.id, "c")
    assert refused.value.code == "tool_frozen"
    await frozen.thaw(app="codex", tool="refund", by="ops", why="over")
    assert (await client.consume(made.id, "c")).consumption is not None


@pytest.mark.parametrize("late", [False, True], ids=["decided before", "decided meanwhile"])
async def test_an_approval_without_a_receipt_is_not_started(
    provider: Provider, monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    """A decision that a process without the key has written starts nothing, at any time."""
    client, ledger, key = await provider.client(), provider.decider.ledger, Key.generate()
    receipts = Receipts(lambda: [key], lambda: key)
    take = provider.decider.take

    async def forge(name: str) -> None:
        ledger.receipts = None
        await provider.decider.approve(name, MARA, channel="inbox")
        ledger.receipts = receipts

    async def forged_first(name: str, move: Move, *more: Any) -> Outcome:
        if isinstance(move, Consume) and (await ledger.approval(name)).state is State.PENDING:
            await forge(name)
        return await take(name, move, *more)

    made = await client.create(CALL, "k1")
    await provider.router.drain()
    approval = await provider.approval(made.id)
    ledger.receipts = receipts
    if not late:
        await forge(approval.id)
    monkeypatch.setattr(provider.decider, "take", forged_first)
    with pytest.raises(ConflictError) as refused:
        await client.consume(made.id, "c")
    assert refused.value.code == "not_approved"
    seen = await ledger.approval(approval.id)
    assert (seen.handoff, seen.starts) == (Handoff.RECORDED, 0)
    last = (await ledger.history(approval.id))[-1]
    assert last.what is What.REFUSED_ANSWER
    assert "it has no receipt" in last.why


async def test_a_tool_of_an_mcp_server_has_a_name_of_its_own(provider: Provider) -> None:
    """A policy for `read_*` does not allow a server's tool with that name."""
    client = await provider.client()
    made = await client.create({**CALL, "tool": "read_mail", "server": "gmail"}, "k1")
    assert (made.status, made.tool, made.server) == ("pending", "read_mail", "gmail")
    assert (await provider.approval(made.id)).call.name == "gmail.read_mail"


async def test_the_owner_of_an_instance_never_decides(provider: Provider) -> None:
    """The requester of an instance's calls is the person that it works for."""
    token = (await provider.instance("codex", "mara"))[1]
    client = provider.client_of(token)
    made = await client.create(CALL, "k1")
    await provider.router.drain()
    approval = await provider.approval(made.id)
    assert "mara" not in approval.approvers
    assert approval.state is State.PENDING


async def test_a_revoked_credential_is_refused(provider: Provider) -> None:
    """After a rotation, the earlier token is invalid."""
    made, token = await provider.instance()
    fresh = await instances.rotate(provider.decider.ledger, made, by="test")
    with pytest.raises(CredentialRefused):
        await provider.client_of(token).create(CALL, "k1")
    client: AsyncClient = provider.client_of(fresh)
    assert (await client.create(CALL, "k1")).status == "pending"


async def test_a_request_of_an_instance_that_is_deleted_meanwhile_is_withdrawn(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion has not seen the request, and nobody may be asked for a program that is gone."""
    instance, token = await provider.instance()
    opening = Requests._opening

    async def deleted_first(self: Requests, *args: Any) -> tuple[Approval, Change]:
        made = await opening(self, *args)
        await instances.delete(provider.decider, instance, by="test")
        return made

    monkeypatch.setattr(Requests, "_opening", deleted_first)
    with pytest.raises(CredentialRefused):
        await provider.client_of(token).create(CALL, "k1")
    (name,) = await provider.decider.ledger.store.members("approvals")
    assert (await provider.decider.ledger.approval(name)).state is State.WITHDRAWN
    await provider.router.drain()
    assert await provider.decider.ledger.pending() == []


async def test_hidden_values_are_hidden_before_routing(provider: Provider) -> None:
    """Rules of reloaded settings count too, because the matching policy is not known yet."""
    hiding = Policy(name="refunds", ask=("mara",), hide=("currency",))
    provider.router.use((hiding,), Fallback(ask=(CLEO.id,)))
    made = await (await provider.client()).create(CALL, "k1")
    approval = await provider.approval(made.id)
    assert (approval.terms, masked(approval).call.args["currency"]) == (None, HIDDEN)
