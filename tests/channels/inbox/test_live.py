"""Live updates of open pages by a real server: only changes that the person may see."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx
import pytest
import uvicorn

from browser import COOKIE, SETTINGS, Browser, forms_of
from builders import CLEO, MARA
from channels.conftest import Channels
from channels.inbox.crowd import OLGA, enter
from signoff.broker.ledger.follow import Entry, batches, latest
from signoff.broker.ledger.store import Store
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.pages import live
from signoff.channels.inbox.pages.live import ANYTHING, HEARTBEAT, MOST_EACH, Hub, OpenPage
from signoff.channels.inbox.router import make_inbox_router
from signoff.cli.composition.http import Server
from signoff.core.approvals.approval import Approval
from signoff.core.base.errors import LedgerUnavailable
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Policy

FREE = Policy(name="free", ask=("mara",), within="4h")
PATIENCE = 300


class Page:
    """An open page and its events."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.last = ""
        self._lines = answer.aiter_lines()

    async def told(self) -> str:
        """Return the id of the next changed approval, and keep the id of the event."""
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                name, _, value = line.partition(": ")
                if name == "id":
                    self.last = value
                if name == "data":
                    return value
        raise EOFError

    async def begun(self) -> None:
        """Wait until the page receives events."""
        async with asyncio.timeout(PATIENCE):
            async for line in self._lines:
                if line.startswith("retry"):
                    return

    async def ended(self) -> None:
        """Wait until the stream has ended."""
        async with asyncio.timeout(PATIENCE):
            async for _ in self._lines:
                continue


@pytest.fixture
async def office(office: Channels) -> Channels:
    """Return an office whose requests need one step."""
    office.policies = (FREE,)
    return office


@dataclass(frozen=True)
class Listening:
    """A server and its address."""

    server: Server
    url: str


@pytest.fixture
async def here(office: Channels, request: pytest.FixtureRequest) -> AsyncIterator[Listening]:
    """Return a running server; a parameter is the seconds between signs of life."""
    app = make_gateway(office.ledger)
    heartbeat = getattr(request, "param", HEARTBEAT)
    app.include_router(make_inbox_router(office.decider, SETTINGS, heartbeat=heartbeat))
    up = asyncio.get_running_loop().create_future()
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="off")
    server = Server(config, up.set_result)
    task = asyncio.create_task(server._serve())  # serve() would take over the signals
    yield Listening(server, f"http://127.0.0.1:{await up}")
    server.should_exit = True
    await task


Look = Callable[..., AbstractAsyncContextManager[Page]]


@pytest.fixture
def look(office: Channels, here: Listening, browser: Browser) -> Look:
    """Open a page with the browser's current session."""

    @asynccontextmanager
    async def look(query: str = "", **headers: str) -> AsyncIterator[Page]:
        if "since" not in query and not headers:
            query += f"&since={await latest(office.ledger.store)}"
        known = {"Cookie": f"{COOKIE}={browser.session}"} if browser.session else {}
        known |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with (
            httpx.AsyncClient(base_url=here.url, timeout=PATIENCE) as http,
            http.stream("GET", f"/inbox/live?{query}", headers=known) as answer,
        ):
            page = Page(answer)
            if answer.status_code == 200:
                assert answer.headers["Content-Type"].startswith("text/event-stream")
                await page.begun()
            yield page

    return look


async def test_events_cover_only_visible_requests(
    browser: Browser, office: Channels, look: Look
) -> None:
    """An event has only the id, and there are no events about other people's requests."""
    mine, _ = await office.ask(amount=1)
    office.policies = (FREE.model_copy(update={"ask": ("cleo",)}),)
    other, _ = await office.ask(amount=2)
    await browser.sign_in()
    async with look() as page:
        await office.decider.reject(other.id, CLEO, channel="email")
        await office.decider.approve(mine.id, MARA, channel="email")
        assert await page.told() == mine.id


async def test_a_reconnecting_browser_gets_missed_events(
    browser: Browser, office: Channels, look: Look
) -> None:
    """After reconnecting, a browser gets the changes since its last event."""
    first, _ = await office.ask(amount=1)
    second, _ = await office.ask(amount=2)
    await browser.sign_in()
    async with look() as page:
        await office.decider.approve(first.id, MARA, channel="email")
        assert await page.told() == first.id
        last = page.last
    await office.decider.approve(second.id, MARA, channel="email")
    async with look(Last_Event_ID=last) as page:
        assert await page.told() == second.id
    async with look(f"since={last}") as page:
        assert await page.told() == second.id


async def test_the_page_of_an_approval_gets_only_its_events(
    browser: Browser, office: Channels, look: Look
) -> None:
    """Its page only gets events of that approval."""
    first, _ = await office.ask(amount=1)
    second, _ = await office.ask(amount=2)
    await browser.sign_in()
    async with look(f"about={second.id}") as page:
        await office.decider.approve(first.id, MARA, channel="email")
        await office.decider.approve(second.id, MARA, channel="email")
        assert await page.told() == second.id


@pytest.mark.parametrize("here", [0.05], indirect=True)
async def test_events_end_with_the_session(browser: Browser, office: Channels, look: Look) -> None:
    """After a sign-out no more events come; without a session there are none."""
    approval, _ = await office.ask()
    await browser.sign_in()
    form = forms_of(await browser.get("/inbox/"))["/inbox/sign-out"]
    async with look() as page:
        assert (await browser.post("/inbox/sign-out", form)).status_code == 303
        await page.ended()
    async with look() as page:
        assert page.answer.status_code == 401
    fragment = await browser.http.get("/inbox/", headers={"Signoff-Live": "1"})
    assert fragment.status_code == 401
    assert approval.id not in fragment.text


@pytest.mark.parametrize("here", [0.05], indirect=True)
async def test_events_end_when_their_person_leaves(
    browser: Browser, office: Channels, look: Look
) -> None:
    """A reload that removes the person ends the stream, although the session has not ended."""
    await browser.sign_in()
    async with look() as page:
        office.directory.become(Directory([one for one in office.directory if one.id != MARA.id]))
        await page.ended()


async def test_events_follow_the_roles_of_a_person(
    browser: Browser, office: Channels, look: Look
) -> None:
    """Somebody who is no operator any more gets no events about other people's requests."""
    await enter(browser, OLGA)
    other, _ = await office.ask(amount=1)
    own = (FREE.model_copy(update={"ask": (OLGA.id,)}),)
    async with look() as page:
        plain = OLGA.model_copy(update={"roles": ()})
        people = (plain if one.id == OLGA.id else one for one in office.directory)
        office.directory.become(Directory(people))
        await office.decider.approve(other.id, MARA, channel="email")
        office.policies = own
        mine, _ = await office.ask(amount=2)
        assert await page.told() == mine.id


@pytest.mark.parametrize("since", ["٣-٣", "1-", "x", "9" * 40])
async def test_an_invalid_start_is_ignored(
    browser: Browser, office: Channels, look: Look, since: str
) -> None:
    """The page gets the changes from now on."""
    approval, _ = await office.ask()
    await browser.sign_in()
    async with look(f"since={since}") as page:
        await office.decider.approve(approval.id, MARA, channel="email")
        assert await page.told() == approval.id


async def test_an_open_page_does_not_prolong_the_session(
    browser: Browser, office: Channels, look: Look
) -> None:
    """Neither the event stream nor automatic requests count as use by a person."""
    await browser.sign_in()
    office.clock.advance(timedelta(minutes=20))
    async with look():
        answer = await browser.http.get("/inbox/", headers={"Signoff-Live": "1"})
        assert answer.status_code == 200
    office.clock.advance(timedelta(minutes=11))
    assert (await browser.get("/inbox/")).status_code == 303


async def test_a_person_has_so_many(browser: Browser, office: Channels, look: Look) -> None:
    """One more page is refused; after another closes, there is room again."""
    approval, _ = await office.ask()
    await browser.sign_in()
    async with AsyncExitStack() as pages:
        for _ in range(MOST_EACH):
            page = await pages.enter_async_context(look())
            assert page.answer.status_code == 200
        async with look() as page:
            assert page.answer.status_code == 429
    for _ in range(100):
        async with look() as page:
            if page.answer.status_code == 200:
                await office.decider.approve(approval.id, MARA, channel="email")
                assert await page.told() == approval.id
                break
    else:
        raise AssertionError("there is no room again")


async def test_a_server_that_stops_does_not_wait_for_pages(
    browser: Browser, here: Listening, look: Look
) -> None:
    """Endless streams are closed without waiting."""
    await browser.sign_in()
    async with look() as page:
        here.server.should_exit = True
        await page.ended()


async def test_listeners_share_one_audit_reader(
    office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit is read once for any number of listeners, and not without listeners."""
    reading, ended = [], asyncio.Event()

    async def counted(store: Store, *, start: str) -> AsyncIterator[Sequence[Entry]]:
        reading.append(start)
        try:
            async for batch in batches(store, start=start):
                yield batch
        finally:
            ended.set()

    monkeypatch.setattr(live, "batches", counted)
    approval, _ = await office.ask()
    hub, listeners = (
        Hub(office.decider),
        [OpenPage(MARA, ""), OpenPage(MARA, ""), OpenPage(CLEO, "")],
    )
    for one in listeners:
        assert hub.attach(one)
    await hub.catch_up(listeners[0], "0-1")
    assert set(listeners[0].take()) == {approval.id}
    await office.decider.approve(approval.id, MARA, channel="email")
    async with asyncio.timeout(PATIENCE):
        await listeners[1].wake.wait()
    assert set(listeners[1].take()) == {approval.id}
    assert listeners[2].take() == {}
    assert len(reading) == 1
    for one in listeners:
        assert not ended.is_set()
        hub.detach(one)
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
    assert len(reading) == 1


async def test_a_page_that_opens_while_the_process_stops_is_ended(office: Channels) -> None:
    """The hub ends listeners that it has, and those that come after its end."""
    hub, before, late = Hub(office.decider), OpenPage(MARA, ""), OpenPage(CLEO, "")
    assert hub.attach(before)
    hub.close()
    assert hub.attach(late)
    assert (before.closed, late.closed) == (True, True)
    hub.detach(before)
    hub.detach(late)


async def test_a_ledger_that_was_away(office: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading continues after the last entry, and misses nothing."""
    starts = []

    async def failing(store: Store, *, start: str) -> AsyncIterator[Sequence[Entry]]:
        starts.append(start)
        async for batch in batches(store, start=start):
            yield batch
            if batch and len(starts) == 1:
                raise LedgerUnavailable("Redis is away.")

    monkeypatch.setattr(live, "batches", failing)
    first, _ = await office.ask(amount=1)
    second, _ = await office.ask(amount=2)
    hub, listener = Hub(office.decider, patience=0.01), OpenPage(MARA, "")
    hub.attach(listener)
    await hub.catch_up(listener, await latest(office.ledger.store))
    seen = set()
    for one in (first, second):
        await office.decider.approve(one.id, MARA, channel="email")
        async with asyncio.timeout(PATIENCE):
            while one.id not in seen:
                await listener.wake.wait()
                seen |= set(listener.take())
    assert starts[0] != starts[1]
    assert len(starts) == 2
    hub.detach(listener)


def test_events_for_a_slow_page_are_bounded() -> None:
    """If too much has changed, the event says only that something has."""
    listener = OpenPage(MARA, "")
    for number in range(1000):
        listener.record(f"ap_{number}", f"{number}-0")
    found = listener.take()
    assert len(found) <= 50
    assert ANYTHING in found
    assert listener.take() == {}


async def test_a_ledger_that_goes_away_between_two_reads(
    office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A change is announced even if the audit was read and the approval could not be."""
    ledger, hub, listener = office.ledger, Hub(office.decider, patience=0.01), OpenPage(MARA, "")
    approval, _ = await office.ask()
    readable = ledger.readable

    async def failing(names: Sequence[str]) -> list[Approval]:
        monkeypatch.setattr(ledger, "readable", readable)
        raise LedgerUnavailable("Redis is away.")

    hub.attach(listener)
    await hub.catch_up(listener, await latest(ledger.store))
    monkeypatch.setattr(ledger, "readable", failing)
    await office.decider.approve(approval.id, MARA, channel="email")
    async with asyncio.timeout(PATIENCE):
        await listener.wake.wait()
    assert list(listener.take()) == [approval.id]
    hub.detach(listener)
