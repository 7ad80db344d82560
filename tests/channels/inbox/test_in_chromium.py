"""Sign-in in a real browser, with a virtual authenticator and real ceremonies."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from browser import TWO_STEPS
from builders import MARA, present
from channels.conftest import Channels, SinkFactory
from channels.inbox.crowd import PLAIN
from chromium import Tab, chromium
from npm import packages
from ports import free_port
from served import listening
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.link_mails import LinkMails
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.oidc import CALLBACK
from signoff.channels.inbox.auth.passkey_store import invite, passkeys_of
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, OidcSettings, page_of
from signoff.core.approvals.approval import State

AXE = b'{"dependencies": {"axe-core": "4.14.1"}}'
OVERFLOWS = "document.documentElement.scrollWidth > document.documentElement.clientWidth"
_SUBMITS = """
(() => {{
  const form = document.querySelector("{form}");
  let sent = 0;
  window.addEventListener("submit", (event) => {{
    sent += !event.defaultPrevented;
    event.preventDefault();
  }});
  form.requestSubmit();
  form.requestSubmit();
  return sent;
}})()"""
"""Submits a form twice, and returns how often a browser would send it."""

_COVERED = """
(() => {
  const one = document.activeElement, box = one.getBoundingClientRect(), bar = document
    .querySelector("#answer-end");
  const over = bar.getBoundingClientRect();
  const fixed = getComputedStyle(bar).position === "fixed" && !bar.contains(one);
  return one !== document.body && fixed && box.bottom > over.top ? one.outerHTML : "";
})()"""
"""The focused control if the bar with the answers, which stays in place on a phone, covers it."""

PROVIDER = b'{"dependencies": {"oidc-provider": "9.6.0"}}'
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
    """A browser with an authenticator, and the page that it shows."""

    office: Any
    url: str
    tab: Tab
    device: str

    async def sign_in(self, to: str) -> None:
        """Sign in as Mara by a link, without a second factor."""
        path, _ = await make_link(self.office.ledger, MARA.id, how=How.LOCAL, to=to)
        await self.tab.open(self.url + path)
        await self.tab.click("button", "Sign in")

    async def verifies(self, yes: bool) -> None:
        """Let the user's finger match or not."""
        await self.tab.do(
            "WebAuthn.setUserVerified", authenticatorId=self.device, isUserVerified=yes
        )


@asynccontextmanager
async def decider_with(office: Any, folder: Path, **more: Any) -> AsyncIterator[Desktop]:
    """A gateway with a host name, and a browser with scripts."""
    port = free_port()
    url = f"http://localhost:{port}"
    settings = InboxSettings(url=url, secret_key=SecretStr("k" * 32), **more)
    office.policies, office.inbox = (TWO_STEPS,), settings
    gateway = make_gateway(office.ledger)
    gateway.include_router(make_inbox_router(office.decider, settings))
    async with (
        listening(gateway, port, "localhost"),
        chromium(folder, scripts=True) as tab,
    ):
        await tab.do("WebAuthn.enable")
        made = await tab.do("WebAuthn.addVirtualAuthenticator", options=_DEVICE)
        yield Desktop(office, url, tab, made["authenticatorId"])


@pytest.fixture
async def desktop(channels: Channels, tmp_path: Path) -> AsyncIterator[Desktop]:
    """The usual settings."""
    async with decider_with(channels, tmp_path) as made:
        yield made


@pytest.fixture
async def company(tmp_path: Path) -> AsyncIterator[Callable[[str, int], Awaitable[None]]]:
    """Return a function that starts a certified provider, which redirects to an address."""
    modules = packages(PROVIDER)
    running: list[asyncio.subprocess.Process] = []

    async def start(back: str, port: int) -> None:
        script = Path(__file__).parents[2] / "provider.mjs"
        words = ("node", str(script), str(modules), str(port), back)
        process = await asyncio.create_subprocess_exec(
            *words, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
        )
        running.append(process)
        assert process.stdout is not None
        assert await process.stdout.readline() == b"listening\n"

    yield start
    for process in running:
        process.terminate()
        await process.wait()


async def test_a_passkey_from_the_invitation_to_the_decision(desktop: Desktop) -> None:
    """An operator's code adds it; it signs in without an address, and confirms a second step."""
    tab, ledger = desktop.tab, desktop.office.ledger
    await desktop.sign_in("/inbox/security")
    await tab.find("h1", "Security")

    await desktop.verifies(False)
    await tab.write("#invitation", await invite(ledger, MARA.id, by="op"))
    await tab.click("button", "Add a passkey")
    await tab.find(".passkey-says", "No passkey was given")
    assert await passkeys_of(ledger, MARA) == []

    await desktop.verifies(True)
    await tab.write("#name", "This laptop")
    await tab.click("button", "Add a passkey")
    await tab.find(".list", "This laptop")
    (one,) = await passkeys_of(ledger, MARA)
    assert one.transports == ("internal",)

    await tab.click("button", "Sign out")
    await tab.click("summary", "Other ways to sign in")
    await tab.click("button", "Sign in with a passkey")
    await tab.find("header .who", MARA.name)

    # A session without a second factor, and an approval that needs two steps.
    approval, _ = await desktop.office.ask()
    await desktop.office.decider.approve(approval.id, MARA, channel="email")
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
    (one,) = await passkeys_of(ledger, MARA)
    assert one.count > 1


async def test_a_link_from_the_form_to_the_session(
    desktop: Desktop, start_sink: SinkFactory
) -> None:
    """A mailed link is requested and opened in the same browser."""
    sink = await start_sink()
    tab, office = desktop.tab, desktop.office
    await tab.open(f"{desktop.url}/inbox/sign-in?next=/inbox/away")
    await tab.write("#link-address", MARA.email)
    await tab.click("button", "Mail me a link")
    await tab.find("h1", "Check your mail")
    await LinkMails(office.decider, EmailChannel(sink.settings()), office.inbox).drain()
    (link,) = re.findall(r"http://\S+", present(sink.mails[0].get_body(("plain",))).get_content())
    await tab.open(link)
    await tab.click("button", "Sign in")
    await tab.find("h1", "Your absence")
    await tab.open(link)
    await tab.find("h1", "does not work any more")


async def test_a_double_click_submits_a_form_once(desktop: Desktop) -> None:
    """The second response would say that a link or code was already used."""
    path, _ = await make_link(desktop.office.ledger, MARA.id, how=How.LOCAL, to="/inbox/away")
    await desktop.tab.open(desktop.url + path)
    assert await desktop.tab.look(_SUBMITS.format(form="main form")) == 1
    await desktop.sign_in("/inbox/away")
    await desktop.tab.find("h1", "Your absence")
    assert await desktop.tab.look(_SUBMITS.format(form="form.out")) == 1
    await desktop.tab.open(f"{desktop.url}/inbox/")
    assert await desktop.tab.look(_SUBMITS.format(form="form.out")) == 1
    await desktop.tab.open(f"{desktop.url}/inbox/")
    assert await desktop.tab.look(_SUBMITS.format(form="form:not([method=post])")) == len("ab")


@pytest.mark.soak
@pytest.mark.parametrize("height", [256, 640])
async def test_the_answers_cover_no_focused_control(desktop: Desktop, height: int) -> None:
    """People who use the keyboard see where they are, also at 400 % zoom (WCAG 2.2, 2.4.11)."""
    tab, office = desktop.tab, desktop.office
    office.policies = (PLAIN,)
    approval, _ = await office.ask(template={"days": 1, "from": "", "note": ""})
    await desktop.sign_in(page_of(approval.id))
    await tab.find("button", "Approve exactly this")
    await tab.shape(320, height, dark=False)
    await tab.look("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    covered = []
    for _ in range(60):
        await tab.key("Tab")
        covered.append(await tab.look(_COVERED))
    assert not any(covered), [one for one in covered if one]


@pytest.mark.soak
async def test_the_sign_in_of_a_company(
    channels: Channels, tmp_path: Path, company: Callable[[str, int], Awaitable[None]]
) -> None:
    """The provider is on another site and certified for OpenID Connect."""
    port = free_port()
    oidc = OidcSettings(
        issuer=f"http://127.0.0.1:{port}",
        client_id="signoff",
        client_secret=SecretStr("secret"),
        name="Example",
    )
    async with decider_with(channels, tmp_path, sign_in=("oidc",), oidc=oidc) as desktop:
        await company(f"{desktop.url}{CALLBACK}", port)
        tab = desktop.tab
        await tab.open(f"{desktop.url}/inbox/sign-in?next=/inbox/away")
        await tab.click("a", "Sign in with Example")
        await tab.write("input[name=login]", MARA.email)
        await tab.write("input[name=password]", "anything")
        await tab.click("button")
        await tab.click("button", "Continue")
        await tab.find("h1", "Your absence")
        await tab.find("header .who", MARA.name)
        (session,) = await Sessions(channels.ledger, channels.inbox).of_person(MARA.id)
        assert session.how is How.OIDC
        assert session.browser == "Chrome on Linux"


@pytest.mark.soak
async def test_these_pages_are_for_everybody(channels: Channels, tmp_path: Path) -> None:
    """No axe rule is broken and nothing is cut off, at both widths, in light and dark."""
    axe = (packages(AXE) / "axe-core" / "axe.min.js").read_text(encoding="utf-8")
    oidc = OidcSettings(issuer="http://127.0.0.1:9", client_id="signoff", name="Example")
    ways = ("oidc", "link", "code", "passkey")
    found = []
    async with decider_with(channels, tmp_path, sign_in=ways, oidc=oidc) as desktop:
        tab, ledger = desktop.tab, channels.ledger

        async def examine(name: str) -> None:
            for width, dark in ((360, False), (360, True), (1280, False), (1280, True)):
                await tab.shape(width, 740, dark=dark)
                await tab.look(axe)
                for one in (await tab.look("axe.run()"))["violations"]:
                    places = [node["html"] for node in one["nodes"]]
                    found.append((name, width, dark, one["id"], places))
                assert not await tab.look(OVERFLOWS), (name, width)

        await tab.do("Page.setBypassCSP", enabled=True)
        await tab.open(f"{desktop.url}/inbox/sign-in")
        await tab.click("summary", "Other ways to sign in")
        await tab.find("button", "Sign in with a passkey")
        await examine("sign-in")
        await tab.write("#link-address", MARA.email)
        await tab.click("button", "Mail me a link")
        await tab.find("h1", "Check your mail")
        await examine("link-sent")
        path, _ = await make_link(ledger, MARA.id, how=How.LOCAL, to="/inbox/security")
        await tab.open(desktop.url + path)
        await examine("link")
        await tab.click("button", "Sign in")
        await tab.write("#invitation", await invite(ledger, MARA.id, by="op"))
        await tab.click("button", "Add a passkey")
        await tab.find("button", "Use a passkey")
        await examine("security, to be shown")
        await tab.click("button", "Use a passkey")
        await tab.find("button", "Remove")
        await examine("security")
        await tab.open(desktop.url + path)
        await examine("gone")
    assert found == []
