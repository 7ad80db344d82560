"""The settings of the inbox page: the table `[inbox]`."""

import base64
import re
from datetime import timedelta
from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from signoff.core.base.durations import Duration
from signoff.core.base.networks import is_address, is_loopback

CHANNEL: Final = "inbox"
"""The page's name as a channel."""

ROOT: Final = "/inbox"
"""The path below which all pages are."""

_OWN: Final = rf"{ROOT}/(?!sign-)(?:[A-Za-z0-9_-]+(?:/[A-Za-z0-9_-]+)*)?"
"""A path of a page; the pattern is only compiled where it is used."""

SignInMethod = Literal["link", "code", "passkey", "oidc"]
"""How people sign in."""

_SHORTEST_KEY: Final = 32
_KEY_BYTES: Final = 32
_ORDER: Final = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
"""The order of the curve P-256 (FIPS 186-5); private keys are smaller."""


def _base(text: str) -> str:
    if not text:
        return text
    try:
        parts = urlsplit(text)
        _ = parts.port  # parsed on access
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from error
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host or parts.username is not None:
        raise ValueError(f"{text!r} is not a URL like https://approvals.example.com")
    if parts.path not in {"", "/"} or parts.query or parts.fragment:
        raise ValueError(f"{text!r} has a path: the pages are below {ROOT}/ of a host of their own")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{text!r} would carry sessions unencrypted: put TLS before it, https://")
    if not text.isascii() or not text.isprintable():
        raise ValueError(f"{text!r} is not a URL in ASCII")
    # As browsers write an origin: they leave out the usual port.
    usual = {"http": 80, "https": 443}[parts.scheme]
    shown = f"[{host}]" if ":" in host else host
    port = "" if parts.port in {None, usual} else f":{parts.port}"
    return f"{parts.scheme}://{shown}{port}"


def _issuer(text: str) -> str:
    try:
        parts = urlsplit(text)
    except ValueError as error:
        raise ValueError(f"{text!r} is not a URL: {error}") from error
    host = parts.hostname or ""
    if parts.scheme not in {"http", "https"} or not host or parts.query or parts.fragment:
        raise ValueError(f"{text!r} is not an issuer like https://login.example.com")
    if parts.scheme == "http" and not is_loopback(host):
        raise ValueError(f"{text!r} would prove nothing: an issuer is reached by https://")
    return text


class OidcSettings(BaseModel):
    """Sign-in by OpenID Connect.

    Attributes:
        issuer: The issuer, exactly as the provider spells it: ``"https://login.example.com"``. Its
            configuration is discovered.
        client_id: The client id at the provider. Register ``/inbox/sign-in/oidc/callback`` below
            ``url`` as the redirect URI.
        client_secret: The client secret; empty for a public client.
        name: The provider's name on the button: "Sign in with …".
        scopes: The requested scopes.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    issuer: Annotated[str, AfterValidator(_issuer)]
    client_id: str = Field(min_length=1)
    client_secret: SecretStr = SecretStr("")
    name: str = Field("your company", min_length=1, max_length=40)
    scopes: tuple[str, ...] = ("openid", "email")

    @field_validator("scopes", mode="after")
    @classmethod
    def _with_openid(cls, scopes: tuple[str, ...]) -> tuple[str, ...]:
        if "openid" not in scopes:
            raise ValueError('"openid" is missing: nobody could sign in')
        return scopes


class PushSettings(BaseModel):
    """[inbox.push]: notifications in people's browsers (web push). Needs `signoff[push]`.

    Attributes:
        private_key: Signs what push services get (VAPID): 32 random bytes in base64 (`openssl rand
            -base64 32`), the same for all channels processes; no other process gets it. With
            another key everybody has to turn notifications on again.
        contact: Whom a push service asks if something is wrong: ``"mailto:ops@example.com"``.
        allow_private: Allow push services on private networks and this machine, also by plain HTTP.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    private_key: SecretStr = SecretStr("")
    contact: str = Field(pattern=r"^(mailto:[^@\s]+@[^@\s]+|https://\S+)$", max_length=200)
    allow_private: bool = False

    @property
    def number(self) -> int:
        """The private key as a number."""
        return int.from_bytes(_bytes(self.private_key.get_secret_value()))

    @model_validator(mode="after")
    def _usable(self) -> Self:
        if self.private_key.get_secret_value() and not 0 < self.number < _ORDER:
            raise ValueError(
                "private_key is not a valid key: "
                'export SIGNOFF_INBOX__PUSH__PRIVATE_KEY="$(openssl rand -base64 32)"'
            )
        return self


def _bytes(text: str) -> bytes:
    try:
        found = base64.b64decode(text.strip(), validate=True)
    except ValueError:
        return b""
    return found if len(found) == _KEY_BYTES else b""


class InboxSettings(BaseModel):
    """The inbox page.

    Attributes:
        url: The page's public address: ``"https://approvals.example.com"``. A proxy there forwards
            to the gateway. Without it there is no page, and cards have no link.
        secret_key: Encrypts the secrets of authenticator apps in Redis: at least 32 unguessable
            characters (`openssl rand -base64 32`), the same for all gateways.
        secret_key_previous: The previous key, while you change it: it decrypts what it has
            encrypted. `signoff people reseal` then encrypts everything with `secret_key`.
        sign_in: How people sign in: ``"link"`` mails a link to an address of [[people]], ``"code"``
            takes a code of an authenticator app, ``"passkey"`` a passkey added on the page,
            ``"oidc"`` uses OpenID Connect.
        idle: A session ends after this time without a request.
        longest: A session ends after this time at the latest.
        fresh: For how long a second factor remains valid in a session.
        oidc: The sign-in of the company.
        push: Notifications in people's browsers; None for none.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    url: Annotated[str, AfterValidator(_base)] = ""
    secret_key: SecretStr = SecretStr("")
    secret_key_previous: SecretStr = SecretStr("")
    sign_in: Annotated[tuple[SignInMethod, ...], Field(min_length=1)] = (
        "link",
        "code",
        "passkey",
    )
    idle: Duration = timedelta(minutes=30)
    longest: Duration = timedelta(hours=12)
    fresh: Duration = timedelta(minutes=5)
    oidc: OidcSettings | None = None
    push: PushSettings | None = None

    @model_validator(mode="after")
    def _together(self) -> Self:
        key = self.secret_key.get_secret_value()
        # Processes that only link to the page have the url without the key.
        if key and not self.url:
            raise ValueError("url and secret_key come together: set both or none")
        previous = self.secret_key_previous.get_secret_value()
        if previous and not key:
            raise ValueError("secret_key_previous cannot encrypt: set secret_key too")
        for name, one in {"secret_key": key, "secret_key_previous": previous}.items():
            if one and len(one) < _SHORTEST_KEY:
                raise ValueError(
                    f"{name} has less than {_SHORTEST_KEY} characters: "
                    f'export SIGNOFF_INBOX__{name.upper()}="$(openssl rand -base64 32)"'
                )
        if self.push is not None and not self.url:
            raise ValueError("[inbox.push] notifies of requests on the page: set url too")
        if ("oidc" in self.sign_in) != (self.oidc is not None):
            raise ValueError(
                'sign_in with "oidc" and the table [inbox.oidc] come together: set both or none'
            )
        return self

    @property
    def notifies(self) -> PushSettings | None:
        """The settings of notifications if this process sends them; it then has the key."""
        push = self.push
        return push if push is not None and push.private_key.get_secret_value() else None

    @property
    def secure(self) -> bool:
        """Whether browsers reach it over TLS; only localhost may be without."""
        return self.url.startswith("https:")

    @property
    def has_passkeys(self) -> bool:
        """Whether passkeys work: browsers keep them for host names, never for IP addresses."""
        host = urlsplit(self.url).hostname or ""
        return bool(host) and not is_address(host)

    def link_to(self, approval: str) -> str:
        """Return the URL of the page of an approval, "" without an inbox page."""
        return f"{self.url}{page_of(approval)}" if self.url else ""

    @property
    def absence_page(self) -> str:
        """The URL of the page on which people set an absence, "" without an inbox page."""
        return f"{self.url}{ROOT}/away" if self.url else ""


def page_of(approval: str) -> str:
    """Return the path of the page of an approval."""
    return f"{ROOT}/approvals/{approval}"


def own_path(text: str) -> str:
    """Return a path to show after the sign-in; the start page for one that is not ours."""
    return text if re.fullmatch(_OWN, text) else f"{ROOT}/"
