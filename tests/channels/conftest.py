"""Fixtures of the channels' tests: a mail server that accepts mail, and open requests."""

from __future__ import annotations

import asyncio
import datetime as dt
import email
import email.policy
import ipaddress
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
import structlog
from aiosmtpd.smtp import SMTP, AuthResult, Envelope
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from pydantic import JsonValue
from structlog.testing import LogCapture

from builders import CLEO, MARA, make_call, opened, present
from channels.writing import Post, subject_of
from deciding import Decider
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.email.inbound.stored import store
from signoff.channels.email.settings import EmailSettings, SmtpSettings
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Message
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.approvals.events import Event, What
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel, VirtualClock

MAILBOX = "approvals@signoff.example"


@dataclass
class Sink:
    """A real SMTP server that keeps its mail; `answers` overrides its replies to commands.

    An answer is keyed by the command and, for RCPT, by the address: ``RCPT bad@x.example``.
    """

    answers: dict[str, str] = field(default_factory=dict)
    largest: int = 1 << 25
    drop_after: int = 0
    mails: list[EmailMessage] = field(default_factory=list)
    envelopes: list[Envelope] = field(default_factory=list)
    connections: int = 0
    logins: list[str] = field(default_factory=list)
    port: int = 0

    async def handle_MAIL(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept the sender, unless `answers` has another reply."""
        if "MAIL" in self.answers:
            return self.answers["MAIL"]
        envelope.mail_from = address
        return "250 OK"

    async def handle_RCPT(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Any, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        """Accept the recipient, unless `answers` has another reply."""
        answer = self.answers.get(f"RCPT {address}")
        if answer is not None:
            return answer
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(  # noqa: N802 -- aiosmtpd's name
        self, server: SMTP, session: Any, envelope: Envelope
    ) -> str:
        """Keep the mail, unless `answers` has another reply; hang up afterwards if that is set."""
        if "DATA" in self.answers:
            return self.answers["DATA"]
        self.envelopes.append(envelope)
        content = envelope.content
        assert isinstance(content, bytes)
        mail = email.message_from_bytes(content, policy=email.policy.default)
        self.mails.append(mail)
        if self.drop_after and len(self.mails) == self.drop_after:
            asyncio.get_running_loop().call_soon(present(server.transport).close)
        return "250 OK"

    def authenticate(self, server: SMTP, session: Any, envelope: Any, kind: str, data: Any) -> Any:
        """Accept the password ``right``."""
        self.logins.append(data.login.decode())
        return AuthResult(success=data.password == b"right", handled=False)

    def settings(self, **smtp: Any) -> EmailSettings:
        """Return settings for sending to this server."""
        return EmailSettings(
            sender=f"Signoff <{MAILBOX}>",
            mailbox=MAILBOX,
            smtp=SmtpSettings(**({"host": "127.0.0.1", "port": self.port, "timeout": 5} | smtp)),
        )


SinkFactory = Callable[..., Awaitable[Sink]]


@pytest.fixture
async def start_sink() -> AsyncIterator[SinkFactory]:
    """Yield a function that starts SMTP servers; ``tls`` and ``implicit`` set up TLS."""
    servers: list[asyncio.Server] = []
    sessions: list[SMTP] = []

    async def start(
        *,
        tls: ssl.SSLContext | None = None,
        implicit: bool = False,
        auth: bool = False,
        **parts: Any,
    ) -> Sink:
        sink = Sink(**parts)
        loop = asyncio.get_running_loop()

        def session() -> SMTP:
            sink.connections += 1
            made = SMTP(
                sink,
                hostname="sink.example",
                data_size_limit=sink.largest,
                enable_SMTPUTF8=True,
                loop=loop,
                tls_context=None if implicit else tls,
                require_starttls=tls is not None and not implicit,
                auth_required=auth,
                authenticator=sink.authenticate,
                auth_require_tls=tls is not None and not implicit,
            )
            sessions.append(made)
            return made

        server = await loop.create_server(session, "127.0.0.1", 0, ssl=tls if implicit else None)
        servers.append(server)
        sink.port = server.sockets[0].getsockname()[1]
        return sink

    yield start
    for server in servers:
        server.close()
    for made in sessions:
        if made.transport is not None:
            made.transport.close()
    await asyncio.sleep(0)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost and its key, in one file, self-signed."""
    path = tmp_path_factory.mktemp("tls") / "localhost.pem"
    write_certificate(path)
    return path


def write_certificate(path: Path) -> None:
    """Write a certificate for localhost and its key into a file."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + made.public_bytes(serialization.Encoding.PEM)
    )


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    """Return TLS for a server on localhost."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


@dataclass
class Channels:
    """The stages of the channels on one ledger, and a channel that keeps its deliveries."""

    ledger: Ledger
    decider: Decider
    directory: Directory
    channel: FakeChannel
    policies: tuple[Policy, ...] = (Policy(name="expenses", ask=("mara",), within="4h"),)
    fallback: Fallback = field(default_factory=lambda: Fallback(ask=("cleo",)))
    inbox: InboxSettings = field(default_factory=InboxSettings)
    opened: int = 0
    mails: int = 0
    virtual: VirtualClock | None = None

    @property
    def clock(self) -> VirtualClock:
        """The clock of `still_channels`; other ledgers use the Redis server's."""
        assert self.virtual is not None
        return self.virtual

    @property
    def router(self) -> Router:
        """The router with the current policies."""
        return Router(
            self.ledger,
            policies=self.policies,
            fallback=self.fallback,
            directory=self.directory,
        )

    @property
    def delivery(self) -> Delivery:
        """The delivery through the channel."""
        return Delivery(self.ledger, self.channel, directory=self.directory, inbox=self.inbox)

    @property
    def intake(self) -> Intake:
        """The intake of answers."""
        return Intake(self.decider, mailbox=MAILBOX)

    async def receive(
        self, person: Person, token: str, text: str, *, route: bool = True
    ) -> list[Message]:
        """Take in a person's mail, and return all deliveries after it."""
        self.mails += 1
        local, _, domain = MAILBOX.partition("@")
        mail = EmailMessage()
        mail["From"], mail["To"] = person.email, f"{local}+{token}@{domain}"
        mail["Subject"], mail["Message-ID"] = subject_of(token), f"<{self.mails}@mail.example>"
        mail.set_content(text)
        await store(self.ledger, mail.as_bytes(), sender=person.email, recipients=())
        self.channel.delivered.clear()
        await self.intake.drain()
        if route:
            await self.router.drain()
        await self.delivery.drain()
        return list(self.channel.delivered)

    async def open(
        self,
        *,
        template: JsonValue = None,
        hint: str = "",
        tool: str = "reimburse",
        user: str = "riley",
        kind: Kind = Kind.CONFIRMATION,
        **args: JsonValue,
    ) -> Approval:
        """Bring a run to a pause on one call, and send its approval to the router."""
        self.opened += 1
        call = make_call(tool, **args)
        return await opened(self.decider, call, user=user, hint=hint, template=template, kind=kind)

    async def ask(self, **parts: Any) -> tuple[Approval, str]:
        """Open a request, route and deliver it; return it and the token of the first card."""
        approval = await self.open(**parts)
        await self.router.drain()
        await self.delivery.drain()
        message = next(
            one for one in reversed(self.channel.delivered) if one.card.approval == approval.id
        )
        return await self.ledger.approval(approval.id), message.token

    async def events(self, approval: Approval | str) -> list[Event]:
        """Return the events of an approval."""
        subject = approval if isinstance(approval, str) else approval.id
        return await self.ledger.history(subject)

    async def whats(self, approval: Approval | str) -> list[What]:
        """Return the kinds of events of an approval."""
        return [event.what for event in await self.events(approval)]


@pytest.fixture
def channels(ledger: Ledger, decider: Decider, directory: Directory) -> Channels:
    """Return the stages of the channels; Mara is asked, Cleo is the default."""
    assert {MARA.id, CLEO.id} <= {person.id for person in directory}
    return Channels(ledger, decider, directory, Post())


@pytest.fixture
def still_channels(
    still_ledger: Ledger, still_decider: Decider, directory: Directory, clock: VirtualClock
) -> Channels:
    """Return the same stages on the virtual clock."""
    return Channels(still_ledger, still_decider, directory, Post(), virtual=clock)


@pytest.fixture
def log_output() -> LogCapture:
    """Return the logged events, one dict each."""
    capture = LogCapture()
    structlog.configure(processors=[capture])
    return capture
