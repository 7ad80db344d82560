"""OAuth tokens for a mailbox (RFC 6749): requested, cached while valid, and never logged."""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final, Self
from urllib.parse import urlsplit

import structlog

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.imap.consent import Consent
from signoff.channels.email.imap.settings import OAuthSettings
from signoff.core.base.errors import MailboxRefused, MailboxUnavailable
from signoff.core.cards.card import one_line

log = structlog.get_logger(__name__)

_EARLY: Final = 300.0
"""A token that expires within this many seconds is no longer used."""

_USUAL_LIFE: Final = 3600.0
_LARGEST_ANSWER: Final = 1 << 16
_LONGEST_REASON: Final = 300


class Tokens:
    """Gets access tokens, with a refresh token or with client credentials.

    An issuer may return a new refresh token with each access token; it then replaces the old one.

    Args:
        settings: The issuer and the client.
        ledger: The ledger, which keeps new refresh tokens.
        timeout: Seconds for one request.
    """

    def __init__(self, settings: OAuthSettings, ledger: Ledger, *, timeout: float) -> None:
        first = settings.refresh_token.get_secret_value()
        self._settings = settings
        self._timeout = timeout
        self._consent = Consent(first, ledger) if first else None
        self._refresh_token = first
        self._token = ""
        self._good_until = 0.0

    async def get(self) -> str:
        """Return an access token that remains valid for a while.

        Raises:
            MailboxUnavailable: The issuer is down or busy.
            MailboxRefused: The issuer refuses: the registration or the consent is not valid.
            LedgerUnavailable: Redis cannot be reached.
        """
        if not self._token or asyncio.get_running_loop().time() >= self._good_until:
            await self._renew()
        return self._token

    def forget(self) -> None:
        """Discard the current token, which the server refused."""
        self._token = ""

    async def _renew(self) -> None:
        if self._consent is not None:
            self._refresh_token = await self._consent.get()
        asked_at = asyncio.get_running_loop().time()
        status, answer = await self._ask()
        token = answer.get("access_token")
        if status != HTTPStatus.OK:
            raise self._refusal(status, answer)
        if not isinstance(token, str) or not token or not (token.isascii() and token.isprintable()):
            raise MailboxRefused(f"{self._where} answered without an access token.")
        other = answer.get("refresh_token")
        if self._consent and isinstance(other, str) and other not in {"", self._refresh_token}:
            await self._consent.replace(other)
        life = answer.get("expires_in")
        seconds = float(life) if isinstance(life, int | float) and life > 0 else _USUAL_LIFE
        # At most half of its lifetime, so that a short-lived token is not renewed at every use.
        self._good_until = asked_at + seconds - min(_EARLY, seconds / 2)
        self._token = token
        log.info("imap.token_renewed", issuer=self._host, seconds=round(seconds))

    async def _ask(self) -> tuple[int, dict[str, Any]]:
        """Request a token; return the HTTP status and the response (RFC 6749, section 5)."""
        settings = self._settings
        form = {"client_id": settings.client_id}
        if secret := settings.client_secret.get_secret_value():
            form["client_secret"] = secret
        if settings.scope:
            form["scope"] = settings.scope
        if self._refresh_token:
            form |= {"grant_type": "refresh_token", "refresh_token": self._refresh_token}
        else:
            form["grant_type"] = "client_credentials"
        import httpx  # noqa: PLC0415 -- most mailboxes use a password

        body = b""
        try:
            async with (
                asyncio.timeout(2 * self._timeout),
                httpx.AsyncClient(timeout=self._timeout) as client,
                client.stream("POST", settings.token_url, data=form) as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _LARGEST_ANSWER:
                        raise MailboxRefused(f"{self._where} answers with more than a token.")
        except (httpx.HTTPError, OSError) as error:
            # An httpx exception may contain the request, but its message does not.
            why = one_line(str(error)) or type(error).__name__
            raise MailboxUnavailable(f"{self._where} cannot be reached: {why}.") from error
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            answer = None
        return response.status_code, answer if isinstance(answer, dict) else {}

    def _refusal(self, status: int, answer: dict[str, Any]) -> MailboxRefused | MailboxUnavailable:
        said = ": ".join(str(answer[key]) for key in _REASONS if answer.get(key))
        reason = (
            one_line(" ".join(self._without_secrets(said).split()))[:_LONGEST_REASON].rstrip(".")
            or "no reason"
        )
        text = f"{self._where} issues no token: {status} {reason}."
        passes = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
        if passes or answer.get("error") == "temporarily_unavailable":
            return MailboxUnavailable(text)
        return MailboxRefused(
            f"{text} Check [email.imap.oauth] client_id, client_secret and scope, and renew the "
            "consent (refresh_token) if it was revoked or has expired."
        )

    def _without_secrets(self, text: str) -> str:
        for secret in (self._settings.client_secret.get_secret_value(), self._refresh_token):
            text = text.replace(secret, "[hidden]") if secret else text
        return text

    @classmethod
    def of(cls, settings: OAuthSettings | None, ledger: Ledger, *, timeout: float) -> Self | None:
        """Return the source of tokens, None if a password is used."""
        return None if settings is None else cls(settings, ledger, timeout=timeout)

    @property
    def _host(self) -> str:
        return urlsplit(self._settings.token_url).hostname or ""

    @property
    def _where(self) -> str:
        return f"The issuer of OAuth tokens at {self._host}"


_REASONS: Final = ("error", "error_description")
_PASSING: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS})
