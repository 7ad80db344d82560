"""An office whose policy wants a second step, and people who have an authenticator app."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pyotp
import pytest

from browser import ORIGIN, SETTINGS, TWO_STEPS, Browser
from builders import CLEO, MARA
from channels.conftest import Channels
from channels.inbox.crowd import CROWD, PLAIN
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.router import make_inbox_router
from signoff.core.approvals.approval import Approval
from signoff.core.directory.people import Directory


@pytest.fixture
def directory() -> Directory:
    """Return people with roles."""
    return Directory(CROWD)


@pytest.fixture
async def office(still_channels: Channels) -> Channels:
    """Return the stages on the virtual clock; the policy always needs a second step."""
    still_channels.policies, still_channels.inbox = (TWO_STEPS,), SETTINGS
    return still_channels


@pytest.fixture
async def asked(office: Channels) -> Approval:
    """Return an approval of Riley's that asks Mara and Cleo."""
    office.policies = (PLAIN,)
    return (await office.ask())[0]


@pytest.fixture
async def apps(office: Channels) -> dict[str, pyotp.OTP]:
    """The authenticator apps of Mara and Cleo."""
    factors = Factors(office.ledger, SETTINGS.secret_key)
    return {one.id: pyotp.parse_uri(await factors.enroll(one, by="test")) for one in (MARA, CLEO)}


@pytest.fixture
async def browser(office: Channels, apps: dict[str, pyotp.OTP]) -> AsyncIterator[Browser]:
    """Return a browser without a session."""
    app = make_gateway(office.ledger)
    app.include_router(make_inbox_router(office.decider, SETTINGS))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as http:
        yield Browser(http, apps, office.ledger)
