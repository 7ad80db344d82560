"""Sign-in by OpenID Connect at a provider over real HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pyotp
import pytest
from joserfc import jwt
from joserfc.jwk import ECKey, OctKey
from pydantic import JsonValue, SecretStr, ValidationError

from browser import ORIGIN, SETTINGS, Browser
from builders import CLEO, MARA
from channels.conftest import Channels
from leaks import text_in
from openid import CLIENT, SECRET, Provider, provider
from signoff.channels.gateway import make_gateway
from signoff.channels.inbox.auth.sessions import How, Sessions
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.inbox.settings import InboxSettings, OidcSettings
from signoff.testing import VirtualClock

BEGIN, BACK = "/inbox/sign-in/oidc", "/inbox/sign-in/oidc/callback"


@pytest.fixture
def company(clock: VirtualClock) -> Iterator[Provider]:
    """Return a provider that signs Mara in, on the tests' clock."""
    with provider(email=MARA.email, email_verified=True) as made:
        made.now = lambda: clock.now().timestamp()
        yield made


def settings_for(company: Provider) -> InboxSettings:
    """Return the settings of a page with this provider."""
    oidc = OidcSettings(
        issuer=company.issuer, client_id=CLIENT, client_secret=SecretStr(SECRET), name="Example"
    )
    return SETTINGS.model_copy(update={"sign_in": ("oidc", "link"), "oidc": oidc})


@pytest.fixture
async def browser(
    office: Channels, apps: dict[str, pyotp.OTP], company: Provider
) -> AsyncIterator[Browser]:
    """Return a browser without a session."""
    app = make_gateway(office.ledger)
    app.include_router(make_inbox_router(office.decider, settings_for(company)))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as http:
        yield Browser(http, apps, office.ledger)


async def sent_back(browser: Browser, to: str = "/inbox/") -> str:
    """Begin, sign in at the provider, and return the path and query of the redirect."""
    begun = await browser.http.get(BEGIN, params={"next": to})
    assert begun.status_code == 303, begun.text
    async with httpx.AsyncClient(verify=False, timeout=60) as there:
        answer = await there.get(begun.headers["Location"])
    place = answer.headers["Location"]
    assert place.startswith(ORIGIN + BACK)
    return place.removeprefix(ORIGIN)


async def sign_in(browser: Browser, to: str = "/inbox/") -> httpx.Response:
    """Sign in completely."""
    return await browser.get(await sent_back(browser, to))


def refused(answer: httpx.Response, words: str) -> None:
    """Check that nobody is signed in and that the page gives the reason."""
    assert answer.status_code == 403, answer.text
    assert words in answer.text
    assert "__Host-signoff=" not in answer.headers.get("Set-Cookie", "")


async def test_a_person_signs_in_with_oidc_and_reaches_the_wanted_page(
    browser: Browser, office: Channels
) -> None:
    """From the link on the page to the wanted page; the session records how it began."""
    page = await browser.get("/inbox/sign-in?next=/inbox/away")
    assert 'href="/inbox/sign-in/oidc?next=/inbox/away"' in page.text
    assert "Sign in with Example" in page.text
    answer = await sign_in(browser, "/inbox/away")
    assert answer.headers["Location"] == "/inbox/away"
    assert "Mara" in (await browser.get("/inbox/away")).text
    (session,) = await Sessions(office.ledger, SETTINGS).of_person("mara")
    assert (session.how, session.factor) == (How.OIDC, "")


async def test_an_alias_is_the_person(
    browser: Browser, office: Channels, company: Provider
) -> None:
    """The provider may write the address in any case."""
    company.person["email"] = MARA.aliases[0].upper()
    assert (await sign_in(browser)).status_code == 303
    assert await Sessions(office.ledger, SETTINGS).of_person("mara")


async def test_claims_that_only_userinfo_has(
    browser: Browser, office: Channels, company: Provider
) -> None:
    """They are fetched with the token and must have the same subject."""
    company.lies |= {"email": None, "email_verified": None}
    company.userinfo |= {"sub": "248289761001", "email": CLEO.email, "email_verified": True}
    assert (await sign_in(browser)).status_code == 303
    assert await Sessions(office.ledger, SETTINGS).of_person("cleo")
    company.userinfo["sub"] = "another"
    browser.session = ""
    refused(await sign_in(browser), "two different people")


@pytest.mark.parametrize(
    ("token", "userinfo"),
    [
        ({"email": None, "email_verified": True}, {"email": CLEO.email}),
        ({"email": None, "email_verified": True}, {"email": CLEO.email, "email_verified": False}),
        ({"email_verified": None}, {"email_verified": True}),
        ({"email_verified": None}, {"email": CLEO.email, "email_verified": True}),
        ({"email_verified": False}, {"email": MARA.email, "email_verified": True}),
    ],
)
async def test_an_address_is_verified_by_its_provider(
    browser: Browser,
    office: Channels,
    company: Provider,
    token: dict[str, object] | dict[str, None] | dict[str, bool],
    userinfo: dict[str, object] | dict[str, bool],
) -> None:
    """A verified mark of the ID token does not apply to userinfo's address, or vice versa."""
    company.lies |= token
    company.userinfo |= {"sub": "248289761001", **userinfo}
    refused(await sign_in(browser), "has not verified")
    for person in ("mara", "cleo"):
        assert not await Sessions(office.ledger, SETTINGS).of_person(person)


async def test_a_client_secret_by_form(browser: Browser, company: Provider) -> None:
    """This holds for a provider that accepts no other method."""
    company.about["token_endpoint_auth_methods_supported"] = ["client_secret_post"]
    assert (await sign_in(browser)).status_code == 303


async def test_keys_that_are_changed(
    browser: Browser, company: Provider, clock: VirtualClock
) -> None:
    """A token with an unknown key fetches the keys again, at a limited rate."""
    assert (await sign_in(browser)).status_code == 303
    company.rotate()
    refused(await sign_in(browser), "does not prove")
    clock.advance(timedelta(seconds=31))
    assert (await sign_in(browser)).status_code == 303
    assert company.asked.count("/jwks") == 2


@pytest.mark.parametrize("seconds", [-50, 50])
async def test_clocks_may_differ_by_a_minute(
    browser: Browser, company: Provider, clock: VirtualClock, seconds: int
) -> None:
    """A token from 50 seconds ahead, or expired 50 seconds ago, is accepted."""
    now = int(clock.now().timestamp()) + seconds
    company.lies |= {
        "iat": now - (300 if seconds < 0 else 0),
        "exp": now + (0 if seconds < 0 else 300),
    }
    assert (await sign_in(browser)).status_code == 303


@pytest.mark.parametrize(
    "lies",
    [
        {"iss": "https://evil.example"},
        {"aud": "another"},
        {"aud": [CLIENT, "another"]},
        {"aud": [CLIENT, "another"], "azp": "another"},
        {"azp": "another"},
        {"nonce": "replayed"},
        {"nonce": None},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": 32_000_000_000},
        {"sub": None},
        {"iss": None},
        {"aud": None},
        {"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"},
    ],
)
async def test_a_foreign_or_expired_id_token_is_refused(
    browser: Browser, company: Provider, lies: dict[str, Any]
) -> None:
    """It is for another page, another sign-in or another time."""
    company.lies |= lies
    refused(await sign_in(browser), "does not prove who you are")


def unsigned(claims: dict[str, Any]) -> str:
    """Make a token without a signature."""
    parts = ({"alg": "none", "typ": "JWT"}, claims)
    coded = [base64.urlsafe_b64encode(json.dumps(one).encode()).decode() for one in parts]
    return ".".join(one.rstrip("=") for one in (*coded, ""))


def by_secret(claims: dict[str, Any]) -> str:
    """Make a token that is signed with the client's secret."""
    return jwt.encode({"alg": "HS256"}, claims, OctKey.import_key(SECRET), algorithms=["HS256"])


def by_another(claims: dict[str, Any]) -> str:
    """Make a token with an attacker's key under the provider's key name."""
    key = ECKey.generate_key("P-256")
    return jwt.encode({"alg": "ES256", "kid": "first"}, claims, key)


def by_its_own(claims: dict[str, Any]) -> str:
    """Make a token that contains its own key."""
    key = ECKey.generate_key("P-256")
    return jwt.encode({"alg": "ES256", "jwk": key.as_dict(private=False)}, claims, key)


def cut(claims: dict[str, Any]) -> str:
    """Make a token without its last part."""
    return by_another(claims).rpartition(".")[0] + "."


@pytest.mark.parametrize("sign", [unsigned, by_secret, by_another, by_its_own, cut, lambda _: "x"])
async def test_an_id_token_that_the_provider_has_not_signed(
    browser: Browser, company: Provider, sign: Callable[[dict[str, Any]], str]
) -> None:
    """Unsigned, signed with the shared secret, or with an attacker's key: all are refused."""
    company.sign = sign
    company.about["id_token_signing_alg_values_supported"] = ["ES256", "HS256", "none"]
    refused(await sign_in(browser), "does not prove who you are")


@pytest.mark.parametrize(
    ("person", "words"),
    [
        ({"email_verified": False}, "has not verified"),
        ({"email_verified": None}, "has not verified"),
        ({"email_verified": "true"}, "has not verified"),
        ({"email": None}, "did not send your email address"),
        ({"email": "mara"}, "did not send your email address"),
        ({"email": [MARA.email]}, "did not send your email address"),
        ({"email": "stranger@example.com"}, "not in the directory"),
        ({"email": "<b>x@example.com"}, "&lt;b&gt;x@example.com"),
    ],
)
async def test_an_unknown_person_or_unverified_address_is_refused(
    browser: Browser, company: Provider, person: dict[str, JsonValue], words: str
) -> None:
    """The same holds if the provider does not verify the address; the page says so."""
    company.lies |= person
    company.userinfo |= {"sub": "248289761001"}
    refused(await sign_in(browser), words)


async def test_a_callback_is_accepted_once(browser: Browser) -> None:
    """Neither state nor code counts twice, even in the same browser."""
    back = await sent_back(browser)
    assert (await browser.get(back)).status_code == 303
    browser.session = browser.session  # the request, without the cookie of the sign-in
    refused(await browser.get(back), "began in another browser")


async def test_a_callback_in_another_browser_is_refused(browser: Browser) -> None:
    """A link cannot sign a person in as somebody else; the original browser can continue."""
    back = await sent_back(browser)
    jar = browser.http.cookies
    browser.http.cookies = {}
    refused(await browser.get(back), "began in another browser")
    # This browser has begun its own sign-in and gets the redirect of another.
    await sent_back(browser)
    refused(await browser.get(back), "began in another browser")
    browser.http.cookies = jar
    assert (await browser.get(back)).status_code == 303


async def test_a_code_of_another_sign_in(browser: Browser, company: Provider) -> None:
    """A stolen code does not work in a sign-in that the thief has begun."""
    overheard = dict(parse_qsl(urlsplit(await sent_back(browser)).query))
    browser.session = ""
    mine = dict(parse_qsl(urlsplit(await sent_back(browser)).query))
    mixed = {**mine, "code": overheard["code"]}
    refused(await browser.http.get(BACK, params=mixed), "invalid_grant")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"iss": "https://evil.example"}, "does not come from your company"),
        ({"iss": None}, "does not come from your company"),
        ({"state": "x"}, "began in another browser"),
        ({"state": None}, "began in another browser"),
        ({"code": None}, "invalid_grant"),
    ],
)
async def test_a_modified_callback_is_refused(
    browser: Browser, change: dict[str, str] | dict[str, None], words: str
) -> None:
    """A change of any part is refused."""
    query = dict(parse_qsl(urlsplit(await sent_back(browser)).query)) | change
    query = {name: one for name, one in query.items() if one is not None}
    refused(await browser.http.get(BACK, params=query), words)


async def test_an_oidc_sign_in_expires_after_ten_minutes(
    browser: Browser, clock: VirtualClock
) -> None:
    """After that, the sign-in has to be started again."""
    back = await sent_back(browser)
    clock.advance(timedelta(seconds=600))
    refused(await browser.get(back), "began in another browser")


@pytest.mark.parametrize(
    ("error", "words"),
    [("access_denied", "refused you"), ("<script>x", "says &#39;scriptx&#39;")],
)
async def test_a_refusal_of_the_provider_is_shown_as_text(
    browser: Browser, company: Provider, error: str, words: str
) -> None:
    """The page says so, and the provider's text stays text."""
    company.refuses = error
    refused(await sign_in(browser), words)


@pytest.mark.parametrize(
    "token",
    [
        (500, {"error": "server_error"}),
        (200, b"<html>"),
        (200, ["x"]),
        (200, {}),
        (200, {"id_token": None}),
        (302, {}),
        (200, b"[" * 100_000),
        (200, b" " * (2 << 20)),
    ],
)
async def test_an_invalid_provider_response_fails_the_sign_in(
    browser: Browser, company: Provider, token: tuple[int, object]
) -> None:
    """The page says that the sign-in failed, and nothing else happens."""
    company.token = token
    answer = await sign_in(browser)
    assert answer.status_code == 403
    assert "Not signed in" in answer.text


@pytest.mark.parametrize(
    ("about", "words"),
    [
        ({"issuer": "https://evil.example"}, "The issuer of"),
        ({"token_endpoint": "http://login.example.com/token"}, "is not on https"),
        ({"jwks_uri": None}, "is not on https"),
        ({"jwks_uri": "https://["}, "is not on https"),
        ({"authorization_endpoint": "https://["}, "is not on https"),
        *(
            ({"id_token_signing_alg_values_supported": names}, "no algorithm")
            for names in ([], ["none", "HS256"], [["ES256"]])
        ),
        ({"id_token_signing_alg_values_supported": "ES256"}, "is not a list"),
        ({"token_endpoint_auth_methods_supported": 5}, "is not a list"),
    ],
)
async def test_metadata_that_cannot_be_trusted(
    browser: Browser, company: Provider, about: dict[str, object], words: str
) -> None:
    """The sign-in does not begin, and the sign-in page gives the reason."""
    company.about |= about
    answer = await browser.get(BEGIN)
    assert answer.status_code == 502
    assert words in answer.text


@pytest.mark.parametrize("keys", ["x", None, {"kty": ["EC"]}, {"kty": "oct", "k": "AAAA"}])
async def test_keys_that_cannot_be_used(
    browser: Browser, company: Provider, keys: JsonValue
) -> None:
    """The sign-in page says so."""
    company.published = [keys]
    answer = await browser.get(BEGIN)
    assert answer.status_code == 502
    assert "cannot be read" in answer.text


async def test_null_in_the_metadata_means_that_a_value_is_missing(
    browser: Browser, company: Provider
) -> None:
    """Some providers write all members."""
    company.nulls = ("token_endpoint_auth_methods_supported", "userinfo_endpoint", "scopes")
    assert (await sign_in(browser)).headers["Location"] == "/inbox/"


@pytest.mark.parametrize("to", ["https://evil.example/", "//evil.example", "/healthz"])
async def test_oidc_sign_in_redirects_only_to_inbox_pages(browser: Browser, to: str) -> None:
    """The next page is always one of the inbox, whatever the link says."""
    assert (await sign_in(browser, to)).headers["Location"] == "/inbox/"


async def test_a_planted_name_is_not_the_session_s(browser: Browser) -> None:
    """The sign-in makes a new name."""
    browser.session = "A" * 43
    await sign_in(browser)
    assert browser.session not in {"", "A" * 43}


async def test_pending_sign_ins_are_limited(browser: Browser) -> None:
    """A scanner that keeps following the link has to wait."""
    codes = [(await browser.get(BEGIN)).status_code for _ in range(121)]
    assert codes == [303] * 120 + [429]


async def test_the_ledger_contains_no_usable_sign_in_secret(browser: Browser) -> None:
    """State, verifier, nonce and cookie are not in it during a sign-in."""
    begun = await browser.http.get(BEGIN)
    query = dict(parse_qsl(urlsplit(begun.headers["Location"]).query))
    everything = await text_in(browser.ledger)
    for secret in (query["state"], query["nonce"], browser.http.cookies["__Host-signoff-oidc"]):
        assert secret not in everything
    assert json.dumps(query["code_challenge"]) not in everything


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"issuer": "http://login.example.com"}, "would prove nothing"),
        ({"issuer": "login.example.com"}, "not an issuer"),
        ({"issuer": "https://login.example.com/?x"}, "not an issuer"),
        ({"scopes": ("email",)}, "openid"),
        ({"client_id": ""}, "client_id"),
    ],
)
def test_settings_that_would_not_be_safe(
    parts: dict[str, str] | dict[str, tuple[str, ...]], words: str
) -> None:
    """They are refused with the reason."""
    with pytest.raises(ValidationError, match=words):
        OidcSettings(**{"issuer": "https://login.example.com", "client_id": "x"} | parts)


def test_oidc_settings_are_required_together() -> None:
    """Each of them is useless without the other."""
    both = {"url": ORIGIN, "secret_key": SecretStr("k" * 32)}
    oidc = OidcSettings(issuer="https://login.example.com", client_id="x")
    for parts in ({"sign_in": ("oidc",)}, {"oidc": oidc}):
        with pytest.raises(ValidationError, match="come together"):
            InboxSettings(**both, **parts)
