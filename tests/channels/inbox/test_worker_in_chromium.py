"""The service worker in a real browser: notifications, and the page without a connection.

A headless Chromium has no push service: its DevTools deliver the messages.
"""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pydantic import SecretStr

from builders import MARA
from channels.conftest import Channels
from channels.inbox.test_in_chromium import AXE, OVERFLOWS, Desktop, decider_with
from chromium import chromium
from npm import packages
from ports import free_port
from served import listening
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, PushSettings, page_of
from signoff.channels.inbox.subscriptions import publish_key, subscriptions_of
from signoff.channels.inbox.vapid import public_key
from signoff.core.approvals.approval import State

PUSH = PushSettings(
    private_key=SecretStr(base64.b64encode(b"\x07" * 32).decode()),
    contact="mailto:ops@example.com",
    allow_private=True,
)
OURS = public_key(PUSH)
SHAPES = ((360, False), (360, True), (1280, False), (1280, True))
READY = """navigator.serviceWorker.ready.then(({active}) => new Promise((done) => {
  const look = () => active.state === "activated" && done(true);
  active.addEventListener("statechange", look);
  look();
}))"""
"""True once the worker accepts messages: they are lost while it activates."""

SHOWN = """navigator.serviceWorker.ready.then(one => one.getNotifications()).then(
  all => JSON.stringify(all.map(one => [one.title, one.body, one.tag, one.data.path])))"""
COMES = """new Promise((done) => {
  let left = 30;
  const look = async () => {
    const found = (await SHOWN).includes(WANTED);
    if (found || !left--) done(found);
    else setTimeout(look, 100);
  };
  look();
})"""
SUBSCRIBED = """
PushManager.prototype.getSubscription = async () => null;
PushManager.prototype.subscribe = async (options) => ({
  endpoint: "http://127.0.0.1:9/laptop",
  getKey: (name) => Uint8Array.from(atob(name === "auth" ? AUTH : KEY), (one) => one.charCodeAt(0)),
});
"""

STYLED = "getComputedStyle(document.querySelector('.outcome')).borderLeftWidth"
REFUSED = """
PushManager.prototype.subscribe = async () => { throw new DOMException("", "AbortError"); };
"""

pytestmark = pytest.mark.soak


async def push(desktop: Desktop, text: str, wanted: str) -> None:
    """Deliver a message to the service worker as a push service does, until it is shown.

    Chromium drops a message of its DevTools while a permission takes effect.
    """
    tab = desktop.tab
    await tab.do("ServiceWorker.enable")
    assert await tab.look(READY)
    known = tab.news("ServiceWorker.workerRegistrationUpdated")
    (registration, *_) = [one for part in known for one in part["registrations"]]
    for _ in range(20):
        await tab.do(
            "ServiceWorker.deliverPushMessage",
            origin=desktop.url,
            registrationId=registration["registrationId"],
            data=text,
        )
        if await tab.look(COMES.replace("SHOWN", SHOWN).replace("WANTED", json.dumps(wanted))):
            return
    raise AssertionError(f"{wanted!r} is not shown: {await tab.look(SHOWN)}")


async def test_a_message_is_shown(channels: Channels, tmp_path: Path) -> None:
    """It replaces an earlier one with the same tag; invalid data shows a default message."""
    async with decider_with(channels, tmp_path, push=PUSH) as desktop:
        tab = desktop.tab
        await tab.do("Browser.grantPermissions", permissions=["notifications"], origin=desktop.url)
        await desktop.sign_in("/inbox/notifications")
        await tab.find("h1", "Notifications")
        told = {"title": "Reimburse Bern", "text": "2,500.00 EUR", "path": "/inbox/x", "tag": "a"}
        await push(desktop, json.dumps(told), "Bern")
        again = told | {"title": "Reminder: Reimburse Bern", "again": True}
        await push(desktop, json.dumps(again), "Reminder")
        assert json.loads(await tab.look(SHOWN)) == [
            ["Reminder: Reimburse Bern", "2,500.00 EUR", "a", "/inbox/x"]
        ]
        await push(desktop, "junk", "A request waits")


async def test_a_browser_is_turned_on_and_off(channels: Channels, tmp_path: Path) -> None:
    """The button subscribes and sends the form; without a push service, the page says so."""
    async with decider_with(channels, tmp_path, push=PUSH) as desktop:
        tab, ledger = desktop.tab, channels.ledger
        await publish_key(ledger, OURS)
        await tab.do("Browser.grantPermissions", permissions=["notifications"], origin=desktop.url)
        await desktop.sign_in("/inbox/notifications")
        await tab.find("h1", "Notifications")
        await tab.look(REFUSED)
        await tab.click("button", "Notify this browser")
        await tab.find("#notify-says", "The push service of this browser cannot be reached.")
        key = base64.b64encode(_point()).decode()
        auth = base64.b64encode(b"0123456789abcdef").decode()
        await tab.look(SUBSCRIBED.replace("AUTH", json.dumps(auth)).replace("KEY", json.dumps(key)))
        await tab.click("button", "Notify this browser")
        await tab.find(".list", "Chrome on Linux")
        (one,) = await subscriptions_of(ledger, MARA, OURS)
        assert one.endpoint == "http://127.0.0.1:9/laptop"
        await tab.click("button", "Turn off")
        await tab.find(".nothing", "No browser of yours is notified.")
        assert await subscriptions_of(ledger, MARA, OURS) == []


async def test_the_page_reports_a_lost_connection(channels: Channels, tmp_path: Path) -> None:
    """This also holds for a sent form; when the connection is back, the pages return."""
    port = free_port()
    url = f"http://localhost:{port}"
    settings = InboxSettings(url=url, secret_key=SecretStr("k" * 32))
    gateway = make_gateway(channels.ledger)
    gateway.include_router(make_inbox_router(channels.decider, settings))
    approval, _ = await channels.ask()
    here = url + page_of(approval.id)
    async with chromium(tmp_path, scripts=True) as tab:
        async with listening(gateway, port, "localhost"):
            path, _ = await make_link(channels.ledger, MARA.id, how=How.LOCAL, to="/inbox/")
            await tab.open(url + path)
            await tab.click("button", "Sign in")
            await tab.find("h1", "Your approvals")
            assert await tab.look(READY)
            # The worker does not control the first page.
            await tab.open(here)
            await tab.find("button", "Reject")
        await tab.click("button", "Reject")
        await tab.find("h1", "Not connected")
        assert "it may not have arrived" in await tab.text()
        assert await tab.look(STYLED) == "6px"
        axe = (packages(AXE) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
        for width, dark in SHAPES:
            await tab.shape(width, 740, dark=dark)
            await tab.look(axe)
            assert (await tab.look("axe.run()"))["violations"] == []
            assert not await tab.look(OVERFLOWS)
        assert (await channels.ledger.approval(approval.id)).state is State.PENDING
        async with listening(gateway, port, "localhost"):
            await tab.open(here)
            await tab.find("button", "Reject")


def _point() -> bytes:
    public = ec.derive_private_key(5, ec.SECP256R1()).public_key()
    return public.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
