"""Mail in: an SMTP or LMTP server that stores a mail before it acknowledges it."""

from __future__ import annotations

import asyncio
import logging
import ssl
import weakref
from collections.abc import Sequence
from typing import AnyStr, Final

import structlog
from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.limits import Limits
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.parsing.addresses import normal_address, plus_parts
from signoff.channels.email.settings import EmailSettings, InboundSettings
from signoff.channels.pipeline.reply_tokens import find_holder
from signoff.core.base.errors import ConfigError, LedgerError
from signoff.core.base.networks import is_loopback

log = structlog.get_logger(__name__)

_MOST_RECIPIENTS: Final = 20
_MOST_COMMANDS: Final = 2_000
_MOST_DATA: Final = 16 << 20
_NO_SUCH: Final = "550 5.1.1 No such mailbox here"
_TOO_MANY: Final = "451 4.7.1 Too many mails in an hour: try again later"
_LATER: Final = "451 4.3.0 Not now: try again later"


class MailServer:
    """Takes answers from a mail server, in the running asyncio loop.

    It takes mail for tokens that were issued and for nobody else, so it relays nothing, and what is
    sent at random is turned away before it is stored.

    Args:
        settings: Which mailbox is ours, and where to listen.
        ledger: Where mail is stored before it is acknowledged.
    """

    name = "email.inbound"
    remote = False

    def __init__(self, settings: EmailSettings, ledger: Ledger) -> None:
        limits = Limits(ledger, settings.limits)
        self._handler = _Handler(ledger, settings, limits)
        self._settings = settings
        self._tls = Certificate(settings.inbound) if settings.inbound.certificate else None
        self._server: asyncio.Server | None = None
        self._open: weakref.WeakSet[SMTP] = weakref.WeakSet()

    async def start(self) -> None:
        """Listen.

        Raises:
            ConfigError: The address is taken, or not ours to listen on; or the certificate cannot
                be read.
        """
        if self._tls is not None:
            self._tls.read()
        # aiosmtpd logs every command, and with it every token.
        logging.getLogger("mail.log").setLevel(logging.ERROR)
        inbound = self._settings.inbound
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(self._session, inbound.host, inbound.port)
        except OSError as error:
            raise ConfigError(
                f"cannot listen on {inbound.host}:{inbound.port}: {error.strerror or error}; "
                "choose another host or port, or stop what listens there",
                key="email.inbound",
            ) from error
        log.info("mail.listening", host=inbound.host, port=self.port, protocol=inbound.protocol)

    async def stop(self) -> None:
        """Stop listening and close all connections; what was not acknowledged is sent again."""
        server, self._server = self._server, None
        if server is None:
            return
        server.close()
        for session in tuple(self._open):
            if session.transport is not None:
                session.transport.close()
        await server.wait_closed()

    @property
    def problem(self) -> str:
        """That it takes no connections, or ""."""
        serving = self._server is not None and self._server.is_serving()
        return "" if serving else "it does not listen"

    @property
    def port(self) -> int:
        """The port it listens on.

        Raises:
            RuntimeError: It is not started.
        """
        if self._server is None:
            raise RuntimeError("The mail server is not started.")
        return int(self._server.sockets[0].getsockname()[1])

    def _session(self) -> SMTP:
        inbound = self._settings.inbound
        if self._tls is not None:
            self._tls.read_again()
        kind = _Lmtp if inbound.protocol == "lmtp" else _Smtp
        session = kind(
            self._handler,
            data_size_limit=inbound.max_bytes,
            enable_SMTPUTF8=True,
            decode_data=False,
            hostname=self._settings.domain,
            ident="Signoff",
            timeout=120,
            command_call_limit=_MOST_COMMANDS,
            tls_context=self._tls.context if self._tls is not None else None,
            require_starttls=inbound.require_tls,
            loop=asyncio.get_running_loop(),
        )
        self._open.add(session)
        return session


class Certificate:
    """What a connection is encrypted with, after STARTTLS (RFC 3207).

    Args:
        settings: Where certificate and key are.

    Attributes:
        context: How connections are encrypted.
    """

    def __init__(self, settings: InboundSettings) -> None:
        self._settings = settings
        self._read_at: tuple[int, ...] = ()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def read(self) -> None:
        """Read certificate and key.

        Raises:
            ConfigError: They cannot be read, or do not belong together.
        """
        certificate, key = self._settings.certificate, self._settings.private_key
        if certificate is None:
            return
        try:
            changed = tuple(one.stat().st_mtime_ns for one in (certificate, key or certificate))
            if changed != self._read_at:
                self.context.load_cert_chain(certificate, key)
                self._read_at = changed
        except (OSError, ssl.SSLError) as error:
            raise ConfigError(
                f"{certificate} cannot be used as the certificate: {error}. It has to be PEM, with "
                "its key in the same file or in private_key",
                key="email.inbound.certificate",
            ) from error

    def read_again(self) -> None:
        """Read them if they have changed; where that fails, those from before are used on."""
        try:
            self.read()
        except ConfigError as error:
            log.error("mail.certificate", error=str(error))  # noqa: TRY400 -- the message says it all


class _Careful(SMTP):
    # Mail programmes write longer lines than the 1,000 octets of RFC 5321, section 4.5.3.1.6.
    line_length_limit = 1 << 16
    each = False
    """Whether there is an answer for each recipient of a mail."""

    _room: int | None = None
    _owed = 1

    async def push(self, status: AnyStr) -> None:
        """Send a reply; from the 354 to the next one a mail comes in."""
        text = status if isinstance(status, str) else status.decode()
        owed, self._owed, self._room = self._owed, 1, None
        if text.startswith("354") and self.envelope is not None:
            self._room = _MOST_DATA
            # aiosmtpd forgets the recipients before it answers.
            self._owed = len(self.envelope.rcpt_tos) if self.each else 1
        for _ in range(owed):
            await super().push(status)

    def data_received(self, data: bytes) -> None:
        """Hang up on who goes on far above the size: aiosmtpd keeps a line until its end comes."""
        if self._room is not None:
            self._room -= len(data)
            if self._room < 0 and isinstance(self.transport, asyncio.WriteTransport):
                log.warning("mail.endless", peer=_peer(self.session) if self.session else "")
                self.transport.abort()
                return
        super().data_received(data)


class _Smtp(_Careful):
    pass


class _Lmtp(_Careful, LMTP):
    each = True  # RFC 2033, section 4.2


class _Handler:
    """What aiosmtpd asks at each command; the method names are its own."""

    def __init__(self, ledger: Ledger, settings: EmailSettings, limits: Limits) -> None:
        self._ledger = ledger
        self._limits = limits
        self._mailbox = settings.mailbox
        self._lmtp = settings.inbound.protocol == "lmtp"
        returned_to = {settings.mailbox, settings.sender_address}
        self._reports = frozenset() if settings.bounces else frozenset(returned_to)

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Take recipients whose token was issued; all others get the same answer."""
        if len(envelope.rcpt_tos) >= _MOST_RECIPIENTS:
            return "452 4.5.3 Too many recipients"
        normal = normal_address(address)
        tokens = plus_parts((normal,), self._mailbox) if normal else ()
        sender = envelope.mail_from or ""
        try:
            if normal in self._reports and sender in {"", "<>"}:
                # The card's envelope had no token, so its bounce says itself whose it was.
                allowed = await self._limits.allow_recipient(str(normal), "")
                problem = "" if allowed else _TOO_MANY
            else:
                problem = await self._problem(tokens, sender, _peer(session))
        except LedgerError as error:
            log.warning("mail.deferred", at="recipient", error=str(error))
            return _LATER
        if problem:
            return problem
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 OK"

    async def _problem(self, tokens: Sequence[str], sender: str, peer: str) -> str:
        """Return why a recipient is not taken, "" if it is."""
        # Behind a mail server everybody is the same peer, and would pay for one of them.
        counted = not self._lmtp and not is_loopback(peer)
        if counted and not await self._limits.allow_peer(peer):
            # The same for known and unknown ones: there is nothing to be learnt from it.
            log.warning("mail.limited", peer=peer, why="too many unknown recipients")
            return _TOO_MANY
        if not tokens or await find_holder(self._ledger, tokens[0]) is None:
            log.info("mail.unknown_recipient", peer=peer)
            if counted:
                await self._limits.count_unknown(peer)
            return _NO_SUCH
        if not await self._limits.allow_recipient(tokens[0], sender.strip("<>")):
            log.warning("mail.limited", peer=peer, why="too many mails in an hour")
            return _TOO_MANY
        return ""

    async def handle_DATA(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope
    ) -> str:
        """Store the mail, then acknowledge it."""
        raw = envelope.content
        if not isinstance(raw, bytes):
            raise TypeError("aiosmtpd was told not to decode")
        sender = "" if envelope.mail_from in {None, "<>"} else str(envelope.mail_from)
        try:
            new = await store(
                self._ledger, raw, sender=sender, recipients=envelope.rcpt_tos, peer=_peer(session)
            )
        except LedgerError as error:
            log.warning("mail.deferred", at="data", error=str(error))
            return _LATER
        log.info("mail.stored" if new else "mail.known", peer=_peer(session), size=len(raw))
        return "250 2.0.0 OK, stored" if new else "250 2.0.0 OK, already have it"

    async def handle_exception(self, error: Exception) -> str:
        """Answer that it may be tried again: what failed here was ours."""
        log.error("mail.session_failed", error=f"{type(error).__name__}: {error}")
        return _LATER


def _peer(session: Session) -> str:
    return str(session.peer[0]) if isinstance(session.peer, tuple) else str(session.peer)
