"""Instances: a provisioner makes, verifies, notifies, changes and deletes them."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

import pytest
from agentapprovalprotocol import Receiver, Request, WebhookVerificationFailed
from agentapprovalprotocol.receiver import new_secret
from aiohttp import web
from aiohttp.test_utils import TestServer

from builders import present
from channels.aap.conftest import CALL, URL, Provider
from signoff.broker import api_tokens, stages
from signoff.broker.ledger.change import Change
from signoff.channels.aap import instances
from signoff.channels.aap.notifications import Notifier, Receivers
from signoff.core.approvals.approval import Handoff
from signoff.core.base.errors import ConfigError, RecordUnreadable
from signoff.testing import VirtualClock

PUBLIC = "https://harness.example.com/aap/events"


class Harness:
    """A server with the protocol's own receiver; it records each wake-up."""

    def __init__(self) -> None:
        self.woken: list[tuple[str, str]] = []
        self.statuses: list[int] = []
        self.headers: dict[str, str] = {}
        self.answer = b""
        self.posted: list[bytes] = []
        self.connections: list[object] = []
        self.url = ""
        self.receiver = Receiver(resumers={"test": self._resume})
        self.awake = asyncio.Event()

    def _resume(self, handle: Any, request: Request) -> None:
        self.woken.append((request.id, request.status))
        self.awake.set()

    async def take(self, request: web.Request) -> web.Response:
        """Take a message as the receiver does, or return another answer."""
        body = await request.read()
        self.posted.append(body)
        self.connections.append(request.transport)
        if self.statuses:
            status = self.statuses.pop(0)
            return web.Response(status=status, headers=self.headers, body=self.answer)
        status, answer = await self.receiver.handle(dict(request.headers), body)
        return web.Response(status=status, body=answer)

    def delivery(self, **more: str) -> dict[str, str]:
        """Return a configuration that the receiver expects."""
        self.receiver.secret = self.receiver.secret or new_secret()
        self.receiver.registration_id = self.receiver.registration_id or str(uuid.uuid4())
        usual = {
            "type": "webhook",
            "url": self.url,
            "registration_id": self.receiver.registration_id,
            "signing_secret": self.receiver.secret,
        }
        return usual | more


@asynccontextmanager
async def serving() -> AsyncIterator[Harness]:
    """Serve a harness on loopback."""
    made, app = Harness(), web.Application()
    app.router.add_post("/events", made.take)
    async with TestServer(app) as server:
        made.url = str(server.make_url("/events"))
        yield made


@pytest.fixture
async def harness() -> AsyncIterator[Harness]:
    """Return a running receiver."""
    async with serving() as made:
        yield made


async def test_the_client_registers_and_is_woken(provider: Provider, harness: Harness) -> None:
    """Its receiver is verified, gets a credential, and reads each decision after a notification."""
    provisioned = await harness.receiver.provision(
        provider_url=URL,
        provisioner_token=await provider.provisioner(),
        url=harness.url,
        instance_name="codex chris",
        http=provider.transport(),
    )
    client = provider.client_of(provisioned.token)
    made = await client.create({**CALL, "context": {"resume": {"framework": "test"}}}, "k1")
    await provider.decide(made.id, "denied", "secret words")
    await provider.notify()
    await asyncio.wait_for(harness.awake.wait(), 300)
    assert harness.woken == [(made.id, "denied")]
    message = json.loads(harness.posted[-1])
    assert message.keys() == {"id", "type", "instance_id", "request_id", "created_at"}
    assert message["instance_id"] == provisioned.instance_id
    assert b"secret" not in harness.posted[-1]
    # Names at one address each need a certificate of their own.
    assert len({*harness.connections}) == len(harness.posted) == 2
    assert await provider.notify() == 0
    approval = await provider.approval(made.id)
    assert (approval.origin.app, approval.origin.user) == ("codex-chris", "riley")


async def test_provisioning_is_repeated_without_another_instance(
    provider: Provider, harness: Harness
) -> None:
    """The same key and input return the same credential; the secret is never returned."""
    token = await provider.provisioner()
    body = json.dumps({"instance_name": "codex", "delivery": harness.delivery()})
    answers = await asyncio.gather(
        *(provider.raw("POST", "/instances", token, key="p1", content=body) for _ in range(3))
    )
    assert sorted(one.status_code for one in answers) == [200, 200, 201]
    assert len({one.text for one in answers}) == 1
    assert "whsec_" not in answers[0].text
    assert len(harness.posted) == 1
    other = await provider.raw("POST", "/instances", token, key="p1", content="{}")
    assert other.json()["error"]["code"] == "idempotency_conflict"
    made = answers[0].json()["instance"]
    shown = await provider.raw("GET", f"/instances/{made['id']}", token)
    assert (shown.status_code, shown.json()) == (200, made)
    stranger = await provider.provisioner()
    assert (await provider.raw("GET", f"/instances/{made['id']}", stranger)).status_code == 404


@pytest.mark.parametrize("how", ["rotated", "revoked"])
async def test_a_dead_credential_is_not_given_out_again(provider: Provider, how: str) -> None:
    """Repeating the request is refused; with another key it makes another instance."""
    token, ledger = await provider.provisioner(), provider.decider.ledger
    body = json.dumps({"instance_name": "codex"})
    first = await provider.raw("POST", "/instances", token, key="p1", content=body)
    made = present(await instances.load(ledger, first.json()["instance"]["id"]))
    if how == "rotated":
        await instances.rotate(ledger, made, by="test")
    else:
        await api_tokens.revoke(ledger, made.token, by="test")
    again = await provider.raw("POST", "/instances", token, key="p1", content=body)
    assert (again.status_code, again.json()["error"]["code"]) == (409, "credential_replaced")
    other = await provider.raw("POST", "/instances", token, key="p2", content=body)
    assert other.status_code == 201


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"registration_id": str(uuid.uuid4())}, 422, "webhook_verification_failed"),
        ({"signing_secret": new_secret()}, 422, "webhook_verification_failed"),
        ({"url": "http://127.0.0.1:1/events"}, 422, "webhook_verification_failed"),
        ({"url": "ftp://127.0.0.1/events"}, 400, "invalid_webhook_url"),
        ({"url": "https://u:p@example.com/"}, 400, "invalid_webhook_url"),
        ({"url": "https://example.com/#x"}, 400, "invalid_webhook_url"),
        ({"type": "socket"}, 400, "unsupported_delivery_type"),
        ({"signing_secret": "whsec_short"}, 400, "invalid_field"),
    ],
)
async def test_an_unverified_receiver_creates_no_instance(
    provider: Provider, harness: Harness, change: dict[str, str], status: int, code: str
) -> None:
    """The same request can be tried again."""
    token = await provider.provisioner()
    body = json.dumps({"delivery": harness.delivery() | change})
    answer = await provider.raw("POST", "/instances", token, key="p1", content=body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert await instances.everyone(provider.decider.ledger) == []
    good = json.dumps({"delivery": harness.delivery()})
    assert (
        await provider.raw("POST", "/instances", token, key="p1", content=good)
    ).status_code == 201


async def test_a_receiver_that_answers_with_deep_json_is_not_verified(
    provider: Provider, harness: Harness
) -> None:
    """Python cannot parse it, which is not an error of the gateway."""
    harness.statuses, harness.answer = [200], b"[" * 4096
    token = await provider.provisioner()
    body = json.dumps({"delivery": harness.delivery()})
    answer = await provider.raw("POST", "/instances", token, key="p1", content=body)
    assert answer.json()["error"]["code"] == "webhook_verification_failed"


async def test_a_failing_receiver_does_not_block_others(
    provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An unexpected error of one notification does not prevent the others."""
    async with serving() as bad, serving() as good:
        token = await provider.provisioner()
        for number, one in enumerate((bad, good)):
            body = json.dumps({"delivery": one.delivery()})
            made = await provider.raw("POST", "/instances", token, key=f"p{number}", content=body)
            client = provider.client_of(made.json()["credential"]["token"])
            await provider.decide((await client.create(CALL, "k1")).id)
        notify = provider.receivers.notify

        async def broken(receiver: instances.Receiver, message: dict[str, str], now: Any) -> Any:
            if receiver.url == bad.url:
                raise OverflowError("a defect")
            return await notify(receiver, message, now)

        monkeypatch.setattr(provider.receivers, "notify", broken)
        await provider.notify()
        assert json.loads(good.posted[-1])["type"] == "request.resolved"
    assert len(await _waits(provider)) == 1


async def test_a_receiver_with_a_private_address_is_refused(provider: Provider) -> None:
    """Unless the settings allow it, a receiver's name and address must be publicly reachable."""

    async def lookup(host: str, port: int) -> list[str]:
        return ["10.0.0.7"]

    receivers = Receivers(lookup=lookup)
    provider.requests.waiting.close()
    for url in ("https://localhost/x", "https://127.0.0.1/x", "http://harness.example.com/"):
        with pytest.raises(Exception, match="leads to the internet"):
            receivers.require_url(url)
    receivers.require_url(PUBLIC)
    now = await provider.decider.ledger.now()
    one = instances.Receiver(
        url=PUBLIC, registration_id="r", signing_secret=new_secret(), since=now
    )
    with pytest.raises(Exception, match="private network"):
        await receivers.verify(one, "i", now)
    await receivers.close()


async def test_a_receiver_is_replaced_and_removed(provider: Provider) -> None:
    """Waiting notifications go to the new one with its secret; a repeated update does nothing."""
    token = await provider.provisioner()
    async with serving() as old, serving() as new:
        body = json.dumps({"delivery": old.delivery()})
        made = (await provider.raw("POST", "/instances", token, key="p", content=body)).json()
        path, client = f"/instances/{made['instance']['id']}", made["credential"]["token"]
        request = await provider.client_of(client).create(CALL, "k1")
        await provider.decide(request.id)
        wrong = json.dumps({"instance_name": "x", "delivery": new.delivery(type="socket")})
        assert (
            await provider.raw("PATCH", path, token, key="u0", content=wrong)
        ).status_code == 400
        moved = json.dumps({"instance_name": "codex", "delivery": new.delivery()})
        answer = await provider.raw("PATCH", path, token, key="u1", content=moved)
        assert (answer.status_code, answer.json()["name"]) == (200, "codex")
        await provider.notify()
        assert len(old.posted) == 1
        assert json.loads(new.posted[-1])["request_id"] == request.id
        gone = await provider.raw("PATCH", path, token, key="u2", content='{"delivery":null}')
        assert "delivery" not in gone.json()
        replay = await provider.raw("PATCH", path, token, key="u1", content=moved)
        assert replay.json() == answer.json()
        assert (await provider.raw("GET", path, token)).json() == gone.json()
        for content in ("{}", '{"instance_name":null}', '{"app":"x"}'):
            bad = await provider.raw("PATCH", path, token, key="u3", content=content)
            assert bad.status_code == 400


async def test_a_deleted_instance_loses_its_token_and_requests(
    provider: Provider, harness: Harness
) -> None:
    """Its token ends, its requests are cancelled without notification, and it is not made again."""
    token = await provider.provisioner()
    body = json.dumps({"delivery": harness.delivery()})
    made = (await provider.raw("POST", "/instances", token, key="p", content=body)).json()
    path = f"/instances/{made['instance']['id']}"
    client = provider.client_of(made["credential"]["token"])
    waits = await client.create(CALL, "k1")
    decided = await client.create(CALL, "k2")
    await provider.decide(decided.id)
    for _ in range(2):
        assert (await provider.raw("DELETE", path, token)).status_code == 204
    await provider.notify()
    assert len(harness.posted) == 1
    assert (await provider.approval(waits.id)).state.value == "withdrawn"
    assert (await provider.approval(decided.id)).state.value == "approved"
    with pytest.raises(Exception, match="refused the instance credential"):
        await client.get(waits.id)
    assert (await provider.raw("GET", path, token)).status_code == 404
    again = await provider.raw("POST", "/instances", token, key="p", content=body)
    assert again.json()["error"]["code"] == "instance_deleted"
    assert (await provider.raw("DELETE", f"/instances/{uuid.uuid4()}", token)).status_code == 404


@pytest.mark.parametrize("kind", ["approval", "run"])
async def test_an_unreadable_request_keeps_no_other_from_being_cancelled(
    provider: Provider, kind: str
) -> None:
    """The others are withdrawn, it is reported, and the stage withdraws it once it can be read."""
    token, ledger = await provider.provisioner(), provider.decider.ledger
    made = (await provider.raw("POST", "/instances", token, key="p", content="{}")).json()
    path = f"/instances/{made['instance']['id']}"
    client = provider.client_of(made["credential"]["token"])
    found = [await provider.approval((await client.create(CALL, key)).id) for key in ("a", "b")]
    broken, waits = sorted(found, key=lambda one: one.origin.run)  # as they are read
    record = f"run:{broken.origin.run}" if kind == "run" else f"approval:{broken.id}"
    version, text = present(await ledger.raw(record))
    await ledger.commit(Change().put_raw(record, '{"needs": 999}', was=version))
    assert (await provider.raw("DELETE", path, token)).status_code == 500
    assert (await ledger.approval(waits.id)).state.value == "withdrawn"
    await provider.notify()
    assert await ledger.store.sizes([f"outbox:{stages.AAP}"]) == [1]
    version, _ = present(await ledger.raw(record))
    await ledger.commit(Change().put_raw(record, text, was=version))
    assert (await provider.raw("DELETE", path, token)).status_code == 204
    assert (await ledger.approval(broken.id)).state.value == "withdrawn"


async def test_an_unreadable_approval_keeps_no_other_of_its_run_from_being_cancelled(
    provider: Provider,
) -> None:
    """A run may wait for several approvals, such as the inputs of a call."""
    token, ledger = await provider.provisioner(), provider.decider.ledger
    made = (await provider.raw("POST", "/instances", token, key="p", content="{}")).json()
    client = provider.client_of(made["credential"]["token"])
    first, second = [
        await provider.approval((await client.create(CALL, key)).id) for key in ("a", "b")
    ]
    run = await ledger.run(first.origin.run)
    both = run.model_copy(update={"approvals": (first.id, second.id)})
    await ledger.commit(Change().put(both, was=run))
    other = await ledger.run(second.origin.run)
    ended = other.model_copy(update={"approvals": ()})
    await ledger.commit(Change().put(ended, was=other))
    record = f"approval:{first.id}"
    version, _ = present(await ledger.raw(record))
    await ledger.commit(Change().put_raw(record, '{"needs": 999}', was=version))
    path = f"/instances/{made['instance']['id']}"
    assert (await provider.raw("DELETE", path, token)).status_code == 500
    assert (await ledger.approval(second.id)).state.value == "withdrawn"


async def test_a_notification_is_tried_for_a_week(
    still_provider: Provider, clock: VirtualClock, harness: Harness
) -> None:
    """It keeps its id and body, waits as the receiver asks, and is finally reported as given up."""
    provider = still_provider
    token = await provider.provisioner()
    body = json.dumps({"delivery": harness.delivery()})
    made = (await provider.raw("POST", "/instances", token, key="p", content=body)).json()
    request = await provider.client_of(made["credential"]["token"]).create(CALL, "k1")
    await provider.decide(request.id)
    harness.statuses, harness.headers = [503, 302, 500], {"Retry-After": "900"}
    ledger = provider.decider.ledger
    notifier = Notifier(provider.decider, provider.receivers)
    await notifier.drain()
    (item,) = await _waits(provider)
    assert 800_000 < item[1] - (await ledger.now()).timestamp() * 1000 < 901_000
    await _now(provider, item[0])
    await notifier.drain()
    assert harness.posted[1] == harness.posted[2]
    await _now(provider, item[0])
    clock.advance(timedelta(days=7, seconds=-1))
    await notifier.drain()
    assert len(harness.posted) == 4
    assert await _waits(provider) == []
    assert len(await ledger.store.keys(f"dead:{stages.AAP}:", "string")) == 1


async def _waits(provider: Provider) -> list[tuple[str, float]]:
    """Return the waiting work of the stage, with the times at which it may be claimed (ms)."""
    store = provider.decider.ledger.store
    async with store.translated_client() as client:
        found: list[tuple[str, float]] = await client.zrange(
            f"{store.prefix}outbox:{stages.AAP}", 0, -1, desc=False, withscores=True
        )
    return found


async def _now(provider: Provider, item: str) -> None:
    """Make work claimable now."""
    store = provider.decider.ledger.store
    async with store.translated_client() as client:
        await client.zadd(f"{store.prefix}outbox:{stages.AAP}", {item: 1})


@pytest.mark.parametrize("provider", [timedelta(0)], indirect=True)
async def test_a_call_not_reported_in_time_is_in_doubt(provider: Provider) -> None:
    """Its approvers are notified, and the program may still report it."""
    client = await provider.client()
    made = await client.create(CALL, "k1")
    await provider.decide(made.id)
    await client.consume(made.id, "c")
    await provider.notify()
    approval = await provider.approval(made.id)
    assert approval.handoff is Handoff.IN_DOUBT
    done = await client.report_outcome(made.id, "succeeded")
    assert present(done.consumption).outcome is not None


async def test_a_receiver_set_by_command_is_verified_before_notifications(
    provider: Provider, harness: Harness
) -> None:
    """It gets no notification before, and its first notification is not lost meanwhile."""
    ledger = provider.decider.ledger
    made, token = await instances.create(
        ledger, "codex", user="riley", by="test", receiver=harness.url
    )
    receiver = present(made.receiver)
    request = await provider.client_of(token).create(CALL, "k1")
    await provider.decide(request.id)
    await provider.notify()
    assert [json.loads(one)["type"] for one in harness.posted] == ["webhook.verification"]
    harness.receiver.secret = receiver.signing_secret
    harness.receiver.registration_id = receiver.registration_id
    ((item, _),) = await _waits(provider)
    await _now(provider, item)
    await provider.notify()
    assert json.loads(harness.posted[-1])["request_id"] == request.id
    assert present(present(await instances.load(ledger, made.id)).receiver).verified


async def test_an_instance_name_is_valid_and_unique(provider: Provider) -> None:
    """The command line allows only names that policies can use."""
    await provider.instance("codex")
    for name in ("codex", "two words", "", "9lives"):
        with pytest.raises(ConfigError):
            await provider.instance(name)
    with pytest.raises(ConfigError, match="There is no instance"):
        await instances.by_name(provider.decider.ledger, "nobody")


async def test_a_provisioner_creates_instances_only_for_its_apps(provider: Provider) -> None:
    """An instance cannot use the name of an agent that its provisioner may not use."""
    token = await provider.provisioner(users=("riley",), apps=("codex",))
    other = json.dumps({"instance_name": "finance"})
    refused = await provider.raw("POST", "/instances", token, key="p1", content=other)
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "app_not_allowed")
    mine = json.dumps({"instance_name": "codex"})
    made = await provider.raw("POST", "/instances", token, key="p2", content=mine)
    assert made.status_code == 201


async def test_a_failed_verification_is_the_clients_own_error(
    provider: Provider, harness: Harness
) -> None:
    """The client raises its own class for it."""
    harness.statuses = [500]
    with pytest.raises(WebhookVerificationFailed):
        await harness.receiver.provision(
            provider_url=URL,
            provisioner_token=await provider.provisioner(),
            url=harness.url,
            http=provider.transport(),
        )


async def test_an_unreadable_instance_is_reported_without_its_secrets(provider: Provider) -> None:
    """The error has the key of the record, and no part of its content."""
    ledger = provider.decider.ledger
    receiver = '{"url": 1, "signing_secret": "whsec_x"}'
    await ledger.commit(Change().put_raw("instance:new", f'{{"receiver": {receiver}}}', was=0))
    for read in (instances.everyone(ledger), instances.load(ledger, "new")):
        with pytest.raises(RecordUnreadable, match=r"The record instance:new cannot") as refused:
            await read
        assert "whsec_x" not in str(refused.value)
