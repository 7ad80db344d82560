"""The gateway is killed around each step of a program's request: nothing is lost or runs twice."""

from __future__ import annotations

import asyncio
from email.message import EmailMessage
from pathlib import Path

import pytest
from agentapprovalprotocol import Allow, AsyncClient, AsyncGate, Call, ConflictError, Deny, Pending
from agentapprovalprotocol import Receiver as Webhooks
from agentapprovalprotocol._wire import Request
from aiohttp import web
from aiohttp.test_utils import TestServer

from ports import free_port
from promises.plant import Plant, plant
from signoff.broker.api_tokens import create as create_token
from signoff.broker.ledger import audit
from signoff.core.access.scopes import Scope

CALL = Call(key="run-1:call-1", tool="refund", arguments={"amount": 2500}, context={})
AAP = "[aap]\nenabled = true\nallow_private = true"


def client_of(here: Plant, token: str) -> AsyncClient:
    """Return a client that keeps working while the gateway restarts."""
    return AsyncClient(f"{_url(here)}/aap", token, retry_budget=120)


def _url(here: Plant) -> str:
    return f"http://localhost:{here.environment['SIGNOFF_GATEWAY__PORT']}"


async def _answered(here: Plant, text: str) -> None:
    """Answer the next card by mail."""

    def is_card(mail: EmailMessage) -> bool:
        return "+" in str(mail["Reply-To"])

    await here.answer(await here.mailbox.wait_for(is_card), text)


@pytest.mark.soak
@pytest.mark.promise
async def test_the_gateway_is_killed_at_every_step(tmp_path: Path) -> None:
    """Killed between request, decision, notification and start, the call still runs once."""
    async with plant(tmp_path, gateway=AAP) as here:
        here.environment["SIGNOFF_GATEWAY__PORT"] = str(free_port())
        await here.start("channels", "gateway")
        woken: asyncio.Queue[str] = asyncio.Queue()

        def resume(_: object, request: Request) -> None:
            woken.put_nowait(request.id)

        webhooks = Webhooks(resumers={"test": resume})
        receiver = await _served(webhooks)
        provisioner, _ = await create_token(
            here.parts.ledger,
            scopes=frozenset({Scope.INSTANCES_MANAGE}),
            by="test",
            users=("riley",),
        )
        made = await webhooks.provision(
            provider_url=f"{_url(here)}/aap",
            provisioner_token=provisioner,
            url=str(receiver.make_url("/events")),
        )
        client = client_of(here, made.token)
        if webhooks.client is not None:
            await webhooks.client.aclose()
        webhooks.client = client
        gate = AsyncGate(client, mode="async", timeout="1h")
        call = Call(
            key=CALL.key, tool="refund", arguments=CALL.arguments, resume={"framework": "test"}
        )
        pending = await gate.check(call)
        assert isinstance(pending, Pending)
        poll = asyncio.create_task(client.get(pending.request_id, wait=25))
        await here.kill("gateway")
        assert (await poll).status == "pending"
        await asyncio.gather(here.kill("gateway"), here.kill("channels"))
        await _answered(here, "approve")
        await here.kill("gateway")
        assert await asyncio.wait_for(woken.get(), 300) == pending.request_id
        verdicts = asyncio.gather(*(gate.check(call) for _ in range(10)))
        await here.kill("gateway")
        found = await verdicts
        assert sum(isinstance(one, Allow) for one in found) <= 1
        allowed = next((one for one in found if isinstance(one, Allow)), None)
        if allowed is not None:
            await here.kill("gateway")
            assert await allowed.report("succeeded")
        assert isinstance(await gate.check(call), Deny)
        with pytest.raises(ConflictError):
            await client.consume(pending.request_id, "another")
        store = here.parts.ledger.store
        (approval,) = await here.parts.ledger.approvals(await store.members("approvals"))
        assert approval.starts == 1
        await audit.verify(store)
        assert await store.keys("dead:", "string") == []
        await client.aclose()
        await receiver.close()


async def _served(webhooks: Webhooks) -> TestServer:
    """Serve a receiver on this machine."""

    async def take(request: web.Request) -> web.Response:
        status, body = await webhooks.handle(dict(request.headers), await request.read())
        return web.Response(status=status, body=body)

    app = web.Application()
    app.router.add_post("/events", take)
    server = TestServer(app)
    await server.start_server()
    return server
