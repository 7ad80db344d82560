"""Absences on the inbox page: they need a session, a fresh code and a form of the page."""

from __future__ import annotations

import httpx
import pytest

from browser import Browser, forms_of
from builders import CLEO, MARA, paused, present
from channels.conftest import Channels
from signoff.broker import hand_over as handing
from signoff.broker.ledger import audit
from signoff.core.approvals.events import Event, What
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person
from signoff.testing import VirtualClock

PATH = "/inbox/away"
UNTIL = "9999-12-31"


async def absence_of(office: Channels, person: Person = MARA) -> Absence | None:
    """Return the current absence."""
    found = (await office.decider.people.directory()).get(person.id)
    return present(found).absence(await office.ledger.now())


async def say(browser: Browser, action: str = PATH, **fields: str) -> httpx.Response:
    """Fill in a form of the page and send it."""
    form = forms_of(await browser.get(PATH))[action]
    return await browser.post(action, form | fields)


async def test_an_absence_is_set_shown_and_ended_on_the_page(
    browser: Browser, office: Channels
) -> None:
    """A link leads to sign-in and back; an absence shows, counts immediately, and can be ended."""
    assert (await browser.get(PATH)).headers["Location"] == f"/inbox/sign-in?next={PATH}"
    await browser.sign_in(to=PATH)
    assert "You are not away" in (await browser.get(PATH)).text

    said = await say(browser, until=UNTIL, delegate=CLEO.name)

    assert said.headers["Location"] == PATH
    absence = present(await absence_of(office))
    assert (absence.end.isoformat(), absence.delegate) == (UNTIL, "cleo")
    page = (await browser.get(PATH)).text
    assert f"away until <strong>{UNTIL}</strong>" in page
    assert f"<strong>{CLEO.name}</strong> is your delegate" in page
    entries = [
        Event.model_validate_json(one) async for _, one, _ in audit.entries(office.ledger.store)
    ]
    (left,) = [one for one in entries if one.what is What.LEFT]
    assert (left.by, left.more["channel"]) == ("mara", "inbox")

    await say(browser, f"{PATH}/back")
    assert await absence_of(office) is None
    assert "You are not away" in (await browser.get(PATH)).text


async def test_a_future_absence_is_listed_and_not_active(
    browser: Browser, office: Channels
) -> None:
    """It does not count yet."""
    await browser.sign_in()
    await say(browser, **{"from": "9998-01-01", "until": "9998-01-09"})
    assert await absence_of(office) is None
    assert "9998-01-01 to 9998-01-09" in (await browser.get(PATH)).text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"until": "soon"}, "is not a day"),
        ({"until": ""}, "is not a day"),
        ({"until": "2020-01-01"}, "before it begins"),
        ({"until": UNTIL, "delegate": "<b>nobody</b>"}, "&lt;b&gt;nobody"),
        ({"until": UNTIL, "delegate": "mara"}, "stand in for each other"),
    ],
)
async def test_an_invalid_absence_is_reported_beside_the_form(
    browser: Browser, office: Channels, fields: dict[str, str] | dict[str, object], words: str
) -> None:
    """The form keeps the input, and nothing changes."""
    await browser.sign_in()
    said = await say(browser, **fields)
    assert said.status_code == 422
    assert words in said.text
    assert forms_of(said)[PATH]["until"] == fields["until"]
    assert await absence_of(office) is None


async def test_an_old_session_cannot_set_an_absence_without_a_code(
    browser: Browser, office: Channels, clock: VirtualClock
) -> None:
    """The delegate decides, so an absence needs a fresh code, as a decision does."""
    await browser.sign_in()
    clock.advance(office.inbox.fresh)
    said = await say(browser, until=UNTIL, delegate="cleo", code="000000")
    assert said.status_code == 403
    assert await absence_of(office) is None
    assert (await say(browser, until=UNTIL, code=await browser.code())).status_code == 303
    assert await absence_of(office) is not None


@pytest.mark.parametrize("action", [PATH, f"{PATH}/back"])
async def test_a_form_of_another_origin_or_session_changes_nothing(
    browser: Browser, office: Channels, action: str
) -> None:
    """This holds for another origin and for a form without the session's token."""
    await browser.sign_in()
    form = forms_of(await browser.get(PATH))[PATH] | {"until": UNTIL}
    assert (await browser.post(action, form, Sec_Fetch_Site="cross-site")).status_code == 403
    assert (await browser.post(action, form | {"csrf": "x"})).status_code == 403
    assert await absence_of(office) is None


async def test_waiting_requests_are_listed_and_handed_to_the_delegate(
    browser: Browser, office: Channels
) -> None:
    """Each has a link, and one box hands over all; without a delegate nothing is handed over."""
    _, (approval,) = await paused(office.ledger, asked=[MARA])
    await browser.sign_in()
    page = (await browser.get(PATH)).text
    assert "1 still waiting for you" in page
    assert f"/inbox/approvals/{approval.id}" in page
    said = await say(browser, until=UNTIL, hand_over="1")
    assert "name a delegate" in said.text
    said = await say(browser, until=UNTIL, hand_over="1", delegate="cleo")
    assert said.status_code == 303
    assert (await office.ledger.approval(approval.id)).ballot.own == ("cleo",)
    assert "still waiting for you" not in (await browser.get(PATH)).text


async def test_a_long_list_is_not_read_to_its_end(
    browser: Browser, office: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page names the oldest five, and says that others wait; handing over takes all."""
    monkeypatch.setattr(handing, "SCANNED", 6)
    for _ in range(8):
        await paused(office.ledger, asked=[MARA])
    ids = await office.ledger.store.members("inbox:mara")
    await browser.sign_in()
    page = (await browser.get(PATH)).text
    assert "At least 6 still waiting for you: " in page
    assert " and others. If you hand them over" in page
    assert [one for one in ids if f"/inbox/approvals/{one}" in page] == ids[:5]
    assert (await say(browser, until=UNTIL, hand_over="1", delegate="cleo")).status_code == 303
    assert {one.ballot.own for one in await office.ledger.approvals(ids)} == {("cleo",)}
    assert "still waiting for you" not in (await browser.get(PATH)).text
