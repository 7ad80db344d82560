"""An office whose page notifies browsers, and a push service on this machine."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass

import httpx
import pytest
from pydantic import SecretStr

from browser import COOKIE, ORIGIN, SETTINGS, Browser, forms_of, totp_of
from builders import MARA
from channels.conftest import Channels
from channels.push.device import Device, PushService
from ports import free_port
from served import listening
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, PushSettings
from signoff.channels.inbox.subscriptions import subscribed
from signoff.channels.inbox.vapid import public_key
from signoff.channels.pipeline.bundles import BundleRule
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.push.sender import PushSender
from signoff.core.directory.people import Person

PUSH = PushSettings(
    private_key=SecretStr(base64.b64encode(b"\x07" * 32).decode()),
    contact="mailto:ops@example.com",
    allow_private=True,
)
OURS = public_key(PUSH)
PAGE = SETTINGS.model_copy(update={"push": PUSH.model_copy(update={"private_key": SecretStr("")})})
"""The page's settings, without the private key."""


@dataclass
class Notified:
    """The stages of the channels, the page, and the stage that sends notifications."""

    channels: Channels
    sender: PushSender
    browser: Browser
    bundling: BundleRule | None = None

    async def deliver(self) -> None:
        """Deliver waiting messages and send their notifications."""
        people = self.channels
        delivery = Delivery(
            people.ledger,
            people.channel,
            directory=people.directory,
            inbox=people.inbox,
            roster=people.decider.roster,
            bundling=self.bundling,
            subscribed=lambda ids: subscribed(people.ledger, ids),
        )
        await people.router.drain()
        await delivery.drain()
        await self.sender.drain()

    async def sign_in(self, person: Person = MARA) -> None:
        """Sign somebody in."""
        if person.id not in self.browser.apps:
            factors = Factors(self.channels.ledger, PAGE.secret_key)
            self.browser.apps[person.id] = totp_of(await factors.enroll(person, by="test"))
        await self.browser.sign_in(person)

    async def turn_on(self, device: Device, *, again: bool = False) -> httpx.Response:
        """Turn notifications on in a browser of the signed-in person, the same one or another."""
        if not again:
            self.browser.http.cookies.delete(f"{COOKIE}-push")
        page = await self.browser.get("/inbox/notifications")
        form = forms_of(page)["/inbox/notifications/on"]
        return await self.browser.post("/inbox/notifications/on", form | device.form)


@pytest.fixture
async def service() -> AsyncIterator[PushService]:
    """Return a running push service."""
    made = PushService(free_port())
    async with listening(made.app, made.port, "127.0.0.1"):
        yield made


@pytest.fixture
async def office(still_channels: Channels) -> AsyncIterator[Notified]:
    """Return the office with Mara signed in."""
    still_channels.inbox = page = InboxSettings.model_validate(PAGE)
    app = make_gateway(still_channels.ledger)
    app.include_router(make_inbox_router(still_channels.decider, page))
    sender = PushSender(still_channels.decider, page, PUSH)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as http:
        await sender.announce()
        made = Notified(still_channels, sender, Browser(http, {}, still_channels.ledger))
        await made.sign_in()
        yield made
    await sender.close()
