"""The API on a gateway, and people and systems with tokens for it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from builders import OF_PEOPLE
from deciding import Decider
from signoff.broker.api_tokens import create
from signoff.channels.gateway import make_gateway
from signoff.channels.rest.app import PATH, make_rest
from signoff.core.access.api_tokens import Scope

EVERYTHING = OF_PEOPLE
SYSTEM = EVERYTHING - {Scope.APPROVALS_DECIDE}


@dataclass
class Office:
    """A gateway with the API, and its decisions."""

    decider: Decider
    http: httpx.AsyncClient

    async def token(self, *, person: str = "", users: tuple[str, ...] = (), **more: Any) -> str:
        """Return a token that is good for all but administration, unless it says for what."""
        scopes = frozenset(more.pop("scopes", EVERYTHING if person else SYSTEM))
        return (
            await create(
                self.decider.ledger, scopes=scopes, by="test", person=person, users=users, **more
            )
        )[0]

    async def holder(self, **parts: Any) -> httpx.AsyncClient:
        """Return a client of somebody who has such a token."""
        return self.holding(await self.token(**parts))

    def holding(self, token: str) -> httpx.AsyncClient:
        """Return a client that sends this token."""
        return httpx.AsyncClient(
            transport=self.http._transport,
            base_url=self.http.base_url,
            headers={"Authorization": f"Bearer {token}"},
        )


Holder = Callable[..., Awaitable[httpx.AsyncClient]]


@pytest.fixture
async def office(decider: Decider) -> AsyncIterator[Office]:
    """The gateway, in this process."""
    app = make_gateway(decider.ledger)
    app.mount(PATH, make_rest(decider, lambda name: name != "nothing"))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://gw{PATH}/") as http:
        yield Office(decider, http)


@pytest.fixture
async def mara(office: Office) -> httpx.AsyncClient:
    """Mara, who approves."""
    return await office.holder(person="mara")


@pytest.fixture
async def riley(office: Office) -> httpx.AsyncClient:
    """Riley, who asks."""
    return await office.holder(person="riley")


@pytest.fixture
async def admin(office: Office) -> httpx.AsyncClient:
    """An administrator, who is nobody of the directory."""
    return await office.holder(scopes={Scope.ADMIN})
