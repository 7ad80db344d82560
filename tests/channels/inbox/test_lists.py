"""The lists of the inbox page: their content, audience, search and order."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from hashlib import sha256
from importlib.resources import files
from typing import Any

import httpx
import pyotp
import pytest

from browser import SETTINGS, Browser
from builders import CLEO, MARA, NOON, RILEY, ask, make_approval, present
from channels.conftest import Channels
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.pages.lists import SHOWN
from signoff.channels.inbox.pages.rows import by_day, list_row
from signoff.channels.inbox.settings import page_of
from signoff.channels.inbox.templating import ASSETS
from signoff.core.approvals import moves
from signoff.core.approvals.approval import State
from signoff.core.base.durations import Span
from signoff.core.base.errors import LedgerUnavailable
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Role
from signoff.core.directory.queues import Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import OnTimeout, Policy, Terms

BOSS = CLEO.model_copy(update={"roles": (Role.OPERATOR,)})
ROTA = Schedule(
    name="rota",
    people=("mara", "cleo"),
    start=datetime(2026, 3, 2),  # noqa: DTZ001 -- local time
    every=timedelta(days=1),
)
FINANCE = Policy(name="finance", ask=("queue:finance",), within="4h")


@pytest.fixture
def directory() -> Directory:
    """Mara is in a queue and on call, Cleo sees everything, and Riley is the requester."""
    queue = Queue(name="finance", members=("mara",))
    return Directory([MARA, BOSS, RILEY], queues=[queue], schedules=[ROTA])


@pytest.fixture
async def apps(office: Channels) -> dict[str, pyotp.OTP]:
    """The authenticator apps of all three."""
    factors = Factors(office.ledger, SETTINGS.secret_key)
    people = (MARA, CLEO, RILEY)
    return {one.id: pyotp.parse_uri(await factors.enroll(one, by="test")) for one in people}


@pytest.fixture
async def office(office: Channels) -> Channels:
    """Return an office whose calls wait in a queue."""
    office.policies = (FINANCE,)
    return office


def words(page: httpx.Response) -> str:
    """Return the words of a page."""
    return " ".join(re.sub(r"<[^>]+>", " ", page.text).split())


def ids(page: httpx.Response) -> list[str]:
    """Return the ids in the rows of a list, in order."""
    assert page.status_code == 200, page.text
    return re.findall(r'id="open-(ap_[a-z2-7]{16})"', page.text)


def lasting(hours: int) -> Policy:
    """Return the policy with another deadline."""
    return FINANCE.model_copy(update={"within": Span(timedelta(hours=hours))})


async def three(office: Channels) -> list[str]:
    """Open three requests, half an hour apart; the last is due first."""
    found: list[str] = []
    for hours in (4, 4, 1):
        office.policies = (lasting(hours),)
        found.append((await office.ask(amount=len(found)))[0].id)
        office.clock.advance(timedelta(minutes=30))
    return found


async def test_for_me(browser: Browser, office: Channels) -> None:
    """The list shows the requester, the start, the deadline and the awaited people."""
    approval, _ = await office.ask(amount=250, purpose="train")
    await browser.sign_in()
    page = await browser.get("/inbox/")
    assert ids(page) == [approval.id]
    for text in (
        "1 pending for you.",
        "asks to run reimburse",
        "amount: 250, purpose: train",
        "Requested by Riley Voss",
        '<time datetime="2026-03-02T12:00:00Z">Mon 2 Mar 2026, 12:00 UTC</time> (just now)',
        '<h2 class="day">Due today</h2>',
        '<span class="chip today">Due in 4 h</span>',
        '<time datetime="2026-03-02T16:00:00Z">Mon 2 Mar 2026, 16:00 UTC</time>',
        'aria-current="page">Your approvals</a>',
    ):
        assert text in page.text
    assert ">All</a>" not in page.text
    assert "Waiting for Mara Lind" not in page.text


@pytest.mark.parametrize("path", ["", "queues/finance", "all"])
@pytest.mark.parametrize(
    ("sort", "order"),
    [("oldest", (0, 1, 2)), ("newest", (2, 1, 0)), ("due", (2, 0, 1))],
)
async def test_sorting(
    browser: Browser, office: Channels, path: str, sort: str, order: tuple[int, ...]
) -> None:
    """By creation time in both directions, and by next due time."""
    opened = await three(office)
    await browser.sign_in(CLEO if path == "all" else MARA)
    page = await browser.get(f"/inbox/{path}?sort={sort}")
    assert ids(page) == [opened[at] for at in order]
    if sort == "due":
        assert ids(await browser.get(f"/inbox/{path}")) == ids(page)


def reminding(hours: int) -> Policy:
    """Return the policy with another deadline, and a reminder after half an hour."""
    return lasting(hours).model_copy(update={"remind": (Span(timedelta(minutes=30)),)})


def headings(page: httpx.Response) -> list[str]:
    """Return the headings of the days of a list, in order."""
    return re.findall(r'<h2 class="day">([^<]*)</h2>', page.text)


async def dated(office: Channels) -> list[str]:
    """Open requests that are due in reverse, with earlier reminders of later ones.

    The last one is overdue, and stays open.
    """
    found: list[str] = []
    for policy in (reminding(72), lasting(48), reminding(30), lasting(2)):
        office.policies = (policy,)
        found.append((await office.ask(amount=len(found)))[0].id)
    office.policies = (
        FINANCE.model_copy(
            update={"within": Span(timedelta(minutes=1)), "on_timeout": OnTimeout.STAY}
        ),
    )
    found.append((await office.ask(amount=len(found)))[0].id)
    office.clock.advance(timedelta(minutes=2))
    await Reconciler(office.decider.roster).once()
    return found


DATED = ["Overdue", "Due today", "Due tomorrow", "Due Wed 4 Mar 2026", "Due Thu 5 Mar 2026"]


@pytest.mark.parametrize("path", ["", "queues/finance", "all"])
@pytest.mark.parametrize("query", ["", "?tool=reimburse&q=conference"])
async def test_days_are_in_order(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch, path: str, query: str
) -> None:
    """What is overdue comes first, and no day twice, whatever is reminded of earlier."""
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SHOWN", 2)
    opened = await dated(office)
    await browser.sign_in(CLEO if path == "all" else MARA)
    pages = [await browser.get(f"/inbox/{path}{query.replace('conference', 'amount')}")]
    while more := re.search(r'href="([^"]*)" rel="next"', pages[-1].text):
        pages.append(await browser.get(more[1].replace("&amp;", "&")))
    assert [one for page in pages for one in ids(page)] == opened[::-1]
    assert [day for page in pages for day in headings(page)] == DATED
    assert "the pages follow" not in pages[0].text


async def test_days_of_many_are_in_order_on_each_page(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many are read by their timers: each is listed once, and the page says what its order is."""
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SHOWN", 3)
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SCANNED", 4)
    opened = await dated(office)
    await browser.sign_in()
    page = await browser.get("/inbox/")
    assert "More than 4 are pending, so the pages follow what is next" in page.text
    more = present(re.search(r'href="([^"]*)" rel="next"', page.text))
    rest = await browser.get(more[1].replace("&amp;", "&"))
    assert sorted(ids(page) + ids(rest)) == sorted(opened)
    for one in (page, rest):
        assert headings(one) == [day for day in DATED if day in headings(one)]


async def test_pages(browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long list continues behind a link and shows each row once, whatever is added meanwhile."""
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SHOWN", 2)
    opened = []
    for number in range(5):
        opened.append((await office.ask(amount=number))[0].id)
        office.clock.advance(timedelta(seconds=1))
    await browser.sign_in()
    seen, path = [], "/inbox/?sort=newest&tool=reimburse"
    while path:
        page = await browser.get(path)
        seen += ids(page)
        await office.ask()
        more = re.search(r'href="([^"]*)" rel="next"', page.text)
        path = more[1].replace("&amp;", "&") if more else ""
    assert seen == opened[::-1]
    assert "First page" in page.text


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("q=TRAIN", {0}),
        ("q=riley+reimburse", {0, 1}),
        ("q=riley+nothing", set()),
        ("tool=Refund", {2}),
        ("app=finance", {0, 1, 2}),
        ("app=other", set()),
        ("person=r.voss@example.net", {0, 1}),
        ("person=nobody@example.com", set()),
        ("state=claimed", {1}),
        ("state=free", {0, 2}),
        ("state=question", {0}),
        ("due=hour", {2}),
        ("due=day", {0, 1, 2}),
        ("due=overdue", set()),
        ("queue=finance", {0, 1, 2}),
        ("queue=other", set()),
    ],
)
async def test_filters(browser: Browser, office: Channels, query: str, found: set[int]) -> None:
    """By words, tool, app, person, state, deadline and queue."""
    first, _ = await office.ask(amount=1, purpose="Train to Bern")
    second, _ = await office.ask(amount=2)
    office.policies = (lasting(1),)
    third, _ = await office.ask(tool="refund", user="nora", amount=3)
    decider = office.decider
    await decider.made(first.id, moves.AskBack(text="which train?"), MARA)
    await decider.made(second.id, moves.Claim(), MARA)
    await browser.sign_in()
    page = await browser.get(f"/inbox/?{query}")
    opened = [first.id, second.id, third.id]
    assert set(ids(page)) == {opened[at] for at in found}
    assert '<details class="filter" open>' in page.text
    assert found or "No matches." in page.text


async def test_an_unknown_filter_value_gets_the_list_of_valid_ones(browser: Browser) -> None:
    """The page says so, and lists the existing values."""
    await browser.sign_in()
    for query, text in (
        ("sort=worst", "It can be one of: oldest, due, newest."),
        ("due=never", "It can be one of: overdue"),
        ("after=AAAA", "no such page"),
        ("after=é", "no such page"),
    ):
        page = await browser.get(f"/inbox/?{query}")
        assert page.status_code == 400
        assert text in page.text


async def test_a_truncated_search_says_so_and_can_continue(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It looks at a limited number of records, says how many, and continues after them."""
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SCANNED", 50)
    for number in range(60):
        await office.ask(tool="reimburse" if number < 59 else "refund")
        office.clock.advance(timedelta(seconds=1))
    await browser.sign_in()
    page = await browser.get("/inbox/?tool=refund")
    assert ids(page) == []
    assert "Searched 50 requests for this page" in page.text
    more = re.search(r'href="([^"]*)" rel="next"', page.text)
    page = await browser.get(present(more)[1].replace("&amp;", "&"))
    assert len(ids(page)) == 1
    assert "Searched" not in page.text


async def test_the_first_page_is_small(browser: Browser, office: Channels) -> None:
    """A full page of long calls has less than 100,000 bytes with all its files, unpacked."""
    for number in range(SHOWN + 1):
        await office.ask(amount=number, purpose="words " * 100)
    await browser.sign_in()
    page = await browser.get("/inbox/")
    assert len(ids(page)) == SHOWN
    beside = set(re.findall(r'(?:src|href)="/inbox/([a-z.]+\.[a-z]+)"', page.text))
    assert beside <= set(ASSETS)
    sizes = [len((await browser.get(f"/inbox/{name}")).content) for name in beside]
    assert len(page.content) + sum(sizes) < 100_000


async def test_too_many_to_sort(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis does not sort a list that is too long; the page says that the order differs."""
    monkeypatch.setattr("signoff.channels.inbox.pages.lists.SORTED", 2)
    opened = await three(office)
    await browser.sign_in()
    page = await browser.get("/inbox/?sort=due")
    assert ids(page) == opened
    assert "More than 2 are pending, so they are sorted by “Oldest first”." in page.text


async def test_my_queues(browser: Browser, office: Channels) -> None:
    """Each has its number of waiting requests, oldest, next due and awaited people."""
    opened = await three(office)
    office.clock.advance(timedelta(minutes=30))
    await browser.sign_in()
    page = await browser.get("/inbox/queues")
    assert page.status_code == 200
    for text in (
        "<strong>3</strong> pending",
        "waiting for Mara Lind",
        "Oldest:",
        "(2 h ago)",
        "Next due:",
    ):
        assert text in page.text
    assert ids(await browser.get("/inbox/queues/finance?sort=oldest")) == opened
    assert (await browser.get("/inbox/queues/other")).status_code == 404


async def test_lists_of_queues_say_who_decides_next(browser: Browser, office: Channels) -> None:
    """The line of a request names the next level and its time; one without another has none."""
    first, second = Level(ask=("queue:finance",), within="4h"), Level(ask=("cleo",), within="1h")
    office.policies = (Policy(name="steps", levels=(first, second)),)
    await office.ask()
    await browser.sign_in()
    line = "<p>Next: Escalates to Cleo Park, Mon 2 Mar 2026, 16:00 UTC</p>"
    assert line in (await browser.get("/inbox/queues/finance")).text
    assert "<p>Next: " not in (await browser.get("/inbox/")).text
    browser.session = ""
    await browser.sign_in(CLEO)
    assert line in (await browser.get("/inbox/all")).text
    office.clock.advance(timedelta(hours=4))
    await Reconciler(office.decider.roster).once()
    assert "<p>Next: " not in (await browser.get("/inbox/all")).text


async def test_queues_show_who_is_on_call(browser: Browser, office: Channels) -> None:
    """People on call and operators read who is on call, until when and who is next."""
    await browser.sign_in()
    page = words(await browser.get("/inbox/queues"))
    assert (
        "On call rota Mara Lind, until Tue 3 Mar 2026, 00:00 UTC (in 12 h) Next: Cleo Park" in page
    )
    browser.session = ""
    await browser.sign_in(CLEO)
    assert "On call rota Mara Lind" in words(await browser.get("/inbox/queues"))
    browser.session = ""
    await browser.sign_in(RILEY)
    assert "On call" not in (await browser.get("/inbox/queues")).text
    day = NOON.date()
    away = Absence(start=day, end=day)
    await office.decider.people.leave(MARA, away, by="test", more={})
    browser.session = ""
    await browser.sign_in(CLEO)
    page = words(await browser.get("/inbox/queues"))
    assert "rota nobody; Mara Lind is away until 2026-03-02, until Tue 3 Mar" in page


async def test_the_page_of_a_request_names_its_queue(browser: Browser, office: Channels) -> None:
    """Approvers read why they are asked; the requester does not see who is in which queue."""
    approval, _ = await office.ask()
    row = "<dt>Queue</dt><dd>finance</dd>"
    for person, seen in ((MARA, True), (CLEO, True), (RILEY, False)):
        await browser.sign_in(person)
        page = await browser.get(f"/inbox/approvals/{approval.id}")
        assert (page.status_code, row in page.text) == (200, seen)
        browser.session = ""


async def test_only_members_and_auditors_see_a_queue(browser: Browser, office: Channels) -> None:
    """A person without a queue sees none and reads why; an auditor sees all."""
    await office.ask()
    await browser.sign_in(RILEY)
    assert "You are in no queue." in (await browser.get("/inbox/queues")).text
    assert (await browser.get("/inbox/queues/finance")).status_code == 404
    browser.session = ""
    await browser.sign_in(CLEO)
    assert "<strong>1</strong> pending" in (await browser.get("/inbox/queues")).text
    assert len(ids(await browser.get("/inbox/queues/finance"))) == 1


async def test_asked_by_me(browser: Browser, office: Channels) -> None:
    """Own requests and their states; they do not wait for their requester."""
    mine, _ = await office.ask(amount=1)
    done, _ = await office.ask(amount=2, user="R.Voss@example.net")
    await office.ask(amount=3, user="nora")
    await office.decider.reject(done.id, MARA, channel="email", reason="no")
    await browser.sign_in(RILEY)
    page = await browser.get("/inbox/asked")
    assert set(ids(page)) == {mine.id, done.id}
    assert "Rejected by Mara Lind" in page.text
    assert ids(await browser.get("/inbox/asked?state=pending")) == [mine.id]
    assert ids(await browser.get("/inbox/")) == []
    assert "No requests for you." in (await browser.get("/inbox/")).text


async def test_only_operators_and_auditors_see_all_requests(
    browser: Browser, office: Channels
) -> None:
    """An operator sees all waiting requests; other people do not have that page."""
    approval, _ = await office.ask()
    await browser.sign_in(MARA)
    assert (await browser.get("/inbox/all")).status_code == 404
    browser.session = ""
    await browser.sign_in(CLEO)
    page = await browser.get("/inbox/all")
    assert ids(page) == [approval.id]
    assert "1 pending." in page.text
    assert ids(await browser.get("/inbox/")) == []


async def test_ended(browser: Browser, office: Channels) -> None:
    """Approvers, requesters and people who see everything find them; nobody else does."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    for person, seen in ((MARA, True), (RILEY, True), (CLEO, True)):
        browser.session = ""
        await browser.sign_in(person)
        page = await browser.get("/inbox/ended")
        assert (ids(page) == [approval.id]) is seen
        assert "Approved by Mara Lind" in page.text
        assert ids(await browser.get("/inbox/ended?state=rejected")) == []
    office.policies = (FINANCE.model_copy(update={"ask": ("cleo",)}),)
    other, _ = await office.ask(user="nora")
    await office.decider.reject(other.id, BOSS, channel="email")
    browser.session = ""
    await browser.sign_in(MARA)
    assert ids(await browser.get("/inbox/ended")) == [approval.id]


async def test_an_overdue_request_is_marked_and_filterable(
    browser: Browser, office: Channels
) -> None:
    """It is marked as overdue and found by that filter."""
    office.policies = (FINANCE.model_copy(update={"on_timeout": OnTimeout.STAY}),)
    approval, _ = await office.ask()
    office.clock.advance(timedelta(hours=5))
    await browser.sign_in()
    page = await browser.get("/inbox/?due=overdue")
    assert ids(page) == [approval.id]
    assert ">Overdue</span>" in page.text


async def test_a_ledger_that_is_away(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page says so; a part for an open page is not inserted."""

    async def away(*_: object, **__: Any) -> None:
        raise LedgerUnavailable("Redis is away.")

    await browser.sign_in()
    monkeypatch.setattr(office.ledger.store, "members", away)
    for headers in ({}, {"Signoff-Live": "1"}):
        page = await browser.http.get("/inbox/", headers=headers)
        assert page.status_code == 503
        assert "Signoff cannot reach its database." in page.text


async def test_the_htmx_file_matches_its_release_hash() -> None:
    """The file has the SHA-256 of its README, and its licence is beside it."""
    folder = files("signoff.channels.inbox").joinpath("static")
    found = sha256(folder.joinpath("htmx.min.js").read_bytes()).hexdigest()
    assert f"| SHA-256 | `{found}` |" in folder.joinpath("README.md").read_text()
    assert "Zero-Clause BSD" in folder.joinpath("htmx.LICENSE").read_text(encoding="utf-8")


async def test_static_files_are_compressed_and_cached(browser: Browser) -> None:
    """They are compressed for browsers that accept it, and not sent twice."""
    for name, kind in (("style.css", "text/css"), ("live.js", "text/javascript")):
        plain = await browser.http.get(f"/inbox/{name}", headers={"Accept-Encoding": "identity"})
        packed = await browser.get(f"/inbox/{name}")
        assert packed.headers["Content-Type"].startswith(kind)
        assert packed.headers["Content-Encoding"] == "gzip"
        assert packed.content == plain.content
        known = {"If-None-Match": plain.headers["ETag"]}
        assert (await browser.http.get(f"/inbox/{name}", headers=known)).status_code == 304
    assert (await browser.get("/inbox/README.md")).status_code == 404


@pytest.mark.parametrize(
    ("left", "day", "urgency"),
    [
        (-1, "Overdue", "late"),
        (0.5, "Due today", "soon"),
        (5, "Due today", "today"),
        (10, "Due today", ""),
        (13, "Due tomorrow", ""),
        (72, "Due Thu 5 Mar 2026", ""),
    ],
)
def test_a_row_shows_its_day_and_urgency_in_the_reader_time_zone(
    left: float, day: str, urgency: str
) -> None:
    """The reader's time zone counts, from overdue to days ahead."""
    due = NOON + timedelta(hours=left)
    approval = ask(make_approval(), MARA).model_copy(update={"deadline": due})
    row = list_row(approval, MARA, Directory([MARA, RILEY]), NOON)
    assert (row.day, row.urgency) == (day, urgency)


def test_a_row_says_if_nobody_can_be_asked() -> None:
    """Otherwise the requester would wait for an answer that cannot come."""
    terms = Terms(policy="default", ask=(), within=timedelta(hours=4))
    approval, _ = make_approval().ask(terms, (), now=NOON)
    row = list_row(approval, RILEY, Directory([MARA, RILEY]), NOON)
    assert row.waits_on == "Nobody can be asked"


def test_adjacent_rows_of_a_day_form_a_group() -> None:
    """Neighbours of the same day form a group."""
    approval = ask(make_approval(), MARA)
    rows = [
        list_row(
            approval.model_copy(update={"deadline": NOON + timedelta(hours=hours)}),
            MARA,
            Directory([MARA, RILEY]),
            NOON,
        )
        for hours in (1, 2, 13, 14)
    ]
    assert [(day, len(some)) for day, some in by_day(rows)] == [
        ("Due today", 2),
        ("Due tomorrow", 2),
    ]


def test_rows_of_lists_hold_blocks() -> None:
    """On a wide screen the children of a row are columns: texts that are none stay together."""
    rows: list[str] = []
    for template in files("signoff.channels.inbox").joinpath("templates").iterdir():
        for part in template.read_text(encoding="utf-8").split('<ul class="list">')[1:]:
            rows += re.findall(r"<li[^>]*>(.*?)</li>", part.partition("</ul>")[0], re.DOTALL)
    assert len(rows) > 6
    for row in rows:
        content = re.sub(r"\{%.*?%\}|<input[^>]*>|\s", "", row, flags=re.DOTALL)
        assert content.startswith("<div>"), row


async def test_a_number_larger_than_any_double_blocks_no_list(
    browser: Browser, office: Channels
) -> None:
    """The card is delivered, the list has this request and the others, and it can be approved."""
    office.policies = (Policy(name="plain", ask=("mara",), within="4h"),)
    odd, _ = await office.ask(amount=10**400)
    other, _ = await office.ask(amount=3)
    await browser.sign_in()
    page = (await browser.get("/inbox/")).text
    assert page_of(odd.id) in page
    assert page_of(other.id) in page
    assert "1" + "0" * 400 in (await browser.get(page_of(odd.id))).text
    assert (await browser.press(page_of(odd.id))).status_code == 303
    assert (await office.ledger.approval(odd.id)).state is State.APPROVED
