"""One-time links: requested on the page, mailed by a real server, valid once in one browser."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import httpx
import pytest

from browser import ORIGIN, SETTINGS, Browser, forms_of
from builders import CLEO, MARA, present
from channels.conftest import Channels, Sink, SinkFactory
from leaks import text_in
from signoff.broker import stages
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.inbox.auth.factors import unenroll
from signoff.channels.inbox.auth.link_mails import LinkMails
from signoff.channels.inbox.auth.links import make_link
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import State
from signoff.core.policies.policy import Policy

FREE = Policy(name="free", ask=("mara",), within="4h")
ASK, USE = "/inbox/sign-in/link", "/inbox/sign-in/link/use"


Mails = tuple[Sink, LinkMails]
"""The server that keeps the mails, and the stage that sends them."""


@pytest.fixture
async def mails(office: Channels, start_sink: SinkFactory) -> Mails:
    """Return the stage that mails links, and the server that keeps them."""
    sink = await start_sink()
    return sink, LinkMails(office.decider, EmailChannel(sink.settings()), SETTINGS)


async def ask(
    browser: Browser, address: str = MARA.email, to: str = "/inbox/", **headers: str
) -> httpx.Response:
    """Fill in the form for a link."""
    return await browser.post(ASK, {"address": address, "next": to}, **headers)


async def mailed(mails: Mails) -> str:
    """Run the stage, and return the path of the last mailed link."""
    sink, worker = mails
    await worker.drain()
    text = present(sink.mails[-1].get_body(("plain",))).get_content()
    (link,) = re.findall(r"https://\S+", text)
    return str(link).removeprefix(ORIGIN)


async def press(browser: Browser, path: str) -> httpx.Response:
    """Open a link and press its button."""
    form = forms_of(await browser.get(path)).get(USE, {"token": path.rpartition("/")[2]})
    return await browser.post(USE, form)


async def test_a_person_signs_in_by_mail_link_and_decides(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """A person without a second factor signs in by mail and decides a request of one step."""
    await unenroll(office.ledger, "mara", by="test")
    office.policies = (FREE,)
    approval, _ = await office.ask()
    path = page_of(approval.id)
    assert 'value="/inbox/approvals/' in (await browser.get(f"/inbox/sign-in?next={path}")).text
    sent = await ask(browser, to=path, User_Agent="Mozilla (X11; Linux) Firefox/140.0")
    assert sent.status_code == 200
    assert "will get a sign-in link" in sent.text

    link = await mailed(mails)
    mail = mails[0].mails[-1]
    assert mails[0].envelopes[-1].rcpt_tos == [MARA.email]
    assert mail["Auto-Submitted"] == "auto-generated"
    for part in ("plain", "html"):
        assert "Firefox on Linux" in present(mail.get_body((part,))).get_content()
    assert link.removeprefix("/inbox/") in present(mail.get_body(("html",))).get_content()

    assert "Sign in as Mara" in (await browser.get(link)).text
    assert (await press(browser, link)).headers["Location"] == path
    assert (await browser.press(path)).status_code == 303
    after = await office.ledger.approval(approval.id)
    assert after.state is State.APPROVED
    assert (await office.events(approval))[-1].more["signed_in"] == "link"


async def test_a_link_works_once(browser: Browser, mails: Mails) -> None:
    """The second time it is gone for everybody."""
    await ask(browser)
    link = await mailed(mails)
    assert (await press(browser, link)).status_code == 303
    assert (await browser.get(link)).status_code == 410
    assert (await press(browser, link)).status_code == 410


async def test_concurrent_uses_of_a_link_sign_in_once(browser: Browser, mails: Mails) -> None:
    """One commit uses the link and starts the session."""
    await ask(browser)
    form = forms_of(await browser.get(await mailed(mails)))[USE]
    answers = await asyncio.gather(*(browser.post(USE, form) for _ in range(5)))
    assert sorted(one.status_code for one in answers) == [303, 410, 410, 410, 410]


async def test_opening_a_link_does_not_use_it_up(browser: Browser, mails: Mails) -> None:
    """Mail systems open links before people do, in their own browsers and in any way."""
    await ask(browser)
    link = await mailed(mails)
    jar = browser.http.cookies
    browser.http.cookies = {}
    for method in ("GET", "HEAD", "OPTIONS", "POST", "PUT"):
        answer = await browser.http.request(method, link)
        assert "set-cookie" not in answer.headers
    browser.http.cookies = jar
    assert (await press(browser, link)).status_code == 303


async def test_a_link_does_not_work_in_another_browser(browser: Browser, mails: Mails) -> None:
    """In another browser it signs nobody in, does not name its person, and stays valid."""
    await ask(browser)
    link = await mailed(mails)
    jar = browser.http.cookies
    browser.http.cookies = {}
    page = await browser.get(link)
    assert page.status_code == 403
    assert "Another browser requested" in page.text
    assert "Mara" not in page.text
    assert (await press(browser, link)).status_code == 403
    # A browser that has requested its own link is another browser too.
    await ask(browser, CLEO.email)
    assert (await press(browser, link)).status_code == 403
    browser.http.cookies = jar
    assert (await press(browser, link)).status_code == 303


async def test_a_second_link_does_not_invalidate_the_first(browser: Browser, mails: Mails) -> None:
    """A person who requests twice may open either mail."""
    await ask(browser)
    first = await mailed(mails)
    await ask(browser)
    second = await mailed(mails)
    assert first != second
    assert (await press(browser, first)).status_code == 303
    assert (await press(browser, second)).status_code == 303


async def test_a_link_is_old_after_ten_minutes(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """A request that is older when it is worked on sends no link."""
    await ask(browser)
    link = await mailed(mails)
    office.clock.advance(timedelta(minutes=10))
    assert (await browser.get(link)).status_code == 410
    assert (await press(browser, link)).status_code == 410

    await ask(browser)
    office.clock.advance(timedelta(minutes=10))
    count = len(mails[0].mails)
    assert await mails[1].drain() == 1
    assert len(mails[0].mails) == count


async def test_a_link_request_does_not_reveal_accounts(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """The response, the ledger and the work are the same for known and unknown people."""
    addresses = [MARA.email, MARA.aliases[0], "nobody@example.com", "mara", "", "x" * 300]
    answers, bodies = [], []
    for address in addresses:
        browser.session = ""
        answer = await ask(browser, address)
        same = answer.text.replace(f"<strong>{address}</strong>", "")
        headers = sorted(name for name, _ in answer.headers.items())
        answers.append((answer.status_code, same, headers))
        (item,) = (await office.ledger.claim(stages.SIGN_IN)).items
        bodies.append(sorted(item.body))
    assert all(one == answers[0] for one in answers)
    assert all(one == bodies[0] for one in bodies)


async def test_mail_goes_to_people_of_the_directory_only(browser: Browser, mails: Mails) -> None:
    """The link goes to the address of the settings, whatever alias was entered."""
    for address in ("nobody@example.com", "mara", f"{MARA.email}, evil@example.com", ""):
        await ask(browser, address)
    assert await mails[1].drain() == 4
    assert mails[0].mails == []
    await ask(browser, MARA.aliases[0].upper())
    await mailed(mails)
    assert mails[0].envelopes[-1].rcpt_tos == [MARA.email]


@pytest.mark.parametrize("address", [MARA.email, "nobody@example.com"])
async def test_a_mailbox_is_not_filled(browser: Browser, mails: Mails, address: str) -> None:
    """After five requests for an address no more are accepted, known or unknown."""
    codes = [(await ask(browser, address)).status_code for _ in range(6)]
    assert codes == [200] * 5 + [429]


async def test_refused_link_requests_do_not_extend_a_lockout(
    browser: Browser, office: Channels
) -> None:
    """Refused requests do not count: a quarter of an hour later a request works."""
    codes = [(await ask(browser)).status_code for _ in range(39)]
    assert codes == [200] * 5 + [429] * 34
    store = office.ledger.store
    for key in await store.keys("tries:"):
        if await store.client.pttl(store.prefix + key) <= 15 * 60_000:
            await store.client.delete(store.prefix + key)
    assert (await ask(browser)).status_code == 200


async def test_link_requests_are_limited_by_recipient(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """Requests are counted by recipient; the response does not reveal this."""
    addresses = [MARA.email, *MARA.aliases]
    store = office.ledger.store
    for number in range(12):
        await ask(browser, addresses[number % len(addresses)])
        # As if it came from elsewhere after a while.
        for key in await store.keys("tries:links:"):
            await store.client.delete(store.prefix + key)
    await mails[1].drain()
    assert len(mails[0].mails) == 10


async def test_link_requests_from_one_address_are_limited(browser: Browser) -> None:
    """The limit counts requests for any addresses."""
    codes = [(await ask(browser, f"p{one}@example.com")).status_code for one in range(41)]
    assert codes == [200] * 40 + [429]


async def test_the_ledger_contains_no_usable_link_or_cookie(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """Neither the link nor the browser's cookie is in the ledger."""
    await ask(browser)
    link = await mailed(mails)
    everything = await text_in(office.ledger)
    assert link.rpartition("/")[2] not in everything
    (cookie,) = [one.value for one in browser.http.cookies.jar]
    assert present(cookie) not in everything


async def test_a_link_gives_the_session_a_name_of_its_own(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """A planted name is not used, and the earlier session has ended."""
    await browser.sign_in(CLEO)
    before = browser.session
    await ask(browser)
    await press(browser, await mailed(mails))
    assert browser.session not in {"", before}
    assert await Sessions(office.ledger, SETTINGS).find(before) is None


@pytest.mark.parametrize(
    "headers", [{"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}]
)
async def test_a_form_of_another_page_neither_asks_nor_signs_in(
    browser: Browser, mails: Mails, headers: dict[str, str]
) -> None:
    """A page of another site cannot sign a person in as somebody else."""
    assert (await ask(browser, **headers)).status_code == 403
    await ask(browser)
    link = await mailed(mails)
    form = forms_of(await browser.get(link))[USE]
    assert (await browser.post(USE, form, **headers)).status_code == 403
    assert browser.session == ""
    assert (await press(browser, link)).status_code == 303


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/healthz"])
async def test_a_link_leads_nowhere_else(browser: Browser, mails: Mails, to: str) -> None:
    """The next page is always one of the inbox, whatever the request contained."""
    await ask(browser, to=to)
    assert (await press(browser, await mailed(mails))).headers["Location"] == "/inbox/"


@pytest.mark.parametrize("token", ["x", "A" * 43, "é" * 43, "..%2f..", "A" * 4000])
async def test_an_invalid_link_gets_the_page_of_a_used_one(browser: Browser, token: str) -> None:
    """The page is the same as for a used link."""
    assert (await browser.get(f"{ASK}/{token}")).status_code in {404, 410}
    assert (await browser.post(USE, {"token": token})).status_code == 410


async def test_a_server_that_is_away_is_tried_again(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """The link that finally arrives works."""
    sink, worker = mails
    sink.answers["DATA"] = "451 later"
    await ask(browser)
    await worker.drain()
    assert sink.mails == []
    del sink.answers["DATA"]
    office.clock.advance(timedelta(minutes=1))
    assert (await press(browser, await mailed(mails))).status_code == 303


async def test_a_link_of_a_removed_person_is_refused(
    browser: Browser, office: Channels, mails: Mails
) -> None:
    """A link of a person who is no longer in the directory is gone."""
    path, _ = await make_link(office.ledger, "nobody", how=How.LOCAL, to="/inbox/")
    assert (await browser.get(path)).status_code == 410
    assert (await press(browser, path)).status_code == 410


async def test_a_link_of_the_command_line_works_in_any_browser(
    browser: Browser, office: Channels
) -> None:
    """It works once; the session records how it began."""
    path, _ = await make_link(office.ledger, "mara", how=How.LOCAL, to="/inbox/away")
    assert (await press(browser, path)).headers["Location"] == "/inbox/away"
    (session,) = await Sessions(office.ledger, SETTINGS).of_person("mara")
    assert session.how is How.LOCAL
    browser.session = ""
    assert (await press(browser, path)).status_code == 410


async def test_disabled_sign_in_methods_are_absent(browser: Browser, office: Channels) -> None:
    """They are not on the page, and their addresses do not exist."""
    import httpx

    from signoff.channels.gateway import make_gateway
    from signoff.channels.inbox.router import make_inbox_router

    for way, other in (("code", ASK), ("link", "/inbox/sign-in")):
        app = make_gateway(office.ledger)
        settings = SETTINGS.model_copy(update={"sign_in": (way,)})
        app.include_router(make_inbox_router(office.decider, settings))
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as http:
            assert other not in forms_of(await http.get("/inbox/sign-in"))
            answer = await http.post(other, data={"address": MARA.email})
            assert answer.status_code in {404, 405}
