"""Open pages in a real browser: htmx updates them without disturbing a person who types."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pydantic import SecretStr

from builders import MARA, paused, present
from chromium import Tab, chromium
from deciding import Decider
from ports import free_port
from served import listening
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.directory.people import Directory

pytestmark = pytest.mark.soak

ERRORS = "window.errors = []; addEventListener('error', (e) => errors.push(e.message));"


@dataclass
class Inbox:
    """A gateway on a port, and a browser with Mara signed in."""

    ledger: Ledger
    decider: Decider
    tab: Tab
    url: str

    async def asked(self) -> Approval:
        """Ask Mara about a request that her policy calls harmless."""
        _, (approval,) = await paused(self.ledger)
        terms = present(approval.terms).model_copy(update={"batch": True})
        await self.ledger.commit(
            Change().put(approval.model_copy(update={"terms": terms}), was=approval)
        )
        return approval


@pytest.fixture
async def inbox(ledger: Ledger, directory: Directory, tmp_path: Path) -> AsyncIterator[Inbox]:
    """Return an inbox on an empty ledger."""
    port = free_port()
    settings = InboxSettings(url=f"http://127.0.0.1:{port}", secret_key=SecretStr("k" * 32))
    decider = Decider(ledger, directory)
    gateway = make_gateway(ledger)
    gateway.include_router(make_inbox_router(decider, settings))
    name = await Sessions(ledger, settings).begin(MARA.id, how=How.LOCAL, also=Change())
    async with listening(gateway, port), chromium(tmp_path, scripts=True) as tab:
        cookie = {"name": "signoff", "value": name, "domain": "127.0.0.1", "path": "/"}
        await tab.do("Network.setCookie", **cookie)
        await tab.do("Page.addScriptToEvaluateOnNewDocument", source=ERRORS)
        yield Inbox(ledger, decider, tab, f"{settings.url}/inbox/")
        assert await tab.look("window.errors") == []


async def test_a_list_is_brought_up_to_date(inbox: Inbox) -> None:
    """New requests appear and decided ones go, and the focus stays."""
    tab = inbox.tab
    await tab.open(inbox.url)
    assert "No requests for you." in await tab.text()
    first = await inbox.asked()
    await tab.find(f"#open-{first.id}")
    await tab.find("#news", "1 pending for you.")
    await tab.look(f"document.getElementById('open-{first.id}').focus()")
    second = await inbox.asked()
    await tab.find(f"#open-{second.id}")
    assert await tab.look("document.activeElement.id") == f"open-{first.id}"
    await inbox.decider.approve(second.id, MARA, channel="email")
    await tab.find("#news", "1 pending for you.")
    assert second.id not in await tab.look("document.getElementById('list').innerHTML")


async def test_boxes_that_are_ticked_stay(inbox: Inbox) -> None:
    """While a person selects, the list stays and announces new requests."""
    tab, first = inbox.tab, await inbox.asked()
    await tab.open(inbox.url)
    await tab.click(f"#pick-{first.id}")
    second = await inbox.asked()
    await tab.find("#news", "Something has changed here since you began.")
    assert await tab.look(f"document.getElementById('pick-{first.id}').checked")
    assert second.id not in await tab.look("document.getElementById('list').innerHTML")
    await tab.click("#batch button")
    await tab.find("h1", "Approve 1 together")
    await tab.click("button.yes")
    await tab.find("h1", "1 of 1 recorded")
    assert (await inbox.ledger.approval(first.id)).decision is not None


@pytest.mark.parametrize("of_one", [False, True])
async def test_signed_out_page_keeps_its_content_and_gets_no_updates(
    inbox: Inbox, *, of_one: bool
) -> None:
    """Their screen keeps its content, and no more updates come."""
    tab, first = inbox.tab, await inbox.asked()
    await tab.open(inbox.url + (f"approvals/{first.id}" if of_one else ""))
    await inbox.decider.made(first.id, moves.Comment(text="Which team?"), MARA)
    await tab.find("#news:not(:empty)")
    await tab.do("Network.clearBrowserCookies")
    await inbox.decider.approve(first.id, MARA, channel="email")
    await tab.find("#news", "You are signed out.")
    assert first.id in await tab.look("document.getElementById('main').innerHTML")
    assert "reimburse" in await tab.text()


async def test_automatic_requests_of_a_page_do_not_extend_the_session(inbox: Inbox) -> None:
    """Each part of a page marks its automatic requests; only a person's requests count as use."""
    used: list[bool] = []
    sessions = Sessions.find

    async def find(self: Sessions, name: str, **how: bool) -> object:
        used.append(how.get("used", True))
        return await sessions(self, name, **how)

    first = await inbox.asked()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Sessions, "find", find)
        await inbox.tab.open(inbox.url)
        second = await inbox.asked()
        await inbox.tab.find(f"#open-{second.id}")
        assert used[0]
        assert not any(used[1:])
        used.clear()
        await inbox.tab.open(inbox.url + f"approvals/{first.id}")
        await inbox.decider.approve(first.id, MARA, channel="email")
        await inbox.tab.find("h1", "Recorded: you approved")
        assert used[0]
        assert not any(used[1:])
