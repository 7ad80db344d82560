"""The page of an approval in a real browser: it updates while a person fills in the form."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from browser import totp_of
from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from channels.inbox.crowd import PLAIN
from chromium import Tab, chromium
from ports import free_port
from served import listening
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, page_of
from signoff.core.directory.people import Person
from signoff.core.policies.policy import GrantRules

TEMPLATE = {"days": 0, "note": "as asked", "sure": False, "from": "2026-11-21", "more": {"a": 1}}


@dataclass
class Decider:
    """An office with a served page, and a browser with scripts."""

    office: Any
    tab: Tab
    settings: InboxSettings

    async def sign_in(self, person: Person) -> None:
        """Sign a person in with a code."""
        factors = Factors(self.office.ledger, self.settings.secret_key)
        app = totp_of(await factors.enroll(person, by="test"))
        await self.tab.open(f"{self.settings.url}/inbox/sign-in")
        await self.tab.click("summary", "Other ways to sign in")
        await self.tab.write("#address", person.email)
        now = int((await self.office.ledger.now()).timestamp())
        await self.tab.write("#code", str(app.at(now)))
        await self.tab.enter()

    async def open(self, approval: Any) -> None:
        """Open the page of an approval."""
        await self.tab.open(f"{self.settings.url}{page_of(approval.id)}")


@pytest.fixture
async def seat(channels: Channels, tmp_path: Path) -> AsyncIterator[Decider]:
    """Return a decider at the page."""
    port = free_port()
    settings = InboxSettings(url=f"http://127.0.0.1:{port}", secret_key=SecretStr("k" * 32))
    rules = GrantRules(who=("mara",))
    channels.inbox, channels.policies = settings, (PLAIN.model_copy(update={"grants": rules}),)
    gateway = make_gateway(channels.ledger)
    gateway.include_router(make_inbox_router(channels.decider, settings))
    async with listening(gateway, port), chromium(tmp_path, scripts=True) as tab:
        yield Decider(channels, tab, settings)
        await tab.open("about:blank")


async def test_a_concurrent_decision_keeps_typed_text(seat: Decider) -> None:
    """The person reads who has decided; the typed text stays, and the buttons go."""
    approval, _ = await seat.office.ask(template=TEMPLATE, tool="request_time_off")
    await seat.sign_in(MARA)
    await seat.open(approval)
    await seat.tab.write("#field-0", "3")
    await seat.office.decider.reject(approval.id, CLEO, channel="email", reason="no room")

    await seat.tab.find("#news", "Cleo Park rejected request_time_off")
    await seat.tab.find("form .ended", "Your form can no longer be sent.")
    assert await seat.tab.look("document.getElementById('field-0').value") == "3"
    assert await seat.tab.look("document.querySelectorAll('[novalidate] button').length") == 0


async def test_a_page_that_is_only_read_follows(seat: Decider) -> None:
    """The requester's page changes from waiting to the outcome without a reload."""
    approval, _ = await seat.office.ask()
    await seat.sign_in(RILEY)
    await seat.open(approval)
    await seat.tab.find("p", "You requested this")
    await seat.office.decider.approve(approval.id, MARA, channel="email", reason="fine")
    await seat.tab.find("h1", "Mara Lind approved reimburse")


async def test_an_untouched_form_is_replaced_after_a_decision(seat: Decider) -> None:
    """If nothing was typed, the whole page is replaced."""
    approval, _ = await seat.office.ask()
    await seat.sign_in(MARA)
    await seat.open(approval)
    await seat.tab.find("button", "Approve exactly this")
    await seat.office.decider.reject(approval.id, CLEO, channel="email", reason="no room")
    await seat.tab.find("h1", "Cleo Park rejected reimburse")
    assert await seat.tab.look("document.querySelectorAll('form.sheet').length") == 0


async def test_shortcuts_move_the_focus_and_can_be_turned_off(seat: Decider) -> None:
    """Letters focus a row, Approve or the reason; no letter decides."""
    approval, _ = await seat.office.ask()
    await seat.sign_in(MARA)
    tab, focus = seat.tab, "document.activeElement.id || document.activeElement.textContent.trim()"
    await tab.find(".list a")
    await tab.key("j")
    assert await tab.look(focus) == f"open-{approval.id}"
    await seat.open(approval)
    await tab.find("button", "Approve exactly this")
    await tab.key("a")
    assert await tab.look(focus) == "Approve exactly this"
    await tab.key("r")
    assert await tab.look(focus) == "reason"
    await tab.look("document.activeElement.blur()")
    await tab.click("button", "Keyboard shortcuts")
    await tab.click("button", "Turn shortcuts off")
    await tab.look("document.activeElement.blur()")
    await tab.key("a")
    assert await tab.look(focus) != "Approve exactly this"
    assert not (await seat.office.ledger.approval(approval.id)).decision
