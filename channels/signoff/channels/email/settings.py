"""The settings of the email channel: the table `[email]` and those below it."""

from __future__ import annotations

from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.settings import AuthenticationSettings
from signoff.channels.email.imap.settings import ImapSettings, OAuthSettings
from signoff.channels.email.outbound.dkim import DkimSettings
from signoff.channels.email.parsing.addresses import normal_address
from signoff.channels.email.servers import ServerSettings
from signoff.channels.web.settings import Table, WebhookSecret
from signoff.channels.web.signatures import key_of
from signoff.core.policies.policy import EmailProof

_SHORTEST_KEY = 24


def _plain_address(text: str) -> str:
    address = normal_address(text)
    if address is None or "+" in address.rpartition("@")[0]:
        raise ValueError(f"{text!r} is not an address like approvals@example.com, without a '+'")
    return address


def _sender(text: str) -> str:
    if not text.isprintable():
        raise ValueError("a sender has no line breaks or control characters")
    name, _, rest = text.rpartition("<")
    plain = rest.removesuffix(">") if name else text
    if normal_address(plain.strip()) is None or (name and not rest.endswith(">")):
        raise ValueError(f"{text!r} is not a sender like Signoff <approvals@example.com>")
    return text


def _domain_name(text: str) -> str:
    name = text.strip().lower().strip(".")
    if normal_address(f"x@{name}") is None:
        raise ValueError(f"{text!r} is not a domain like amazonses.com")
    return name


DomainName = Annotated[str, AfterValidator(_domain_name)]
Mailbox = Annotated[str, AfterValidator(_plain_address)]
Sender = Annotated[str, AfterValidator(_sender)]


class SmtpSettings(ServerSettings):
    """The server that takes our mail.

    Attributes:
        port: 0 takes the usual one: 587 for starttls, 465 for tls, 25 for none.
        per_minute: The most mails in a minute, all processes together; 0 sets no limit.
        connections: The most connections at the same time, all processes together; 0 sets no limit.
        oauth: How a token for the login is asked for, instead of a password, as for
            `[email.imap.oauth]`.
    """

    usual_ports: ClassVar[dict[str, int]] = {"none": 25, "starttls": 587, "tls": 465}
    table: ClassVar[str] = "email.smtp"

    per_minute: int = Field(default=0, ge=0, le=100_000)
    connections: int = Field(default=0, ge=0, le=100)
    oauth: OAuthSettings | None = None

    @model_validator(mode="after")
    def _whole_login(self) -> Self:
        password = bool(self.password.get_secret_value())
        if password and self.oauth is not None:
            raise ValueError("set password, or the table [email.smtp.oauth], and not both")
        if bool(self.username) != (password or self.oauth is not None):
            raise ValueError("username and password come together: set both or none")
        return self


class InboundSettings(Table):
    """Where a mail server hands us the answers.

    Attributes:
        listen: Take mail in here. Switch it off where answers come from a mailbox by IMAP alone.
        protocol: ``lmtp`` behind Postfix or Exim, ``smtp`` for everything else.
        host: The address to listen on.
        port: The port to listen on; 0 lets the system choose one.
        max_bytes: The largest mail that is taken; answers are small.
        certificate: A file with the certificate of this server and its chain, in PEM. STARTTLS is
            offered where it is set. One that is renewed is read anew.
        private_key: A file with the private key, where it is not in the file of the certificate.
        require_tls: Whether mail is only taken encrypted.
    """

    listen: bool = True
    protocol: Literal["smtp", "lmtp"] = "smtp"
    host: str = "127.0.0.1"
    port: int = Field(default=8025, ge=0, le=65535)
    max_bytes: int = Field(default=1 << 20, ge=16 << 10, le=1 << 20)
    certificate: Path | None = None
    private_key: Path | None = None
    require_tls: bool = False

    @model_validator(mode="after")
    def _with_certificate(self) -> Self:
        if self.certificate is None and (self.private_key is not None or self.require_tls):
            raise ValueError("private_key and require_tls need a certificate: set that too")
        return self


def _signing_key(secret: SecretStr) -> SecretStr:
    if len(secret.get_secret_value()) < _SHORTEST_KEY:
        raise ValueError(f"it has fewer than {_SHORTEST_KEY} characters")
    return secret


class WebhookSettings(Table):
    """Mail in by HTTP, at the gateway's ``/inbound/mail``.

    Attributes:
        secrets: Of Standard Webhooks (``whsec_…``), for whoever posts raw messages. While one is
            replaced by another, both stand here. Without any the path is not served.
        mailgun_secrets: Signing keys of Mailgun, for its routes to
            ``/inbound/mail/mailgun/mime``. Without any the path is not served.
        results: Whether who posts writes the ``Authentication-Results`` of our mail server on top
            of each mail, and takes out those that came with it. Elsewhere anybody can write them,
            so they are not believed.
    """

    secrets: tuple[WebhookSecret, ...] = ()
    mailgun_secrets: tuple[Annotated[SecretStr, AfterValidator(_signing_key)], ...] = ()
    results: bool = False

    @property
    def keys(self) -> tuple[bytes, ...]:
        """The keys in the secrets."""
        return tuple(key_of(one.get_secret_value()) or b"" for one in self.secrets)

    @property
    def mailgun_keys(self) -> tuple[bytes, ...]:
        """The signing keys, as bytes."""
        return tuple(one.get_secret_value().encode() for one in self.mailgun_secrets)


class LimitSettings(Table):
    """What mail that comes in may cost.

    Attributes:
        readers: How many mails one process of the channels reads at the same time.
        seconds: Of CPU time for reading one mail; one that takes more is laid aside.
        per_token: How many mails one request gets from one person in an hour. More are deferred
            by SMTP and LMTP; of those that come by other ways and decide nothing, more are neither
            noted nor answered.
        per_sender: How many mails one envelope sender may send in an hour; more are deferred.
        unknown_recipients: How many unknown recipients one peer may try in an hour, by SMTP and
            not from this machine; then all that it sends is deferred.
    """

    readers: int = Field(default=2, ge=1, le=64)
    seconds: int = Field(default=2, ge=1, le=60)
    per_token: int = Field(default=60, ge=1)
    per_sender: int = Field(default=1000, ge=1)
    unknown_recipients: int = Field(default=100, ge=1)


class EmailSettings(Table):
    """The email channel.

    Attributes:
        sender: Who our mails are from.
        mailbox: The address that answers come to; each goes to ``mailbox`` with ``+token`` put
            behind its local part, so the mail server must deliver such addresses here.
        bounces: Send with the token in the envelope's sender, so that a bounce says whose card did
            not arrive and the default is asked. Switch it off where the provider takes only its
            own addresses there.
        message_id_domains: Domains of relays that put Message-IDs of their own on our mails, as
            Amazon SES does. An answer to such a mail cannot say that it answers ours, so it counts
            by the tag in its subject alone.
        smtp: The server that takes our mail.
        dkim: A signature of our own on it.
        inbound: Where the answers come in.
        webhook: Who may post answers by HTTP.
        limits: What mail that comes in may cost.
        authentication: What must be proven about who wrote them.
        imap: The mailbox that answers are read from.
    """

    sender: Sender = "Signoff <approvals@signoff.localhost>"
    mailbox: Mailbox = "approvals@signoff.localhost"
    bounces: bool = True
    message_id_domains: tuple[DomainName, ...] = ("amazonses.com",)
    smtp: SmtpSettings = Field(default_factory=SmtpSettings)
    dkim: DkimSettings = Field(default_factory=DkimSettings)
    inbound: InboundSettings = Field(default_factory=InboundSettings)
    webhook: WebhookSettings = Field(default_factory=WebhookSettings)
    limits: LimitSettings = Field(default_factory=LimitSettings)
    authentication: AuthenticationSettings = Field(default_factory=AuthenticationSettings)
    imap: ImapSettings | None = None

    @property
    def sender_name(self) -> str:
        """The name in front of the sender's address, "" where there is none."""
        return parseaddr(self.sender)[0]

    @property
    def sender_address(self) -> str:
        """The sender's address alone."""
        return parseaddr(self.sender)[1]

    @property
    def domain(self) -> str:
        """The domain of our Message-IDs."""
        return self.mailbox.rpartition("@")[2]

    @property
    def verifies_dkim(self) -> bool:
        """Whether DKIM signatures are verified here."""
        wanted, domain = self.authentication.dkim, self.domain.lower()
        return not domain.endswith("localhost") if wanted is None else wanted

    def authenticator(self) -> Authenticator:
        """Return what finds out who wrote a mail."""
        return self.authentication.authenticator(dkim=self.verifies_dkim)

    @property
    def strongest(self) -> EmailProof:
        """The most that this set-up can prove about who wrote a mail."""
        able = self.verifies_dkim or self.authentication.authserv_id
        return EmailProof.TOKEN_FROM_DMARC if able else EmailProof.TOKEN_FROM

    @property
    def required(self) -> EmailProof:
        """What must be proven about an answer whose policy does not say."""
        return self.authentication.require or self.strongest

    def reply_address(self, token: str) -> str:
        """Return the address to which an answer with this token goes."""
        local, _, domain = self.mailbox.rpartition("@")
        return f"{local}+{token}@{domain}"
