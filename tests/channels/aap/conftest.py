"""A gateway that serves the Agent Approval Protocol, and instances that send requests to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from agentapprovalprotocol import AsyncClient
from pydantic import JsonValue

from builders import CLEO, MARA
from deciding import Decider
from signoff.broker.api_tokens import create as create_token
from signoff.channels.aap import instances
from signoff.channels.aap.app import PATH, make_aap
from signoff.channels.aap.instances import Instance
from signoff.channels.aap.notifications import Notifier, Receivers
from signoff.channels.aap.requests import Requests
from signoff.channels.gateway import make_gateway
from signoff.channels.pipeline.route import Router
from signoff.core.access.scopes import Scope
from signoff.core.approvals.approval import Approval
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import VirtualClock

URL = f"http://localhost{PATH}"
VALID_FOR = timedelta(minutes=5)
POLICIES = tuple(
    Policy.model_validate(one)
    for one in (
        {"name": "reads", "when": "tool.startsWith('read_')", "effect": "allow", "at_most": "20/h"},
        {
            "name": "drops",
            "when": "tool.startsWith('drop_')",
            "effect": "deny",
            "reason": "nobody drops tables",
        },
        {"name": "refunds", "when": "tool == 'refund'", "ask": ["mara"]},
    )
)
CALL: Mapping[str, JsonValue] = {
    "tool": "refund",
    "arguments": {"amount": 4900, "currency": "EUR"},
    "timeout": "30m",
}


@dataclass
class Provider:
    """The gateway and its decisions."""

    decider: Decider
    router: Router
    requests: Requests
    receivers: Receivers
    local: httpx.AsyncBaseTransport
    http: httpx.AsyncClient
    made: list[httpx.AsyncClient] = field(default_factory=list)

    async def instance(self, name: str = "codex", user: str = "riley") -> tuple[Instance, str]:
        """Make an instance of Riley's; return it and its token."""
        return await instances.create(self.decider.ledger, name, user=user, by="test")

    async def client(self, name: str = "codex") -> AsyncClient:
        """Return the protocol's own client, with the credential of a new instance."""
        return self.client_of((await self.instance(name))[1])

    def client_of(self, token: str) -> AsyncClient:
        """Return the protocol's own client."""
        return AsyncClient(URL, token, http=self.transport(), retry_budget=2)

    def transport(self) -> httpx.AsyncClient:
        """Return a client that reaches the gateway."""
        return httpx.AsyncClient(transport=self.local, base_url=URL)

    async def raw(self, method: str, path: str, token: str, **more: Any) -> httpx.Response:
        """Send a request unchanged; `key` is its idempotency key."""
        headers = {"Authorization": f"Bearer {token}", **more.pop("headers", {})}
        if key := more.pop("key", ""):
            headers["Idempotency-Key"] = key
        if "content" in more:
            headers.setdefault("Content-Type", "application/json")
        return await self.http.request(method, f"{URL}/v1{path}", headers=headers, **more)

    async def provisioner(self, **more: Any) -> str:
        """Return a provisioner token of Riley's."""
        scopes = frozenset({Scope.INSTANCES_MANAGE})
        usual: dict[str, Any] = {"person": "" if "users" in more else "riley"}
        return (
            await create_token(self.decider.ledger, scopes=scopes, by="test", **(usual | more))
        )[0]

    async def approval(self, request: str) -> Approval:
        """Return the approval of a request."""
        pending = await self.decider.ledger.store.members("approvals")
        found = await self.decider.ledger.approvals(pending)
        return next(one for one in found if one.origin.confirmation == request)

    async def decide(self, request: str, status: str = "approved", note: str = "") -> None:
        """Ask Mara unless people are asked already, and let her decide."""
        await self.router.drain()
        approval = await self.approval(request)
        move = self.decider.approve if status == "approved" else self.decider.reject
        await move(approval.id, MARA, channel="inbox", reason=note)

    async def notify(self) -> int:
        """Do the waiting work of the stage `aap`."""
        return await Notifier(self.decider, self.receivers).drain()


@asynccontextmanager
async def opened(
    decider: Decider, *, report_within: timedelta = timedelta(hours=1)
) -> AsyncIterator[Provider]:
    """Yield the gateway in this process; its default approver is Cleo."""
    router = Router(
        decider.ledger,
        policies=POLICIES,
        fallback=Fallback(ask=(CLEO.id,)),
        directory=decider.directory,
    )
    requests = Requests(
        decider,
        router.decide_unasked,
        router.hides,
        valid_for=VALID_FOR,
        report_within=report_within,
    )
    receivers = Receivers(allow_private=True)
    app = make_gateway(decider.ledger)
    app.mount(PATH, make_aap(decider, requests, receivers, rate=0))
    local = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=local, base_url=URL) as http:
        yield Provider(decider, router, requests, receivers, local, http)
    requests.waiting.close()
    await receivers.close()


@pytest.fixture
async def still_provider(still_decider: Decider, clock: VirtualClock) -> AsyncIterator[Provider]:
    """Return the gateway on the virtual clock, set to the present that receivers compare with."""
    clock.advance(datetime.now(UTC) - clock.now())
    async with opened(still_decider) as made:
        yield made


@pytest.fixture
async def provider(decider: Decider, request: pytest.FixtureRequest) -> AsyncIterator[Provider]:
    """Return the gateway; a parameter is the time in which a started call must be reported."""
    within = getattr(request, "param", timedelta(hours=1))
    async with opened(decider, report_within=within) as made:
        yield made
