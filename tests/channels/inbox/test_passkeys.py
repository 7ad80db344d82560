"""Passkeys: who may add them; each is valid for one person, one page and one ceremony."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta

import httpx
import pytest
from webauthn import base64url_to_bytes

from authenticator import Authenticator
from browser import ORIGIN, SETTINGS, Browser, forms_of
from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.channels.inbox.auth.factors import Factors, enrolled, unenroll
from signoff.channels.inbox.auth.passkey_store import invite, passkeys_of
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.settings import InboxSettings, page_of
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory, Person

PAGE, ADD = "/inbox/security", "/inbox/security/passkeys/add"
OFFER, REMOVE = "/inbox/security/passkeys/offer", "/inbox/security/passkeys/remove"
SIGN_IN = "/inbox/sign-in/passkey"


@pytest.fixture
def device() -> Authenticator:
    """Return a device of Mara's."""
    return Authenticator(ORIGIN, "approvals.example.com")


async def signed_in(browser: Browser, office: Channels, person: Person = MARA) -> str:
    """Sign in without a second factor, and return the token of the forms."""
    sessions = Sessions(office.ledger, SETTINGS)
    browser.session = await sessions.begin(person.id, how=How.LINK, also=Change())
    return forms_of(await browser.get(PAGE))["/inbox/sign-out"]["csrf"]


async def add(browser: Browser, csrf: str, device: Authenticator, **proof: str) -> httpx.Response:
    """Add a passkey as the page's script does."""
    offer = await browser.post(OFFER, {"csrf": csrf, **proof})
    if offer.status_code != 200:
        return offer
    credential = device.make(offer.json())
    return await browser.post(ADD, {"csrf": csrf, "credential": credential, "name": "My key"})


async def prove(browser: Browser, csrf: str, device: Authenticator) -> httpx.Response:
    """Use a passkey as a second factor."""
    offer = await browser.post("/inbox/passkey/offer", {"csrf": csrf})
    if offer.status_code != 200:
        return offer
    credential = device.sign(offer.json())
    return await browser.post("/inbox/passkey/prove", {"csrf": csrf, "credential": credential})


async def sign_in(browser: Browser, device: Authenticator, **fields: str) -> httpx.Response:
    """Sign in with a passkey."""
    offer = await browser.post(f"{SIGN_IN}/offer", {"next": ""})
    assert offer.json()["allowCredentials"] == []
    return await browser.post(SIGN_IN, {"credential": device.sign(offer.json()), **fields})


@pytest.fixture
async def csrf(browser: Browser, office: Channels, device: Authenticator) -> str:
    """Return the form token of a session of Mara's, who has added the device."""
    token = await signed_in(browser, office)
    assert (await add(browser, token, device, code=await browser.code())).status_code == 303
    office.clock.advance(timedelta(minutes=10))
    return token


async def test_a_passkey_is_added_with_an_existing_second_factor(
    browser: Browser, office: Channels, device: Authenticator
) -> None:
    """It needs an existing second factor; then the page and the audit show it."""
    csrf = await signed_in(browser, office)
    for code in ("", "000000"):
        refused = await add(browser, csrf, device, code=code)
        assert refused.status_code == 403
        assert "code did not work" in refused.json()["problem"]
    before = browser.session
    assert (await add(browser, csrf, device, code=await browser.code())).status_code == 303
    assert browser.session != before
    page = await browser.get(PAGE)
    assert "My key" in page.text
    (one,) = await passkeys_of(office.ledger, MARA)
    assert (one.name, one.count, one.used) == ("My key", 1, None)


async def test_a_passkey_is_added_with_an_operator_code(
    browser: Browser, office: Channels, device: Authenticator
) -> None:
    """For a person without a second factor: once, only by that person, within a day."""
    await unenroll(office.ledger, "mara", by="test")
    code = await invite(office.ledger, "mara", by="op")
    others = await signed_in(browser, office, CLEO)
    assert (await add(browser, others, device, invitation=code)).status_code == 403
    browser.session = ""
    csrf = await signed_in(browser, office)
    assert "One-time code" in (await browser.get(PAGE)).text
    for wrong in ("", "x", code[:-1]):
        assert (await add(browser, csrf, device, invitation=wrong)).status_code == 403
    assert (await add(browser, csrf, device, invitation=code.upper())).status_code == 303
    again = Authenticator(ORIGIN, "approvals.example.com")
    refused = await add(browser, csrf, again, invitation=code)
    assert "used or expired" in refused.json()["problem"]
    late = await invite(office.ledger, "mara", by="op")
    office.clock.advance(timedelta(days=1))
    csrf = await signed_in(browser, office)
    assert (await add(browser, csrf, again, invitation=late)).status_code == 403
    assert await enrolled(office.ledger, [MARA, RILEY, CLEO]) == ["cleo", "mara"]


async def test_an_operator_code_is_not_a_second_factor(browser: Browser, office: Channels) -> None:
    """It only allows adding a passkey, and is not a second factor."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    await signed_in(browser, office)
    code = await invite(office.ledger, "mara", by="op")
    answer = await browser.press(page_of(approval.id), code=code, invitation=code)
    assert answer.status_code == 403


async def test_a_passkey_confirms_a_two_step_approval(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """It counts as the second factor; the session is renamed, and the audit names the passkey."""
    approval, _ = await office.ask()
    await office.decider.approve(approval.id, MARA, channel="email")
    path = page_of(approval.id)
    assert "Use a passkey" in (await browser.get(path)).text
    assert (await browser.press(path)).status_code == 403
    before = browser.session
    assert (await prove(browser, csrf, device)).status_code == 200
    assert browser.session != before
    assert (await browser.press(path)).status_code == 303
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
    assert (await office.events(approval))[-1].more["second_factor"] == "passkey"
    (one,) = await passkeys_of(office.ledger, MARA)
    assert (one.count, one.used) == (2, await office.ledger.now())


async def test_a_passkey_signs_in_without_an_address(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """The session is fresh immediately, and leads to the wanted page."""
    browser.session = ""
    assert "Sign in with a passkey" in (await browser.get("/inbox/sign-in")).text
    answer = await sign_in(browser, device, next="/inbox/away")
    assert answer.headers["Location"] == "/inbox/away"
    session = (await Sessions(office.ledger, SETTINGS).of_person("mara"))[0]
    assert (session.how, session.factor) == (How.PASSKEY, "passkey")
    for to in ("https://evil.example", "//evil.example"):
        assert (await sign_in(browser, device, next=to)).headers["Location"] == "/inbox/"


async def lying(device: Authenticator, lie: str) -> None:
    """Return the device with false answers."""
    match lie:
        case "another page":
            device.origin = "https://approvals.example.com.evil.example"
        case "another host":
            device.host = "evil.example"
        case "nobody there":
            device.verifies = False
        case "a copy":
            device.counts = 0
        case "another key":
            device.key = Authenticator("", "").key
        case "unknown":
            device.id = b"x" * 16


LIES = ["another page", "another host", "nobody there", "a copy", "another key", "unknown"]


@pytest.mark.parametrize("lie", LIES)
async def test_an_answer_that_does_not_count(
    browser: Browser, office: Channels, csrf: str, device: Authenticator, lie: str
) -> None:
    """An answer for another site, or without its user, neither confirms nor signs in."""
    await lying(device, lie)
    assert (await prove(browser, csrf, device)).status_code == 403
    browser.session = ""
    answer = await sign_in(browser, device)
    assert answer.status_code == 401
    assert 'role="alert"' in answer.text
    assert browser.session == ""


@pytest.mark.parametrize("lie", ["another page", "another host", "nobody there"])
async def test_a_passkey_that_is_not_added(
    browser: Browser, office: Channels, device: Authenticator, lie: str
) -> None:
    """It was made for another site or without its user."""
    csrf = await signed_in(browser, office)
    await lying(device, lie)
    answer = await add(browser, csrf, device, code=await browser.code())
    assert answer.status_code == 403
    assert await passkeys_of(office.ledger, MARA) == []


async def test_a_passkey_challenge_is_used_once(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """The challenge is used up by the first answer, even if several arrive together."""
    offer = (await browser.post(f"{SIGN_IN}/offer", {"next": ""})).json()
    form = {"credential": device.sign(offer)}
    browser.session = ""
    answers = await asyncio.gather(*(browser.post(SIGN_IN, form) for _ in range(4)))
    assert sorted(one.status_code for one in answers) == [303, 401, 401, 401]


async def test_a_passkey_response_counts_only_for_its_challenge(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """Another ceremony, session or time does not accept it."""
    asked = {
        "prove": (await browser.post("/inbox/passkey/offer", {"csrf": csrf})).json(),
        "sign in": (await browser.post(f"{SIGN_IN}/offer", {"next": ""})).json(),
        "own": {"challenge": "A" * 43},
    }
    for name in ("sign in", "own"):
        form = {"csrf": csrf, "credential": device.sign(asked[name])}
        assert (await browser.post("/inbox/passkey/prove", form)).status_code == 403
    other = await signed_in(browser, office)
    form = {"csrf": other, "credential": device.sign(asked["prove"])}
    assert (await browser.post("/inbox/passkey/prove", form)).status_code == 403
    for name in ("prove", "own"):
        answer = await browser.post(SIGN_IN, {"credential": device.sign(asked[name])})
        assert answer.status_code == 401
    late = {"credential": device.sign(asked["sign in"])}
    office.clock.advance(timedelta(minutes=5))
    assert (await browser.post(SIGN_IN, late)).status_code == 401


async def test_a_passkey_of_another_person_is_refused(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """In another person's session it is refused."""
    browser.session = ""
    others = await signed_in(browser, office, CLEO)
    assert "no passkey yet" in (await prove(browser, others, device)).json()["problem"]
    mine = Authenticator(ORIGIN, "approvals.example.com")
    assert (await add(browser, others, mine, code=await browser.code(CLEO))).status_code == 303
    assert (await prove(browser, others, device)).status_code == 403
    stolen = (await passkeys_of(office.ledger, MARA))[0].id
    await browser.post(REMOVE, {"csrf": others, "passkey": stolen})
    assert len(await passkeys_of(office.ledger, MARA)) == 1


async def test_the_next_person_with_an_id_does_not_inherit_passkeys(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """The earlier person's device neither signs in as the present person nor confirms for them."""
    heir = MARA.model_copy(update={"name": "Mara Lind", "email": "mara.lind@example.com"})
    everybody = [heir if one.id == heir.id else one for one in office.directory]
    office.directory.become(Directory(everybody))
    assert await passkeys_of(office.ledger, heir) == []
    assert not (await prove(browser, csrf, device)).is_success
    browser.session = ""
    assert (await sign_in(browser, device)).status_code == 401
    # The same person with another address: the earlier one is still theirs.
    same = heir.model_copy(update={"aliases": (MARA.email,)})
    office.directory.become(Directory([same if one.id == same.id else one for one in everybody]))
    assert (await sign_in(browser, device)).status_code == 303


async def test_a_registered_passkey_cannot_be_added_again(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """Another person cannot add it either, because it would become theirs."""
    browser.session = ""
    others = await signed_in(browser, office, CLEO)
    answer = await add(browser, others, device, code=await browser.code(CLEO))
    assert answer.status_code == 403
    assert [one.person for one in await passkeys_of(office.ledger, MARA)] == ["mara"]


async def test_a_passkey_is_removed_with_a_second_factor(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """Afterwards it is refused everywhere."""
    (one,) = await passkeys_of(office.ledger, MARA)
    form = {"csrf": csrf, "passkey": one.id}
    assert (await browser.post(REMOVE, form)).status_code == 403
    assert (await prove(browser, csrf, device)).status_code == 200
    assert (await browser.post(REMOVE, form)).status_code == 303
    assert await passkeys_of(office.ledger, MARA) == []
    assert (await sign_in(browser, device)).status_code == 401


async def test_one_second_factor_check_unlocks_the_settings(
    browser: Browser, office: Channels, csrf: str
) -> None:
    """The page asks for a second factor once, and then allows the changes."""
    page = await browser.get(PAGE)
    assert "Confirm your identity" in page.text
    assert REMOVE not in forms_of(page)
    form = forms_of(page)["/inbox/security/proof"]
    refused = await browser.post("/inbox/security/proof", form | {"code": "000000"})
    assert refused.status_code == 403
    assert 'role="alert"' in refused.text
    right = form | {"code": await browser.code()}
    assert (await browser.post("/inbox/security/proof", right)).headers["Location"] == PAGE
    page = await browser.get(PAGE)
    assert "Confirm your identity" not in page.text
    assert "invitation" not in forms_of(page)[ADD]
    assert REMOVE in forms_of(page)


async def test_removing_the_second_factor_removes_passkeys_and_sessions(
    browser: Browser, office: Channels, csrf: str, device: Authenticator
) -> None:
    """Removing the second factor ends the passkeys and the sessions too."""
    assert await unenroll(office.ledger, "mara", by="op")
    assert await passkeys_of(office.ledger, MARA) == []
    assert (await browser.get(PAGE)).status_code == 303
    assert (await sign_in(browser, device)).status_code == 401


@pytest.mark.parametrize(
    "credential",
    ["", "x", "[]", "{}", "[" * 5000, '{"response": {"clientDataJSON": "e30"}}', '{"id": 1}'],
)
async def test_a_malformed_passkey_response_is_refused(
    browser: Browser, office: Channels, csrf: str, credential: str
) -> None:
    """It is refused, and nothing else happens."""
    form = {"csrf": csrf, "credential": credential}
    assert (await browser.post("/inbox/passkey/prove", form)).status_code == 403
    assert (await browser.post(ADD, form)).status_code == 403
    assert (await browser.post(SIGN_IN, form)).status_code == 401


@pytest.mark.parametrize(
    "path", [OFFER, ADD, REMOVE, "/inbox/passkey/offer", "/inbox/passkey/prove"]
)
async def test_a_form_of_another_page_or_session_is_refused(
    browser: Browser, office: Channels, csrf: str, path: str
) -> None:
    """Each form needs the session's own token and this page's origin."""
    assert (await browser.post(path, {"csrf": "x"})).status_code == 403
    form = {"csrf": csrf}
    assert (await browser.post(path, form, Origin="https://evil.example")).status_code == 403
    browser.session = ""
    assert (await browser.post(path, form)).status_code == 303
    assert (await browser.get(path)).status_code == 405


async def test_the_audit_records_invitations_passkeys_and_sign_ins(
    browser: Browser, office: Channels, csrf: str
) -> None:
    """The audit has invitations, added passkeys and the method of each sign-in."""
    from signoff.broker.ledger import audit
    from signoff.core.approvals.events import Event

    await invite(office.ledger, "mara", by="op")
    store = office.ledger.store
    entries = [Event.model_validate_json(one) async for _, one, _ in audit.entries(store)]
    found = [one for one in entries if one.more.get("factor") == "passkey"]
    assert [(one.what, one.by, one.more["name"]) for one in found] == [
        (What.ENROLLED, "mara", "My key")
    ]
    assert entries[-1].what is What.INVITED


async def test_the_page_lists_and_ends_sessions(
    browser: Browser, office: Channels, csrf: str
) -> None:
    """Each browser is named, and the current one is marked."""
    sessions = Sessions(office.ledger, SETTINGS)
    here = browser.session
    there = await sessions.begin("mara", how=How.OIDC, browser="Safari on iPhone", also=Change())
    page = await browser.get(PAGE)
    assert "Safari on iPhone" in page.text
    assert "This browser" in page.text
    form = forms_of(page)["/inbox/security/sessions/end"]
    assert (await browser.post("/inbox/security/sessions/end", form)).status_code == 303
    assert await sessions.find(there) is None
    assert await sessions.find(here) is not None


@pytest.mark.parametrize(
    ("url", "able"),
    [
        ("https://approvals.example.com", True),
        ("http://localhost:8080", True),
        ("http://127.0.0.1:8080", False),
        ("http://[::1]:8080", False),
    ],
)
def test_passkeys_are_for_hosts_with_a_name(url: str, able: bool) -> None:
    """Browsers do not store passkeys for IP addresses."""
    assert InboxSettings(url=url, secret_key="k" * 32).has_passkeys is able


async def test_passkey_options_require_this_host_and_a_verified_user(
    browser: Browser, office: Channels, csrf: str
) -> None:
    """This host, a verified user, no device twice; other pages do not learn who it is."""
    code = await browser.code()
    offer = json.loads((await browser.post(OFFER, {"csrf": csrf, "code": code})).text)
    assert offer["rp"]["id"] == "approvals.example.com"
    assert offer["authenticatorSelection"]["userVerification"] == "required"
    assert len(offer["excludeCredentials"]) == 1
    assert MARA.id.encode() not in base64url_to_bytes(offer["user"]["id"])


async def test_pending_challenges_per_address_are_limited(browser: Browser) -> None:
    """One address cannot fill the ledger with challenges."""
    form = {"next": ""}
    codes = [(await browser.post(f"{SIGN_IN}/offer", form)).status_code for _ in range(121)]
    assert codes == [200] * 120 + [429]


async def test_a_replaced_factor_takes_the_passkeys_with_it(
    browser: Browser, office: Channels, device: Authenticator
) -> None:
    """A lost phone may have held only a passkey: its replacement ends it, a first app does not."""
    await unenroll(office.ledger, "mara", by="test")
    csrf = await signed_in(browser, office)
    code = await invite(office.ledger, "mara", by="op")
    assert (await add(browser, csrf, device, invitation=code)).status_code == 303
    factors = Factors(office.ledger, SETTINGS.secret_key)
    await factors.enroll(MARA, by="test")
    assert await passkeys_of(office.ledger, MARA)
    await unenroll(office.ledger, "mara", by="test")
    csrf = await signed_in(browser, office)
    code = await invite(office.ledger, "mara", by="op")
    assert (await add(browser, csrf, device, invitation=code)).status_code == 303
    await factors.enroll(MARA, by="test", replace=True)
    assert not await passkeys_of(office.ledger, MARA)
