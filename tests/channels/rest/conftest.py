"""The API on a gateway, and tokens of people and systems."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
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
    transport: httpx.AsyncBaseTransport
    http: httpx.AsyncClient

    async def token(self, *, person: str = "", users: tuple[str, ...] = (), **more: Any) -> str:
        """Return a token for all scopes except administration, or for the given ones."""
        scopes = frozenset(more.pop("scopes", EVERYTHING if person else SYSTEM))
        return (
            await create(
                self.decider.ledger, scopes=scopes, by="test", person=person, users=users, **more
            )
        )[0]

    async def holder(self, **parts: Any) -> httpx.AsyncClient:
        """Return a client with a new token of a person."""
        return self.holding(await self.token(**parts))

    def holding(self, token: str) -> httpx.AsyncClient:
        """Return a client with this token."""
        return httpx.AsyncClient(
            transport=self.transport,
            base_url=self.http.base_url,
            headers={"Authorization": f"Bearer {token}"},
        )


Holder = Callable[..., Awaitable[httpx.AsyncClient]]


@asynccontextmanager
async def opened(decider: Decider, *, rate: int = 0) -> AsyncIterator[Office]:
    """Yield a gateway in this process, with a limit of requests a minute."""
    app = make_gateway(decider.ledger)
    app.mount(PATH, make_rest(decider, lambda name: name != "nothing", rate=rate))
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://gw{PATH}/") as http:
        yield Office(decider, transport, http)


@pytest.fixture
async def office(decider: Decider) -> AsyncIterator[Office]:
    """Return the gateway in this process."""
    async with opened(decider) as made:
        yield made


@pytest.fixture
async def still_office(still_decider: Decider) -> AsyncIterator[Office]:
    """Return the gateway on the virtual clock."""
    async with opened(still_decider) as made:
        yield made


@pytest.fixture
async def mara(office: Office) -> httpx.AsyncClient:
    """Return Mara, an approver."""
    return await office.holder(person="mara")


@pytest.fixture
async def riley(office: Office) -> httpx.AsyncClient:
    """Return Riley, the requester."""
    return await office.holder(person="riley")


@pytest.fixture
async def admin(office: Office) -> httpx.AsyncClient:
    """Return an administrator who is not in the directory."""
    return await office.holder(scopes={Scope.ADMIN})
