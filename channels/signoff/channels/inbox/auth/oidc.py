"""The sign-in of a company: OpenID Connect, by authorization code with PKCE.

A cookie binds the sign-in to the browser: the state's record has the cookie's hash, and verifier
(RFC 7636) and nonce are made from the cookie and the state. So nobody can sign in another person's
browser, and an intercepted code or ID token is useless.

Authlib checks the claims and makes the challenge; its Starlette integration (1.7) is not used:

- It passes the discovery document's members to its HTTP client: ``{"verify": false}`` there turns
  off the check of certificates, and ``proxy`` and ``timeout`` are taken as well.
- It checks neither the audience nor RFC 9207's issuer, and accepts the algorithms that the document
  names. It goes by this machine's clock, keeps state, nonce and verifier in the session for an
  hour, lets two callbacks use one state, and reads answers of any length.
- To change each of these, Signoff would override a private method, so the code would not be
  shorter. Its support of httpx is deprecated, and all other parts of Signoff use httpx.
"""

from __future__ import annotations

import base64
import hmac
import json
import secrets
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import httpx
import structlog
from authlib.oauth2.rfc7636 import create_s256_code_challenge
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.inbox.settings import ROOT, OidcSettings
from signoff.channels.web.signatures import sha256_of
from signoff.core.base.errors import Conflict
from signoff.core.base.networks import is_loopback

log = structlog.get_logger(__name__)

CALLBACK: Final = f"{ROOT}/sign-in/oidc/callback"
"""The path that the provider sends people back to."""

LASTS: Final = timedelta(minutes=10)
"""How long a sign-in there may take."""

_KNOWN: Final = timedelta(hours=1)
_KEYS_AGAIN: Final = timedelta(seconds=30)
"""How soon keys are fetched again because a token names an unknown one."""

_SKEW: Final = 60
"""Seconds that the clocks of provider and ledger may differ."""

_ALGORITHMS: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}
)
"""Signatures by keys that only the provider has: never ``none``, never a shared secret."""

_SIGNED: Final = "id_token_signing_alg_values_supported"
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_TIMEOUT: Final = 10.0
_LARGEST: Final = 1 << 20


class SignInError(Exception):
    """The sign-in has failed; the message is for the person."""


@dataclass(frozen=True, slots=True)
class Known:
    """The configuration of the provider.

    Attributes:
        about: Its metadata (OpenID Connect Discovery 1.0).
        keys: The keys that it signs with.
        algorithms: The algorithms that it signs with and that are accepted; at least one.
        methods: How clients prove themselves at its token endpoint.
        at: When they were fetched (UTC).
    """

    about: dict[str, Any]
    keys: KeySet
    algorithms: Sequence[str]
    methods: Sequence[str]
    at: datetime


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Somebody who has signed in at the provider.

    Attributes:
        address: The email address of the person, which the provider has verified.
        to: The path to show after the sign-in.
    """

    address: str
    to: str


class OpenId:
    """Signs people in at one provider.

    Args:
        ledger: Keeps the sign-ins that have begun.
        settings: The provider.
        url: The address of the page.

    Attributes:
        back: The address that the provider sends people back to.
    """

    def __init__(self, ledger: Ledger, settings: OidcSettings, url: str) -> None:
        self._ledger = ledger
        self._settings = settings
        self.back = f"{url}{CALLBACK}"
        self._known: Known | None = None

    async def begin(self, *, to: str, secret: str) -> str:
        """Return the address at the provider to send a browser to.

        `to` is the path to show after the sign-in; the secret is the browser's cookie.

        Raises:
            SignInError: The metadata of the provider cannot be read.
        """
        about = (await self.known()).about
        state = secrets.token_urlsafe(32)
        data = {
            "to": to,
            "bound": sha256_of(secret),
            "until": (await self._ledger.now() + LASTS).isoformat(),
        }
        await self._ledger.commit(Change().put_raw(_key(state), json.dumps(data), ttl=LASTS))
        query = {
            "response_type": "code",
            "client_id": self._settings.client_id,
            "redirect_uri": self.back,
            "scope": " ".join(self._settings.scopes),
            "state": state,
            "nonce": _made("nonce", state, secret),
            "code_challenge": create_s256_code_challenge(_made("verifier", state, secret)),
            "code_challenge_method": "S256",
        }
        place = str(about["authorization_endpoint"])
        return f"{place}{'&' if urlsplit(place).query else '?'}{urlencode(query)}"

    async def finish(self, answer: Mapping[str, str], secret: str) -> SignedIn:
        """Return who has signed in, from the parameters that the browser brings back.

        They are those of OpenID Connect Core 1.0, 3.1.2.5; the secret is the browser's cookie.

        Raises:
            SignInError: Nobody has signed in; the message says why.
        """
        state = answer.get("state", "")
        record = await self._ledger.raw(_key(state)) if state else None
        data = json.loads(record[1]) if record is not None else {}
        begun = record is not None and hmac.compare_digest(data["bound"], sha256_of(secret))
        if not begun or await self._ledger.now() >= datetime.fromisoformat(data["until"]):
            raise SignInError("This sign-in began in another browser, or has expired. Start again.")
        used = Change().put_raw(_key(state), "", was=record[0] if record is not None else 0)
        known = await self.known()
        self._require_issuer(known, answer)
        if "error" in answer:
            await self._ledger.commit_all([used])
            raise SignInError(_error_text(answer["error"]))
        try:
            # A code is sent to the provider once, even if that fails.
            await self._ledger.commit(used)
        except Conflict as error:
            raise SignInError("This sign-in was already used. Start again.") from error
        token = await self._exchange(
            known, answer.get("code", ""), _made("verifier", state, secret)
        )
        claims = await self._claims(token, nonce=_made("nonce", state, secret))
        address = await self._address(known, claims, token)
        return SignedIn(address=address, to=str(data["to"]))

    async def known(self, *, anew: bool = False) -> Known:
        """Return the metadata and keys of the provider, which are read again every hour.

        Raises:
            SignInError: It cannot be asked, or its answer cannot be used.
        """
        now = await self._ledger.now()
        if self._known is not None and not anew and now < self._known.at + _KNOWN:
            return self._known
        issuer = self._settings.issuer
        about = await _get(f"{issuer.rstrip('/')}/.well-known/openid-configuration")
        if about.get("issuer") != issuer:
            raise SignInError(
                f"The issuer of {issuer} is {about.get('issuer')!r}: set [inbox.oidc] issuer "
                "to exactly that."
            )
        # Some providers write null for what they leave out.
        about = {name: one for name, one in about.items() if one is not None}
        for name in _ENDPOINTS:
            _require_safe(str(about.get(name, "")), name)
        # With an empty list, joserfc would accept its own defaults.
        if not (able := sorted(_ALGORITHMS.intersection(_names(about, _SIGNED, "RS256")))):
            raise SignInError(f"{issuer} signs with no algorithm that Signoff accepts.")
        methods = _names(about, "token_endpoint_auth_methods_supported", "client_secret_basic")
        keys = await _get(str(about["jwks_uri"]))
        try:
            known = KeySet.import_key_set({"keys": [one for one in keys["keys"] if _signs(one)]})
        except (JoseError, KeyError, TypeError, ValueError) as error:
            raise SignInError(f"The keys of {issuer} cannot be read: {error}") from error
        self._known = Known(about, known, able, methods, now)
        return self._known

    def _require_issuer(self, known: Known, answer: Mapping[str, str]) -> None:
        """Refuse the response of another provider (RFC 9207)."""
        says = known.about.get("authorization_response_iss_parameter_supported") is True
        if answer.get("iss", self._settings.issuer if not says else "") != self._settings.issuer:
            raise SignInError("This answer does not come from your company's sign-in. Start again.")

    async def _exchange(self, known: Known, code: str, verifier: str) -> dict[str, Any]:
        """Return the tokens for a code (RFC 6749, section 4.1.3)."""
        client, secret = self._settings.client_id, self._settings.client_secret.get_secret_value()
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.back,
            "code_verifier": verifier,
        }
        auth = None
        if secret and "client_secret_basic" in known.methods:
            # RFC 6749, section 2.3.1: both are form-encoded first.
            auth = httpx.BasicAuth(quote(client, safe=""), quote(secret, safe=""))
        else:
            form |= {"client_id": client} | ({"client_secret": secret} if secret else {})
        return await _ask("POST", str(known.about["token_endpoint"]), data=form, auth=auth)

    async def _claims(self, token: Mapping[str, Any], *, nonce: str) -> dict[str, Any]:
        """Return the claims of the ID token, verified (OpenID Connect Core 1.0, 3.1.3.7)."""
        known, now = await self.known(), await self._ledger.now()
        try:
            try:
                found = self._decoded(known, token)
            except (JoseError, ValueError):
                if now < known.at + _KEYS_AGAIN:
                    raise
                # A new key may have signed it.
                found = self._decoded(await self.known(anew=True), token)
            claims = CodeIDToken(
                found.claims,
                found.header,
                {
                    "iss": {"essential": True, "value": self._settings.issuer},
                    "aud": {"essential": True, "value": self._settings.client_id},
                },
                {
                    "nonce": nonce,
                    "client_id": self._settings.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(int(now.timestamp()), _SKEW)
        except (JoseError, ValueError, TypeError) as error:
            log.warning("inbox.oidc_token_refused", error=f"{type(error).__name__}: {error}")
            raise SignInError(
                "The answer of your company's sign-in does not prove who you are. Start again. "
                "If it happens again, ask your Signoff operator."
            ) from error
        return dict(claims)

    @staticmethod
    def _decoded(known: Known, token: Mapping[str, Any]) -> jwt.Token:
        text = str(token.get("id_token", ""))
        return jwt.decode(text, known.keys, algorithms=list(known.algorithms))

    async def _address(
        self, known: Known, claims: Mapping[str, Any], token: Mapping[str, Any]
    ) -> str:
        """Return the address that the provider has verified.

        The address and its verification come from one source, the ID token or else userinfo:
        neither of them verifies an address that only the other one has.
        """
        place = str(known.about.get("userinfo_endpoint", ""))
        if "email" not in claims and place:
            _require_safe(place, "userinfo_endpoint")
            bearer = {"Authorization": f"Bearer {token.get('access_token', '')}"}
            more = await _ask("GET", place, headers=bearer)
            if more.get("sub") != claims["sub"]:
                raise SignInError("Your company's sign-in named two different people. Start again.")
            claims = more
        address, verified = claims.get("email"), claims.get("email_verified")
        if not isinstance(address, str) or "@" not in address:
            raise SignInError(
                "Your company's sign-in did not send your email address. Ask your Signoff operator."
            )
        if verified is not True:
            raise SignInError(
                f"Your company's sign-in has not verified that {address} is yours. Verify it "
                "there, or ask your Signoff operator."
            )
        return address


async def _get(url: str) -> dict[str, Any]:
    return await _ask("GET", url)


async def _ask(
    method: str,
    url: str,
    *,
    data: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
    auth: httpx.BasicAuth | None = None,
) -> dict[str, Any]:
    """Return the JSON object that the provider answers."""
    host = urlsplit(url).hostname
    try:
        async with (
            httpx.AsyncClient(timeout=_TIMEOUT, verify=_tls()) as client,
            client.stream(method, url, data=data, headers=headers, auth=auth) as answer,
        ):
            body = bytearray()
            async for chunk in answer.aiter_bytes():
                body += chunk
                if len(body) > _LARGEST:
                    raise SignInError(f"The response of {host} is too large.")
        content = json.loads(body)
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, RecursionError) as error:
        log.warning("inbox.oidc_unavailable", url=url, error=f"{type(error).__name__}: {error}")
        raise SignInError(
            f"Your company's sign-in at {host} cannot be reached, or does not answer as it should. "
            "Try again in a minute, or use another method."
        ) from error
    if answer.status_code != httpx.codes.OK or not isinstance(content, dict):
        code = str(content.get("error", "")) if isinstance(content, dict) else ""
        log.warning("inbox.oidc_refused", url=url, status=answer.status_code, code=code)
        raise SignInError(_error_text(code or f"status {answer.status_code}"))
    return content


@cache
def _tls() -> ssl.SSLContext:
    """Return the TLS settings. They are cached, because reading all authorities is slow."""
    return httpx.create_ssl_context()


def _names(about: Mapping[str, Any], member: str, usual: str) -> Sequence[str]:
    """Return the names in a member of the metadata; without the member, the usual one."""
    found = about.get(member, [usual])
    if not isinstance(found, list):
        raise SignInError(f"The {member} of your company's sign-in is not a list.")
    return [one for one in found if isinstance(one, str)]


def _require_safe(url: str, name: str) -> None:
    try:
        parts = urlsplit(url)
        safe = parts.scheme == "https" or is_loopback(parts.hostname or "")
    except ValueError:
        safe = False
    if not safe:
        raise SignInError(f"The {name} of your company's sign-in, {url!r}, is not on https.")


def _signs(key: object) -> bool:
    if not isinstance(key, dict):
        raise TypeError("a key is not an object")
    return key.get("use", "sig") == "sig" and key.get("kty") in {"RSA", "EC", "OKP"}


def _error_text(code: str) -> str:
    if code == "access_denied":
        return "Your company's sign-in refused you, or you cancelled it."
    # The provider chose this word: it is shown without characters that could be markup.
    plain = "".join(one for one in code[:60] if one.isascii() and (one.isalnum() or one in "_ -"))
    return f"Your company's sign-in says {plain!r}. Start again, or ask your Signoff operator."


def _made(what: str, state: str, secret: str) -> str:
    """Return a value of 256 bits that only the browser's cookie can make (43 characters)."""
    digest = hmac.digest(secret.encode(), f"{what}\0{state}".encode(), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


def _key(state: str) -> str:
    return f"oidc:{sha256_of(state)}"
