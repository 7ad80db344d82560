"""Signing in with a real browser, whose authenticator is virtual and whose ceremonies are not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from pydantic import SecretStr

from builders import MARA
from chromium import Tab, chromium
from signoff.broker.embedded import free_port
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.keys import invite, passkeys_of
from signoff.channels.inbox.links import make_link
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.sessions import How
from signoff.channels.inbox.settings import InboxSettings, page_of
from signoff.cli.http import Server
from signoff.core.approval import State
from visitor import TWO_STEPS

_DEVICE = {
    "protocol": "ctap2",
    "transport": "internal",
    "hasResidentKey": True,
    "hasUserVerification": True,
    "isUserVerified": True,
    "automaticPresenceSimulation": True,
}


@dataclass
class Desktop:
    """A browser with an authenticator, and the page that it looks at."""

    office: Any
    url: str
    tab: Tab
    device: str

    async def sign_in(self, to: str) -> None:
        """Sign in as Mara by a link, without any second factor."""
        path, _ = await make_link(self.office.ledger, MARA.id, how=How.LOCAL, to=to)
        await self.tab.open(self.url + path)
        await self.tab.click("button", "Sign in")

    async def verifies(self, yes: bool) -> None:
        """Let the user give the right finger, or the wrong one."""
        await self.tab.do(
            "WebAuthn.setUserVerified", authenticatorId=self.device, isUserVerified=yes
        )


@pytest.fixture
async def desktop(channels, tmp_path: Path) -> AsyncIterator[Desktop]:
    """A gateway that listens on a name, and a browser whose pages may run scripts."""
    port = free_port()
    settings = InboxSettings(url=f"http://localhost:{port}", secret_key=SecretStr("k" * 32))
    channels.policies, channels.inbox = (TWO_STEPS,), settings
    gateway = make_gateway(channels.ledger)
    gateway.include_router(make_inbox_router(channels.desk, settings))
    listening = asyncio.Event()
    config = uvicorn.Config(gateway, host="localhost", port=port, log_config=None, lifespan="off")
    server = Server(config, lambda _: listening.set())
    serving = asyncio.create_task(server._serve())
    async with chromium(tmp_path, scripts=True) as tab:
        await listening.wait()
        await tab.do("WebAuthn.enable")
        made = await tab.do("WebAuthn.addVirtualAuthenticator", options=_DEVICE)
        yield Desktop(channels, settings.url, tab, made["authenticatorId"])
    server.should_exit = True
    await serving


async def test_a_passkey_from_the_invitation_to_the_decision(desktop: Desktop) -> None:
    """An operator's code adds it; it signs in without an address, and confirms what takes two."""
    tab, ledger = desktop.tab, desktop.office.ledger
    await desktop.sign_in("/inbox/security")
    await tab.find("h1", "Security")

    await desktop.verifies(False)
    await tab.write("#invitation", await invite(ledger, MARA.id, by="op"))
    await tab.click("button", "Add a passkey")
    await tab.find(".passkey-says", "No passkey was given")
    assert await passkeys_of(ledger, MARA.id) == []

    await desktop.verifies(True)
    await tab.write("#name", "This laptop")
    await tab.click("button", "Add a passkey")
    await tab.find(".list", "This laptop")
    (one,) = await passkeys_of(ledger, MARA.id)
    assert one.transports == ("internal",)

    await tab.click("button", "Sign out")
    await tab.click("button", "Sign in with a passkey")
    await tab.find("header .who", MARA.name)

    # A session that has proven nothing yet, and a yes that takes two steps.
    approval, _ = await desktop.office.ask()
    await desktop.office.desk.approve(approval.id, MARA, channel="email")
    await tab.click("button", "Sign out")
    await tab.find("h1", "Sign in")
    path = page_of(approval.id)
    await desktop.sign_in(path)
    await tab.click("button", "Use a passkey")
    await tab.find(".note", "Confirmed with your passkey")
    await tab.click("button.yes", "Approve exactly this")
    await tab.find("h1", "Recorded")
    after = await ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert (await desktop.office.events(approval))[-1].more["second_factor"] == "passkey"
    (one,) = await passkeys_of(ledger, MARA.id)
    assert one.count > 1
