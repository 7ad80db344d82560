"""One connection to a mailbox: the few commands that we use, with translated errors."""

from __future__ import annotations

import contextlib
import imaplib
import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from typing import Any, Final

import imapclient
from imapclient.exceptions import LoginError

from signoff.channels.email.imap.settings import ImapSettings
from signoff.channels.email.imap.wire import Wire
from signoff.channels.pipeline.reply_tokens import redact
from signoff.core.base.errors import MailboxError, MailboxRefused, MailboxUnavailable
from signoff.core.cards.card import one_line

KEYWORD: Final = "$Signoff"
"""The keyword of a stored message, which people see in their mail program."""

_LARGEST_HEAD: Final = 64 * 1024
"""Bytes; the parser refuses a header that is larger."""

_LONGEST_ANSWER: Final = 300
_LARGEST_UID: Final = (1 << 32) - 1
# RFC 5530: the codes for temporary problems of the server.
_PASSING: Final = ("[UNAVAILABLE]", "[INUSE]", "[LIMIT]", "[SERVERBUG]", "[OVERQUOTA]")


@dataclass(frozen=True, slots=True)
class Folder:
    """An open folder.

    Attributes:
        uidvalidity: UIDs stay valid while this is the same (RFC 3501, section 2.3.1.1).
        keywords: Whether the server can store our keyword permanently.
        uidnext: Greater than every UID that was given so far; 0 if the server does not say.
    """

    uidvalidity: int
    keywords: bool
    uidnext: int = 0


@dataclass(frozen=True, slots=True)
class MailboxMessage:
    """The server's data about a message.

    Attributes:
        uid: Its number in this folder.
        size: The size in bytes; some servers only estimate it.
        stored: Whether it has our keyword.
    """

    uid: int
    size: int
    stored: bool


class MessageRefused(MailboxUnavailable):
    """The server refuses a command about messages, while others may still work."""


class LoginRefused(MailboxRefused):
    """The server refuses the login."""


class Connection:
    """A blocking connection to a mailbox, for one thread; only `abort` is thread-safe.

    Every method raises `MailboxUnavailable` if the server is down, disconnects or sends invalid
    data, and `MailboxRefused` if it refuses a command.

    Args:
        settings: The server.
        largest: The largest mail to fetch, in bytes.

    Raises:
        ConfigError: The file of certificates cannot be read.
    """

    def __init__(self, settings: ImapSettings, *, largest: int) -> None:
        # At lower levels, these libraries log whole conversations, including every token.
        logging.getLogger("imapclient").setLevel(logging.ERROR)
        self._settings = settings
        self._largest = largest
        self._tls = settings.tls_context()
        self._wire: Wire | None = None
        self._client: Any = None
        self._aborted = False

    def open(self, token: str = "") -> None:
        """Connect and log in, by the password or by an OAuth token.

        Raises:
            LoginRefused: The server refuses the login.
            MailboxUnavailable: The server cannot be reached, or this was closed meanwhile.
        """
        secrets = (token, self._settings.password.get_secret_value())
        with self._translated("cannot be reached", secrets):
            client = _Client(self._dial, self._settings, self._tls)
            self._client = client
            if self._aborted:
                raise MailboxUnavailable("It was closed while it was opened.")
            if self._settings.security == "starttls":
                client.starttls(self._tls)
        with self._translated("refuses the login", secrets, refused=LoginRefused):
            if token:
                self._log_in_by_token(client, token)
            else:
                self._log_in(client)

    def capabilities(self) -> frozenset[str]:
        """Return the server's capabilities after the login."""
        with self._translated("does not list its capabilities"):
            return frozenset(one.decode("ascii", "replace") for one in self._client.capabilities())

    def select(self) -> Folder:
        """Open the folder."""
        name = self._settings.folder
        with self._translated(f"does not open the folder {name!r}"):
            try:
                answer = self._client.select_folder(name)
            except imaplib.IMAP4.readonly:
                # imaplib lets no folder be read that is read-only and was not asked for as such.
                answer = self._client.select_folder(name, readonly=True)
            flags = {flag.lower() for flag in answer.get(b"PERMANENTFLAGS", ())}
            uidvalidity = int(answer[b"UIDVALIDITY"])
            uidnext = int(answer.get(b"UIDNEXT", 0))
        keywords = b"\\*" in flags or KEYWORD.lower().encode() in flags
        return Folder(uidvalidity, keywords and b"READ-ONLY" not in answer, uidnext)

    def search(self, after: int, since: date) -> list[int]:
        """Return the UIDs greater than `after` of messages since a day, in ascending order."""
        if after >= _LARGEST_UID:
            return []
        with self._translated("refuses the search"):
            self._line.forget_new_mail()
            criteria = ["UID", f"{after + 1}:*", "SINCE", since]
            found = {int(uid) for uid in self._client.search(criteria)}
        # "n:*" always includes the last message, even if its UID is less than n.
        return sorted(uid for uid in found if after < uid <= _LARGEST_UID)

    def last_before(self, uid: int) -> int:
        """Return the UID of the message before another one, 0 if there is none."""
        if uid <= 1:
            return 0
        with self._translated("refuses the search"):
            return max(map(int, self._client.search(["UID", f"1:{uid - 1}"])), default=0)

    def metadata(self, uids: Sequence[int]) -> list[MailboxMessage]:
        """Return the size and keyword of messages, without those that are already gone.

        Raises:
            MessageRefused: The server refuses it, perhaps because of one of them.
        """
        with self._translated("does not report the size of a message", refused=MessageRefused):
            found = self._client.fetch(uids, ["RFC822.SIZE", "FLAGS"])
            own = KEYWORD.lower().encode()
            return [
                MailboxMessage(
                    uid,
                    int(found[uid].get(b"RFC822.SIZE", 0)),
                    own in {flag.lower() for flag in found[uid].get(b"FLAGS", ())},
                )
                for uid in uids
                if uid in found
            ]

    def fetch(self, uid: int) -> bytes | None:
        """Return a message, at most one byte more than the limit; None if it is gone.

        This does not mark it as seen.

        Raises:
            MessageRefused: The server does not return this message.
        """
        # Only a part is fetched, because some servers only estimate sizes.
        return self._fetch(uid, "", self._largest + 1)

    def fetch_head(self, uid: int) -> bytes | None:
        """Return the header of a message, at most one byte more than is read of it.

        Raises:
            MessageRefused: The server does not return it.
        """
        return self._fetch(uid, "HEADER", _LARGEST_HEAD + 1)

    def mark(self, uids: Sequence[int]) -> None:
        """Set our keyword on messages.

        Raises:
            MessageRefused: The server refuses it, also for the time being, such as over quota.
        """
        with self._translated(f"does not accept the keyword {KEYWORD}", refused=MessageRefused):
            self._client.add_flags(uids, [KEYWORD], silent=True)

    @property
    def has_new_mail(self) -> bool:
        """Whether there may be messages that the last search did not find."""
        return self._line.has_new_mail

    def wait(self, seconds: float) -> None:
        """Wait for new messages by IDLE, for at most this many seconds."""
        with self._translated("ended IDLE"):
            self._line.wait_for_new_mail(seconds)

    def close(self) -> None:
        """Log out."""
        if self._client is not None:
            with contextlib.suppress(Exception):
                self._client.logout()

    def abort(self) -> None:
        """Close the connection and interrupt a waiting call; callable from any thread."""
        self._aborted = True
        if self._wire is not None:
            self._wire.hang_up()

    def dispose(self) -> None:
        """Release the local resources of the connection."""
        if self._wire is not None:
            with contextlib.suppress(Exception):
                self._wire.shutdown()

    # -- inside --------------------------------------------------------------------------------

    def _fetch(self, uid: int, section: str, most: int) -> bytes | None:
        with self._translated(f"does not return message {uid}", refused=MessageRefused):
            found = self._client.fetch([uid], [f"BODY.PEEK[{section}]<0.{most}>"])
        if uid not in found:
            return None
        body = found[uid].get(f"BODY[{section}]<0>".encode())
        if not isinstance(body, bytes):
            raise MessageRefused(f"{self._where} returned nothing for message {uid}.")
        return body

    @property
    def _line(self) -> Wire:
        if self._wire is None:
            raise MailboxUnavailable("It was not opened.")
        return self._wire

    @property
    def _where(self) -> str:
        return f"The IMAP server {self._settings.where}"

    def _dial(self) -> Wire:
        settings = self._settings
        self._wire = Wire(
            settings.host,
            settings.real_port,
            settings.timeout,
            tls=self._tls if settings.security == "tls" else None,
            largest=self._largest + 1,
        )
        return self._wire

    def _log_in(self, client: Any) -> None:  # noqa: ANN401 -- the library has no types
        settings = self._settings
        name, password = settings.username, settings.password.get_secret_value()
        if client.has_capability("AUTH=PLAIN"):
            # Before LOGIN, which takes ASCII only (RFC 4616 has UTF-8).
            client.sasl_login("PLAIN", lambda _: f"\0{name}\0{password}")
        elif client.has_capability("LOGINDISABLED"):
            raise MailboxRefused(
                f"{self._where} accepts no password here. Set [email.imap] security to 'starttls' "
                "or 'tls', or use [email.imap.oauth]."
            )
        else:
            client.login(name, password)

    def _log_in_by_token(self, client: Any, token: str) -> None:  # noqa: ANN401 -- as above
        name = self._settings.username
        offered = [
            one for one in ("XOAUTH2", "OAUTHBEARER") if client.has_capability(f"AUTH={one}")
        ]
        if not offered:
            raise MailboxRefused(
                f"{self._where} accepts no OAuth tokens. Set [email.imap] password instead."
            )
        mechanism = offered[0]
        if mechanism == "XOAUTH2":
            first, rest = f"user={name}\1auth=Bearer {token}\1\1", ""
        else:
            # RFC 7628, section 3.1; the name is escaped as in RFC 5801, section 4.
            escaped = name.replace("=", "=3D").replace(",", "=2C")
            first, rest = f"n,a={escaped},\1auth=Bearer {token}\1\1", "\1"
        said: list[bytes] = []

        def answer(challenge: bytes) -> str:
            # A second challenge contains the error, and expects an empty reply.
            said.append(challenge)
            return first if len(said) == 1 else rest

        try:
            client.sasl_login(mechanism, answer)
        except LoginError as error:
            why = said[-1].decode("ascii", "replace") if len(said) > 1 else ""
            raise LoginError(f"{error} {why}") from error.__context__

    @contextmanager
    def _translated(
        self,
        what: str,
        secrets: Sequence[str] = (),
        *,
        refused: type[MailboxError] = MailboxRefused,
    ) -> Iterator[None]:
        """Translate every exception of the library into our errors."""
        try:
            yield
        except MailboxError:
            raise
        except ssl.SSLCertVerificationError as error:
            raise MailboxRefused(
                f"{self._where} {what}: no safe connection: {error.verify_message}. Check "
                "[email.imap] host, which must be in the server's certificate, and ca_file for a "
                "private authority."
            ) from error
        except Exception as error:
            text = redact(one_line(str(error) or type(error).__name__))
            for secret in filter(None, secrets):
                text = text.replace(secret, "[hidden]")
            # A message that the server does not return today may be the only one.
            passes = refused is not MessageRefused and _is_passing(error)
            raise (MailboxUnavailable if passes or _is_lost(error) else refused)(
                f"{self._where} {what}: {text[:_LONGEST_ANSWER].rstrip('.')}."
            ) from error


def _is_lost(error: Exception) -> bool:
    """Return whether the connection was lost, and nothing was refused."""
    cause = error.__cause__ or error.__context__
    aborted = isinstance(error, imaplib.IMAP4.abort) or isinstance(cause, imaplib.IMAP4.abort)
    return aborted or not isinstance(error, imaplib.IMAP4.error)


def _is_passing(error: Exception) -> bool:
    """Return whether a refusal says that an unchanged retry may succeed."""
    return any(sign in str(error).upper() for sign in _PASSING)


class _Client(imapclient.IMAPClient):  # type: ignore[misc] # the library has no types
    """IMAPClient over our own `Wire`."""

    def __init__(self, dial: Any, settings: ImapSettings, tls: ssl.SSLContext | None) -> None:  # noqa: ANN401
        self._dial = dial
        super().__init__(
            settings.host,
            settings.real_port,
            ssl=settings.security == "tls",
            ssl_context=tls,
            timeout=settings.timeout,
        )
        # Otherwise it prints every line, including passwords and tokens, at any log level.
        self._imap.debug = 0

    def _create_IMAP4(self) -> Wire:  # noqa: N802 -- the library's name
        made: Wire = self._dial()
        return made
