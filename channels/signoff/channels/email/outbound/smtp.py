"""Sends a batch of mails over one SMTP connection, and translates every error."""

from __future__ import annotations

import contextlib
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import aiosmtplib
import structlog
from aiosmtplib import errors as smtp

from signoff.channels.email.imap.oauth import Tokens
from signoff.channels.email.settings import SmtpSettings
from signoff.channels.pipeline.reply_tokens import redact
from signoff.core.base.errors import (
    ConfigError,
    LedgerError,
    MailboxError,
    MailDeferred,
    MailError,
    MailLoginRefused,
    MailRefused,
    MailThrottled,
    MailUncertain,
)
from signoff.core.cards.card import one_line

log = structlog.get_logger(__name__)

_LONGEST_ANSWER: Final = 300
_WANTS_LOGIN: Final = frozenset({530, 534, 535, 538})
"""Codes for a wrong or missing login, not a problem of the recipient (RFC 4954, section 6)."""
_POLICY: Final = "4.7."
"""The code for clients that send too fast (RFC 3463, section 3.8)."""
_QUOTA: Final = "5.4.5"
"""Gmail's temporary error for an exhausted daily quota."""
_TOO_LARGE: Final = 552
"""The code for a mail that is too large (RFC 1870, section 6.1), also for one that has no room."""
_FULL: Final = "5.2.2"
"""The code for a full mailbox, which at the sender is ours (RFC 3463, section 3.3)."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """A mail and its recipient; bounces go to its sender."""

    sender: str
    recipient: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Fault:
    """The failure of one mail.

    Attributes:
        error: `MailDeferred` if another attempt may succeed, `MailUncertain` if this one may have,
            else `MailRefused`.
        setting: The setting to check, "" if the settings are not the cause.
        lost: Whether the connection is unusable.
        slower: Whether the server asks for less mail in general.
    """

    error: MailError
    setting: str = ""
    lost: bool = False
    slower: bool = False


class SmtpSender:
    """Sends batches of mails.

    Args:
        settings: The server.
        hostname: The name in our greeting.
        tokens: The source of OAuth tokens, if the login does not use a password.

    Raises:
        ConfigError: The file of certificates cannot be read.
    """

    def __init__(
        self, settings: SmtpSettings, *, hostname: str, tokens: Tokens | None = None
    ) -> None:
        self._settings = settings
        self._tokens = tokens
        self._hostname = hostname
        self._tls = settings.tls_context()
        self._read_at = self._written_at()

    async def send(self, mails: Sequence[Envelope]) -> list[MailError | None]:
        """Send mails one after the other over one connection.

        A refused mail does not stop the others. If the connection drops, it is opened again, once
        for each mail. If the server cannot be reached, the remaining mails are not tried.

        Returns:
            For each mail None, or a `MailDeferred` or `MailRefused` with the problem.
        """
        outcomes: list[MailError | None] = []
        client = self._client()
        try:
            for mail in mails:
                fault = await self._one(client, mail)
                if fault is not None and fault.lost and client.is_connected:
                    client.close()
                outcomes.append(None if fault is None else fault.error)
                if fault is not None and fault.setting:
                    # The problem is the server, not this mail, so the others would fail too.
                    log.error("smtp.unusable", setting=fault.setting, error=str(fault.error))
                    outcomes += [fault.error] * (len(mails) - len(outcomes))
                    break
                if fault is not None and fault.slower:
                    log.warning("smtp.slower", error=str(fault.error))
                    waiting = MailThrottled(f"The mail server asks for less: {fault.error}")
                    outcomes += [waiting] * (len(mails) - len(outcomes))
                    break
        finally:
            await self._close(client)
        return outcomes

    async def check(self) -> MailError | None:
        """Connect and log in as for sending, disconnect, and return the problem if there is one."""
        client = self._client()
        try:
            await client.connect()
        except Exception as error:  # noqa: BLE001 -- every error is translated here
            return self._connecting(error).error
        finally:
            await self._close(client)
        return None

    async def _one(self, client: aiosmtplib.SMTP, mail: Envelope) -> Fault | None:
        first: Fault | None = None
        for last in (False, True):
            fresh = not client.is_connected
            try:
                if fresh:
                    await client.connect()
            except Exception as error:  # noqa: BLE001 -- every error is translated here
                return _after(first, self._connecting(error))
            try:
                await client.sendmail(mail.sender, [mail.recipient], mail.data)
            except Exception as error:  # noqa: BLE001 -- every error is translated here
                fault = translate(error)
                if fault.lost and not (fault.slower or fresh or last):
                    first = fault
                    continue  # the server closed an idle connection
                return _after(first, fault)
            return None
        raise AssertionError("unreachable")  # pragma: no cover

    def _client(self) -> aiosmtplib.SMTP:
        settings = self._settings
        login: dict[str, Any] = {}
        if self._tokens is not None:
            login = {"username": settings.username, "oauth_token_generator": self._tokens.get}
        elif settings.username:
            password = settings.password.get_secret_value()
            login = {"username": settings.username, "password": password}
        return aiosmtplib.SMTP(
            hostname=settings.host,
            port=settings.real_port,
            local_hostname=self._hostname,
            timeout=settings.timeout,
            use_tls=settings.security == "tls",
            start_tls=settings.security == "starttls",
            tls_context=self._current_tls(),
            **login,
        )

    def _current_tls(self) -> ssl.SSLContext | None:
        """Return the TLS context; certificates of a private authority that were replaced count."""
        written_at = self._written_at()
        if written_at != self._read_at:
            # The file may be written at this moment.
            with contextlib.suppress(ConfigError):
                self._tls, self._read_at = self._settings.tls_context(), written_at
        return self._tls

    def _written_at(self) -> int:
        file = self._settings.ca_file
        try:
            return file.stat().st_mtime_ns if file is not None else 0
        except OSError:
            return 0

    def _connecting(self, error: Exception) -> Fault:
        """Translate an error that occurred while opening a connection."""
        fault = translate(error)
        settings = self._settings
        if self._tokens is not None and isinstance(error, smtp.SMTPAuthenticationError):
            self._tokens.forget()
        if isinstance(error, MailboxError | LedgerError):
            # The error of the token issuer names the mailbox's table; here it is ours.
            words = str(error).replace("[email.imap.oauth]", "[email.smtp.oauth]")
            return Fault(MailDeferred(words), "[email.smtp.oauth]", True)
        text = f"The mail server {settings.where} cannot be used: {fault.error}"
        refused = isinstance(fault.error, MailLoginRefused) and self._tokens is None
        kind = MailLoginRefused if refused else MailDeferred
        # At this point, no error of the server is about a recipient.
        return Fault(kind(text), fault.setting or "[email.smtp] host, port, security", True)

    @staticmethod
    async def _close(client: aiosmtplib.SMTP) -> None:
        if client.is_connected:
            with contextlib.suppress(aiosmtplib.SMTPException, OSError):
                await client.quit()
        client.close()


def translate(error: Exception) -> Fault:
    """Translate an exception of aiosmtplib or the network into the failure of a mail.

    The codes are those of RFC 5321, section 4.2.1: 4yz is temporary, 5yz is permanent.
    """
    certificate = _cause(error, ssl.SSLError)
    if certificate is not None:
        names = ("verify_message", "reason")
        reason = next(
            (text for name in names if (text := getattr(certificate, name, ""))), certificate
        )
        return Fault(
            MailDeferred(
                f"no safe connection: {reason}. Check [email.smtp] host, which the server's "
                "certificate must contain, and ca_file for a private authority"
            ),
            setting="[email.smtp] host, security, ca_file",
            lost=True,
        )
    for kind in type(error).__mro__:
        if kind in FAULTS:
            return FAULTS[kind](error)
    return Fault(MailUncertain(_error_text(error)), lost=True)


def _after(first: Fault | None, fault: Fault) -> Fault:
    """Return the fault of the last attempt, which is uncertain if the first one was."""
    deferred = isinstance(fault.error, MailDeferred)
    if deferred and first is not None and isinstance(first.error, MailUncertain):
        return replace(fault, error=MailUncertain(str(fault.error)))
    return fault


def _by_code(error: Any) -> Fault:  # noqa: ANN401 -- any response
    code, text = int(error.code), f"the server said {error.code} {_error_text(error)}"
    said = _error_text(error)
    if code in _WANTS_LOGIN:
        return _login(error)
    if 500 <= code < 600 and not said.startswith(_QUOTA):
        return Fault(MailRefused(text))
    if said.startswith((_POLICY, _QUOTA)) and not isinstance(error, smtp.SMTPRecipientRefused):
        return Fault(MailDeferred(text), lost=True, slower=True)
    # 421 announces that the server closes the connection (RFC 5321, section 3.8).
    return Fault(MailDeferred(text), lost=code == 421 or not 400 <= code < 500)


def _recipients(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    return _by_code(error.recipients[0])


def _sender(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    fault = _by_code(error)
    too_large = int(error.code) == _TOO_LARGE and not _error_text(error).startswith(_FULL)
    if isinstance(fault.error, MailDeferred) or too_large:
        return fault
    # The recipient is not the problem, and must not count as unreachable.
    text = f"{fault.error}; is {redact(error.sender)} an address this account may send from?"
    return Fault(MailDeferred(text), setting="[email] sender, bounces")


def _login(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    text = f"it does not accept the login: {error.code} {_error_text(error)}"
    return Fault(MailLoginRefused(text), setting="[email.smtp] username, password", lost=True)


def _unsupported(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    text = f"it does not support what the settings require: {_error_text(error)}"
    return Fault(MailDeferred(text), setting="[email.smtp] security, username", lost=True)


def _greeting(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    text = f"it refuses the connection: {error.code} {_error_text(error)}"
    return Fault(MailDeferred(text), lost=True)


def _network(error: Any) -> Fault:  # noqa: ANN401 -- aiosmtplib's
    return Fault(MailUncertain(_error_text(error)), lost=True)


def _unsendable(error: Any) -> Fault:  # noqa: ANN401 -- a ValueError
    return Fault(MailRefused(f"the mail cannot be sent by SMTP: {_error_text(error)}"))


FAULTS: Final[Mapping[type[BaseException], Callable[[Any], Fault]]] = {
    smtp.SMTPException: _network,
    smtp.SMTPServerDisconnected: _network,
    smtp.SMTPConnectError: _network,
    smtp.SMTPTimeoutError: _network,
    smtp.SMTPConnectTimeoutError: _network,
    smtp.SMTPReadTimeoutError: _network,
    smtp.SMTPNotSupported: _unsupported,
    smtp.SMTPResponseException: _by_code,
    smtp.SMTPConnectResponseError: _greeting,
    smtp.SMTPHeloError: _greeting,
    smtp.SMTPDataError: _by_code,
    smtp.SMTPAuthenticationError: _login,
    smtp.SMTPSenderRefused: _sender,
    smtp.SMTPRecipientRefused: _by_code,
    smtp.SMTPRecipientsRefused: _recipients,
    OSError: _network,
    ValueError: _unsendable,
}
"""The translation of each exception; a test checks that every aiosmtplib exception is here."""


def _error_text(error: BaseException) -> str:
    text = str(getattr(error, "message", "") or error) or type(error).__name__
    return redact(one_line(text))[:_LONGEST_ANSWER]


def _cause(error: BaseException, kind: type[ssl.SSLError]) -> ssl.SSLError | None:
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None or isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
