"""An SMTP or LMTP server that stores each mail before it acknowledges it."""

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
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)

_MOST_RECIPIENTS: Final = 20
_MOST_COMMANDS: Final = 2_000
_MOST_DATA: Final = 16 << 20
_NO_SUCH: Final = "550 5.1.1 No such mailbox here"
_TOO_MANY: Final = "451 4.7.1 Too many mails in an hour: try again later"
_LATER: Final = "451 4.3.0 Not now: try again later"


class MailServer:
    """Receives answers from a mail server, in the running asyncio loop.

    It accepts mail only for issued tokens. So it is not a relay, and it refuses random mail before
    storing it.

    Args:
        settings: The settings, with our mailbox and the address to listen on.
        ledger: The ledger, which stores mail before it is acknowledged.
        directory: The people, whose own mail is counted separately from that of strangers.
    """

    name = "email.inbound"
    remote = False

    def __init__(
        self, settings: EmailSettings, ledger: Ledger, directory: Directory | None = None
    ) -> None:
        limits = Limits(ledger, settings.limits)
        self._handler = _Handler(ledger, settings, limits, directory or Directory())
        self._settings = settings
        self._tls = Certificate(settings.inbound) if settings.inbound.certificate else None
        self._server: asyncio.Server | None = None
        self._open: weakref.WeakSet[SMTP] = weakref.WeakSet()

    async def start(self) -> None:
        """Start listening.

        Raises:
            ConfigError: The address is in use or not permitted, or the certificate cannot be read.
        """
        if self._tls is not None:
            self._tls.read()
        # aiosmtpd logs every command, including every token.
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
        """Stop listening and close all connections; senders repeat mail without acknowledgement."""
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
        """The problem if it does not accept connections, else ""."""
        serving = self._server is not None and self._server.is_serving()
        return "" if serving else "it does not listen"

    @property
    def port(self) -> int:
        """The port that it listens on.

        Raises:
            RuntimeError: The server is not started.
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
    """The certificate for STARTTLS (RFC 3207).

    Attributes:
        context: The TLS context of connections.
    """

    def __init__(self, settings: InboundSettings) -> None:
        self._settings = settings
        self._read_at: tuple[int, ...] = ()
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)

    def read(self) -> None:
        """Read the certificate and the key.

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
        """Read the files again if they changed; if that fails, keep the previous ones."""
        try:
            self.read()
        except ConfigError as error:
            log.error("mail.certificate", error=str(error))  # noqa: TRY400 -- the message is enough


class _Careful(SMTP):
    # Mail programs write lines longer than the 1,000 octets of RFC 5321, section 4.5.3.1.6.
    line_length_limit = 1 << 16
    each = False
    """Whether the protocol replies for each recipient of a mail."""

    _room: int | None = None
    _owed = 1

    async def push(self, status: AnyStr) -> None:
        """Send a reply; between a 354 and the next reply, a mail is received."""
        text = status if isinstance(status, str) else status.decode()
        owed, self._owed, self._room = self._owed, 1, None
        if text.startswith("354") and self.envelope is not None:
            self._room = _MOST_DATA
            # aiosmtpd forgets the recipients before it replies.
            self._owed = len(self.envelope.rcpt_tos) if self.each else 1
        for _ in range(owed):
            await super().push(status)

    def data_received(self, data: bytes) -> None:
        """Disconnect far above the size limit, because aiosmtpd buffers a line until its end."""
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
    """The handler for aiosmtpd, which defines the method names."""

    def __init__(
        self, ledger: Ledger, settings: EmailSettings, limits: Limits, directory: Directory
    ) -> None:
        self._ledger = ledger
        self._limits = limits
        self._directory = directory
        self._mailbox = settings.mailbox
        self._lmtp = settings.inbound.protocol == "lmtp"
        returned_to = {one.lower() for one in (settings.mailbox, settings.sender_address)}
        self._reports = frozenset() if settings.bounces else frozenset(returned_to)

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept recipients with an issued token; all others get the same reply."""
        if len(envelope.rcpt_tos) >= _MOST_RECIPIENTS:
            return "452 4.5.3 Too many recipients"
        normal = normal_address(address)
        tokens = plus_parts((normal,), self._mailbox) if normal else ()
        sender = envelope.mail_from or ""
        try:
            if (normal or "").lower() in self._reports and sender in {"", "<>"}:
                # The card's envelope had no token, so the bounce itself must identify the card.
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
        """Return why a recipient is refused, "" if it is accepted."""
        # Behind a mail server, all senders are the same peer, so the limit would affect them all.
        counted = not self._lmtp and not is_loopback(peer)
        if counted and not await self._limits.allow_peer(peer):
            # Known and unknown recipients get the same reply, so that it reveals nothing.
            log.warning("mail.limited", peer=peer, why="too many unknown recipients")
            return _TOO_MANY
        holder = await find_holder(self._ledger, tokens[0]) if tokens else None
        if holder is None:
            log.info("mail.unknown_recipient", peer=peer)
            if counted:
                await self._limits.count_unknown(peer)
            return _NO_SUCH
        address = sender.strip("<>")
        author = self._directory.find(address)
        own = author is not None and author.id == holder.person
        if not await self._limits.allow_recipient(tokens[0], address, own=own):
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
        """Reply that the sender may try again, because the failure is ours."""
        log.error("mail.session_failed", error=f"{type(error).__name__}: {error}")
        return _LATER


def _peer(session: Session) -> str:
    return str(session.peer[0]) if isinstance(session.peer, tuple) else str(session.peer)
