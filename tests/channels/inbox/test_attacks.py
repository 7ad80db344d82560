"""Attacks on the inbox page: each of them changes nothing and reveals nothing."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

import pytest

from browser import COOKIE, ORIGIN, Browser, forms_of
from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.approval import Approval, State
from signoff.core.policies.policy import Policy

HTML = "<script>alert(1)</script><img src=x onerror=alert(1)>\"'>"


async def noted(office: Channels, **parts: Any) -> tuple[Approval, str]:
    """Open an approval with a first step of Mara's by mail; return it and its path."""
    approval, _ = await office.ask(**parts)
    await office.decider.approve(approval.id, MARA, channel="email", reason="fine")
    return approval, page_of(approval.id)


async def still_pending(office: Channels, approval: Approval) -> bool:
    """Return whether the approval is undecided."""
    return (await office.ledger.approval(approval.id)).state is State.PENDING


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://approvals.example.com"},
        {"Origin": "https://approvals.example.com.evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ],
)
async def test_a_form_of_another_page(
    browser: Browser, office: Channels, headers: dict[str, str]
) -> None:
    """A form from elsewhere is refused, even with the cookie and the token, also at sign-in."""
    approval, path = await noted(office)
    await browser.sign_in()
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    for button in ("approve", "reject"):
        assert (await browser.post(f"{path}/{button}", form, **headers)).status_code == 403
    login = {"address": MARA.email, "code": await browser.code(), "next": "/inbox/"}
    assert (await browser.post("/inbox/sign-in", login, **headers)).status_code == 403
    assert await still_pending(office, approval)


async def test_a_form_without_any_origin(browser: Browser, office: Channels) -> None:
    """A browser always sends an origin, so a program sent the form."""
    approval, path = await noted(office)
    await browser.sign_in()
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    assert (await browser.http.post(f"{path}/approve", data=form)).status_code == 403
    assert await still_pending(office, approval)


@pytest.mark.parametrize("token", ["", "x", None])
async def test_a_form_without_the_session_s_token(
    browser: Browser, office: Channels, token: str | None
) -> None:
    """A missing token, a wrong one and another session's are refused."""
    approval, path = await noted(office)
    await browser.sign_in(CLEO)
    others = forms_of(await browser.get(path))[f"{path}/approve"]["csrf"]
    browser.session = ""
    await browser.sign_in()
    form = forms_of(await browser.get(path))[f"{path}/approve"]
    wrong = form | {"csrf": others if token is None else token}
    answer = await browser.post(f"{path}/approve", wrong)
    assert answer.status_code == 403
    assert "another session" in answer.text
    assert await still_pending(office, approval)


async def test_a_scanner_without_a_session(browser: Browser, office: Channels) -> None:
    """It follows every link and presses every button; nothing is decided or shown."""
    approval, path = await noted(office)
    for method in ("GET", "HEAD", "POST"):
        for place in (path, f"{path}/approve", f"{path}/reject", "/inbox/sign-out", "/inbox/"):
            answer = await browser.http.request(method, place, headers={"Origin": ORIGIN})
            assert answer.status_code in {303, 405}, place
            assert "reimburse" not in answer.text
    assert await still_pending(office, approval)


async def test_a_link_never_decides(browser: Browser, office: Channels) -> None:
    """Even with a session, the addresses of the forms do not accept GET."""
    approval, path = await noted(office)
    await browser.sign_in()
    for button in ("approve", "reject"):
        assert (await browser.get(f"{path}/{button}")).status_code == 405
    assert await still_pending(office, approval)


async def test_a_session_name_that_was_planted(browser: Browser) -> None:
    """Signing in gives a new name, ends the old session, and accepts no name from outside."""
    browser.session = "A" * 43
    await browser.sign_in()
    first = browser.session
    assert first not in {"", "A" * 43}
    await browser.sign_in()
    second = browser.session
    assert second != first
    browser.session = first
    assert (await browser.get("/inbox/")).status_code == 303
    browser.session = second
    assert (await browser.get("/inbox/")).status_code == 200


async def test_the_cookie_is_protected_from_scripts_and_other_hosts(browser: Browser) -> None:
    """Its prefix and attributes protect it; it does not reveal the person."""
    cookie = (await browser.sign_in()).headers["Set-Cookie"]
    assert cookie.startswith(f"{COOKIE}=")
    for attribute in ("HttpOnly", "Secure", "SameSite=lax", "Path=/"):
        assert attribute in cookie
    assert "Domain" not in cookie


@pytest.mark.parametrize(
    "to",
    [
        "https://evil.example/",
        "//evil.example/",
        "/\\evil.example",
        "/inbox/../../evil",
        "/inbox//evil.example",
        "/inbox/approvals/ap_aaaaaaaaaaaaaaaa\r\nX: y",
        "javascript:alert(1)",
        "/healthz",
    ],
)
async def test_a_sign_in_leads_nowhere_else(browser: Browser, to: str) -> None:
    """The next page is always one of the inbox, whatever the link says."""
    page = await browser.http.get("/inbox/sign-in", params={"next": to})
    assert forms_of(page)["/inbox/sign-in"]["next"] == "/inbox/"
    assert (await browser.sign_in(to=to)).headers["Location"] == "/inbox/"


async def test_the_sign_in_response_does_not_reveal_accounts(
    browser: Browser, office: Channels
) -> None:
    """Enrolled, not enrolled, unknown or without an address: each response has the same bytes."""
    addresses = [MARA.email, RILEY.email, "nobody@example.com", "mara", "", "x" * 300]
    answers = []
    for address in addresses:
        form = {"address": address, "code": "000000", "next": "/inbox/"}
        answer = await browser.post("/inbox/sign-in", form)
        same = answer.text.replace(f'value="{address}"', 'value=""')
        answers.append((answer.status_code, same, sorted(answer.headers)))
    assert answers[0][0] == 401
    assert all(one == answers[0] for one in answers)


@pytest.mark.parametrize("address", [MARA.email, "nobody@example.com"])
async def test_codes_cannot_be_guessed(browser: Browser, address: str) -> None:
    """After five attempts even the right code is refused; this holds for unknown people too."""
    form = {"address": address, "code": "000000", "next": "/inbox/"}
    codes = [(await browser.post("/inbox/sign-in", form)).status_code for _ in range(6)]
    assert codes == [401] * 5 + [429]
    right = form | {"code": await browser.code()}
    assert (await browser.post("/inbox/sign-in", right)).status_code == 429


async def test_refused_sign_in_attempts_do_not_extend_a_lockout(
    browser: Browser, office: Channels
) -> None:
    """Refused attempts do not count: a quarter of an hour later the right code works."""
    form = {"address": MARA.email, "code": "000000", "next": "/inbox/"}
    codes = [(await browser.post("/inbox/sign-in", form)).status_code for _ in range(52)]
    assert codes == [401] * 5 + [429] * 47
    store = office.ledger.store
    for key in await store.keys("tries:"):
        if await store.client.pttl(store.prefix + key) <= 15 * 60_000:
            await store.client.delete(store.prefix + key)
    right = form | {"code": await browser.code()}
    assert (await browser.post("/inbox/sign-in", right)).status_code == 303


async def test_correct_codes_are_not_limited(browser: Browser, office: Channels) -> None:
    """An approver may give many right codes a day; only failures are limited."""
    form = {"address": MARA.email, "next": "/inbox/"}
    for _ in range(12):
        await browser.post("/inbox/sign-in", form | {"code": "000000"}) if _ % 4 == 0 else None
        right = form | {"code": await browser.code()}
        assert (await browser.post("/inbox/sign-in", right)).status_code == 303
        office.clock.advance(timedelta(minutes=1))
    wrong = [await browser.post("/inbox/sign-in", form | {"code": "1"}) for _ in range(3)]
    assert [one.status_code for one in wrong] == [401, 401, 429]


async def test_failed_sign_ins_do_not_block_an_existing_session(
    browser: Browser, office: Channels
) -> None:
    """Failed attempts to sign in as a person do not block the person's session."""
    approval, path = await noted(office)
    await browser.sign_in()
    form = {"address": MARA.email, "code": "000000", "next": "/inbox/"}
    for _ in range(7):
        await browser.post("/inbox/sign-in", form)
    office.clock.advance(timedelta(minutes=10))
    assert (await browser.press(path, code=await browser.code())).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_the_codes_of_a_session_cannot_be_guessed(browser: Browser, office: Channels) -> None:
    """A stolen cookie does not decide: after five codes, no further code is checked."""
    approval, path = await noted(office)
    await browser.sign_in()
    office.clock.advance(timedelta(minutes=10))
    codes = [(await browser.press(path, code="000000")).status_code for _ in range(6)]
    assert codes == [403] * 5 + [429]
    assert (await browser.press(path, code=await browser.code())).status_code == 429
    assert await still_pending(office, approval)


async def test_sign_in_attempts_from_one_address_are_limited(browser: Browser) -> None:
    """After sixty attempts from one address no further attempt is checked, for any account."""
    codes = set()
    for number in range(60):
        form = {"address": f"p{number}@example.com", "code": "000000", "next": "/inbox/"}
        codes.add((await browser.post("/inbox/sign-in", form)).status_code)
    assert codes == {401}
    form = {"address": MARA.email, "code": await browser.code(), "next": "/inbox/"}
    assert (await browser.post("/inbox/sign-in", form)).status_code == 429


async def test_an_alias_gives_no_further_attempts(browser: Browser) -> None:
    """It does not reveal either that two addresses belong to one person."""
    for _ in range(5):
        form = {"address": MARA.email, "code": "000000", "next": "/inbox/"}
        await browser.post("/inbox/sign-in", form)
    alias = {"address": MARA.aliases[0], "code": await browser.code(), "next": "/inbox/"}
    assert (await browser.post("/inbox/sign-in", alias)).status_code == 401


async def test_a_used_or_older_code_is_refused(browser: Browser, office: Channels) -> None:
    """A code that somebody else has seen does not work again, nor does an older one."""
    earlier, now = await browser.code(), await browser.code()
    form = {"address": MARA.email, "code": now, "next": "/inbox/"}
    assert (await browser.post("/inbox/sign-in", form)).status_code == 303
    for code in (now, earlier):
        answer = await browser.post("/inbox/sign-in", form | {"code": code})
        assert answer.status_code == 401


async def test_an_old_code_does_not_count(browser: Browser, office: Channels) -> None:
    """A difference of half a minute is accepted, one of two minutes is not."""
    code = await browser.code()
    office.clock.advance(timedelta(minutes=2))
    form = {"address": MARA.email, "code": code, "next": "/inbox/"}
    assert (await browser.post("/inbox/sign-in", form)).status_code == 401


async def test_foreign_and_unknown_ids_get_the_same_response(
    browser: Browser, office: Channels
) -> None:
    """An unasked person and an unknown id get the same response, to reading and to deciding."""
    office.policies = (Policy(name="m", ask=("mara",), within="4h"),)
    others, _ = await office.ask()
    await browser.sign_in(CLEO)
    csrf = forms_of(await browser.get("/inbox/"))["/inbox/sign-out"]["csrf"]
    answers = set()
    for one in (others.id, "ap_" + "a" * 16, "x", "..%2f..%2fhealthz"):
        form = {"csrf": csrf, "digest": others.digest}
        for answer in (
            await browser.get(page_of(one)),
            await browser.post(f"{page_of(one)}/approve", form),
            await browser.post(f"{page_of(one)}/reject", form),
        ):
            answers.add((answer.status_code, answer.text))
    pages = {text for _, text in answers if "or you may not see it" in text}
    assert len(pages) == 1
    assert {status for status, _ in answers} == {404}
    assert await still_pending(office, others)


OWN_SCRIPT = re.compile(r'<script src="/inbox/[a-z.]+\.js" defer></script>')
"""The only kind of script on a page: a file of our own."""


async def test_markup_of_agents_and_people_is_text(browser: Browser, office: Channels) -> None:
    """Tool, arguments, hint, requester and reason never become markup."""
    office.policies = (Policy(name="p", ask=("mara",), within="4h", second_step="true"),)
    approval, _ = await office.ask(tool=HTML, hint=HTML, user=HTML, **{HTML: HTML})
    await office.decider.approve(approval.id, MARA, channel="email", reason=HTML)
    path = page_of(approval.id)
    await browser.sign_in()
    shown = [await browser.get("/inbox/"), await browser.get(path)]
    office.clock.advance(timedelta(minutes=6))
    shown.append(await browser.press(path, code="1", reason=HTML))
    shown.append(await browser.press(path, "reject", code=await browser.code(), reason=HTML))
    shown.append(await browser.get(path))
    shown.append(await browser.http.get("/inbox/sign-in", params={"next": HTML}))
    wrong = {"address": HTML, "code": HTML, "next": HTML}
    shown.append(await browser.post("/inbox/sign-in", wrong))
    for page in shown:
        assert "<script" not in OWN_SCRIPT.sub("", page.text)
        assert "<img" not in page.text
    assert "alert(1)" in shown[1].text
    assert (await office.ledger.approval(approval.id)).state is State.REJECTED


async def test_another_call_than_was_shown(browser: Browser, office: Channels) -> None:
    """A form with another digest changes nothing."""
    approval, path = await noted(office)
    await browser.sign_in()
    answer = await browser.press(path, digest="0" * 64)
    assert answer.status_code == 400
    assert await still_pending(office, approval)


@pytest.mark.parametrize(
    ("body", "media_type", "status"),
    [
        (b"a=" + b"x" * (64 << 10), "application/x-www-form-urlencoded", 413),
        (b"&".join(b"f%d=" % number for number in range(200)), None, 400),
        (b"csrf=a&csrf=b", None, 400),
        (b"a=%ff", None, 400),
        (b"\xff=1", None, 400),
        (b"{}", "application/json", 415),
        (b"", "multipart/form-data; boundary=x", 415),
    ],
)
async def test_a_malformed_form_is_refused_first(
    browser: Browser, body: bytes | str, media_type: str | None, status: int
) -> None:
    """It is refused with a page that says so, before anything else is checked."""
    headers = {
        "Origin": ORIGIN,
        "Content-Type": media_type or "application/x-www-form-urlencoded",
    }
    answer = await browser.http.post("/inbox/sign-in", content=body, headers=headers)
    assert answer.status_code == status
    assert "Not done" in answer.text


async def test_pages_forbid_frames_foreign_forms_and_foreign_scripts(
    browser: Browser, office: Channels
) -> None:
    """Every page forbids frames, foreign forms, and scripts other than our own files."""
    _, path = await noted(office)
    await browser.sign_in()
    for place in ("/inbox/", path, "/inbox/sign-in", "/inbox/approvals/x"):
        page = await browser.get(place)
        policy = page.headers["Content-Security-Policy"]
        assert policy.split("; ") == [
            "default-src 'none'",
            "script-src 'self'",
            "connect-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "manifest-src 'self'",
            "worker-src 'self'",
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
        assert not re.search(r" on[a-z]+=| hx-on| hx-vals=.js:", page.text)
        assert "<script" not in OWN_SCRIPT.sub("", page.text)
        assert "unsafe" not in policy
        assert page.headers["Cache-Control"] == "no-store"
        assert page.headers["X-Frame-Options"] == "DENY"
        assert " style=" not in page.text
        assert set(re.findall(r'(?:src|href)="(?!/inbox/|#)[^"]*"', page.text)) == set()
    style = await browser.get("/inbox/style.css")
    assert style.headers["Content-Type"].startswith("text/css")
    assert "url(" not in style.text
    assert "@import" not in style.text


async def test_removing_the_second_factor_ends_all_sessions(
    browser: Browser, office: Channels
) -> None:
    """All their sessions end, and a new factor does not restore them."""
    from browser import SETTINGS
    from signoff.channels.inbox.auth.factors import Factors, enrolled, unenroll

    await browser.sign_in()
    assert await unenroll(office.ledger, "mara", by="test")
    assert (await browser.get("/inbox/")).status_code == 303
    assert await enrolled(office.ledger, [MARA, CLEO]) == ["cleo"]
    await Factors(office.ledger, SETTINGS.secret_key).enroll(MARA, by="test")
    assert (await browser.get("/inbox/")).status_code == 303
