"""Sessions: how they begin, what they may do, where they are and how they end."""

from __future__ import annotations

from datetime import timedelta

import pytest

from browser import SETTINGS, Browser
from builders import CLEO, MARA, present
from channels.conftest import Channels
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.channels.inbox.auth.browsers import browser_of
from signoff.channels.inbox.auth.factors import unenroll
from signoff.channels.inbox.auth.sessions import How, Sessions, sign_out_everywhere
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import Event, What
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock

FREE = Policy(name="free", ask=("mara",), within="4h")


@pytest.fixture
def sessions(office: Channels) -> Sessions:
    """Return the sessions of the office's page."""
    return Sessions(office.ledger, SETTINGS)


async def begin(
    browser: Browser, office: Channels, *, how: How = How.LINK, person: Person = MARA
) -> str:
    """Sign in without a second factor."""
    sessions = Sessions(office.ledger, SETTINGS)
    browser.session = await sessions.begin(person.id, how=how, also=Change())
    return browser.session


async def test_a_session_without_a_second_factor_makes_one_step_decisions(
    browser: Browser, office: Channels
) -> None:
    """It needs no code, and the audit names the method of the sign-in."""
    office.policies = (FREE,)
    approval, _ = await office.ask()
    await begin(browser, office)
    assert (await browser.press(page_of(approval.id))).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    event = (await office.events(approval))[-1]
    assert event.more["signed_in"] == "link"
    assert "second_factor" not in event.more


async def test_a_two_step_approval_needs_a_code_in_the_session(
    browser: Browser, office: Channels
) -> None:
    """Without a code the first step stays unconfirmed; with one, the session has proven it."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    path = page_of(approval.id)
    await begin(browser, office)
    assert "authenticator app" in (await browser.get(path)).text
    assert (await browser.press(path)).status_code == 403
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    assert (await browser.press(path, code=await browser.code())).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    more = (await office.events(approval))[-1].more
    assert (more["signed_in"], more["second_factor"]) == ("link", "totp")


async def test_the_page_offers_no_code_field_without_a_second_factor(
    browser: Browser, office: Channels
) -> None:
    """There is no field for a code, and no code would work; a rejection still counts."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    await unenroll(office.ledger, "mara", by="test")
    path = page_of(approval.id)
    await begin(browser, office)
    page = await browser.get(path)
    assert "you have none yet" in page.text
    assert 'name="code"' not in page.text
    assert (await browser.press(path, code="000000")).status_code == 403
    assert (await browser.press(path, "reject")).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.REJECTED


async def test_a_code_gives_the_session_another_name(browser: Browser, office: Channels) -> None:
    """The old name is invalid, and open forms continue to work."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    stolen = await begin(browser, office)
    answer = await browser.press(page_of(approval.id), code=await browser.code())
    assert answer.headers["Set-Cookie"].startswith("__Host-signoff=")
    assert browser.session != stolen
    assert (await browser.get("/inbox/")).status_code == 200
    browser.session = stolen
    assert (await browser.get("/inbox/")).status_code == 303


async def test_sessions_are_listed_and_ended_separately(
    sessions: Sessions, office: Channels, clock: VirtualClock
) -> None:
    """The most recently used is first; expired ones and other people's are not listed."""
    first = await sessions.begin("mara", how=How.LINK, browser="Safari on iPhone", also=Change())
    clock.advance(timedelta(minutes=10))
    second = await sessions.begin("mara", how=How.OIDC, also=Change())
    other = await sessions.begin("cleo", how=How.LINK, also=Change())
    found = await sessions.of_person("mara")
    assert [one.how for one in found] == [How.OIDC, How.LINK]
    assert found[1].browser == "Safari on iPhone"

    await sessions.end_one(found[1].id, "cleo")
    assert await sessions.find(first) is not None
    await sessions.end_one(found[1].id, "mara")
    assert await sessions.find(first) is None
    assert len(await sessions.of_person("mara")) == 1

    clock.advance(timedelta(minutes=31))
    assert await sessions.of_person("mara") == []
    assert await sessions.find(second) is None
    assert await sessions.find(other) is None


async def test_entries_of_sessions_that_are_over_do_not_pile_up(
    sessions: Sessions, office: Channels, clock: VirtualClock
) -> None:
    """The next sign-in removes them."""
    for _ in range(3):
        await sessions.begin("mara", how=How.LINK, also=Change())
    clock.advance(timedelta(hours=13))
    await sessions.begin("mara", how=How.LINK, also=Change())
    assert len(await office.ledger.store.members("logins:mara")) == 1


async def test_checking_a_session_does_not_extend_it(
    sessions: Sessions, clock: VirtualClock
) -> None:
    """An open page does not keep a person signed in."""
    name = await sessions.begin("mara", how=How.LINK, also=Change())
    session = present(await sessions.find(name))
    for minutes in (20, 9):
        clock.advance(timedelta(minutes=minutes))
        assert await sessions.is_open(session)
    clock.advance(timedelta(minutes=1))
    assert not await sessions.is_open(session)
    assert await sessions.find(name) is None


async def test_an_operator_ends_all_sessions_of_a_person(
    sessions: Sessions, office: Channels
) -> None:
    """They end immediately, other people's stay, and the audit records it with the sign-ins."""
    names = [await sessions.begin("mara", how=How.LINK, also=Change()) for _ in range(2)]
    other = await sessions.begin(CLEO.id, how=How.LINK, also=Change())
    await sign_out_everywhere(office.ledger, "mara", by="op (cli)")
    assert [await sessions.find(one) for one in names] == [None, None]
    assert await sessions.find(other) is not None
    assert await sessions.find(await sessions.begin("mara", how=How.LINK, also=Change()))
    store = office.ledger.store
    entries = [Event.model_validate_json(one) async for _, one, _ in audit.entries(store)]
    (out,) = [one for one in entries if one.what is What.SIGNED_OUT]
    assert (out.by, out.more) == ("op (cli)", {"person": "mara"})
    assert len([one for one in entries if one.what is What.SIGNED_IN]) == 4


async def test_a_proof_of_an_ended_session_is_invalid(sessions: Sessions) -> None:
    """The proof of an ended session is invalid and has no name."""
    session = present(
        await sessions.find(await sessions.begin("mara", how=How.LINK, also=Change()))
    )
    await sessions.end_one(session.id, "mara")
    assert (await sessions.prove(session, "totp"))[1] == ""


@pytest.mark.parametrize(
    ("user_agent", "words"),
    [
        (
            "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0",
            "Firefox on Linux",
        ),
        (
            "Mozilla/5.0 (Windows NT 10.0) Chrome/140.0.0.0 Safari/537.36 Edg/140.0",
            "Edge on Windows",
        ),
        ("Mozilla/5.0 (iPhone; CPU iPhone OS 19_0 like Mac OS X) Safari/604.1", "Safari on iPhone"),
        (
            "Mozilla/5.0 (Linux; Android 16) Chrome/140.0.0.0 Mobile Safari/537.36",
            "Chrome on Android",
        ),
        ("<script>alert(1)</script>", "A browser"),
        ("", "A browser"),
    ],
)
def test_browsers_have_the_names_that_people_know(user_agent: str, words: str) -> None:
    """The name contains no part of the browser's header."""
    assert browser_of(user_agent) == words


async def test_a_person_removed_by_a_reload_loses_access(
    browser: Browser, office: Channels
) -> None:
    """This holds from their next request, even if the page had cached the absences."""
    await begin(browser, office)
    assert (await browser.get("/inbox/")).status_code == 200
    office.directory.become(Directory([one for one in office.directory if one.id != MARA.id]))
    assert (await browser.get("/inbox/")).headers["location"].startswith("/inbox/sign-in")
