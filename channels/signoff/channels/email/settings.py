"""The settings of the email channel: the table `[email]` and its subtables."""

from email.utils import parseaddr
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, model_validator

from signoff.channels.email.authentication.settings import AuthenticationSettings
from signoff.channels.email.imap.settings import ImapSettings, OAuthSettings
from signoff.channels.email.outbound.settings import DkimSettings
from signoff.channels.email.parsing.addresses import normal_address
from signoff.channels.email.servers import ServerSettings
from signoff.channels.web.settings import SettingsTable, WebhookSecret
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
    """The server that sends Signoff's mail.

    Attributes:
        port: The port; 0 selects the usual one: 587 for starttls, 465 for tls, 25 for none.
        per_minute: The most mails a minute, for all processes together; 0 means no limit.
        connections: The most simultaneous connections, for all processes together; 0 means no
            limit.
        oauth: How to request tokens for the login, instead of a password, as in
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
        # The processes that log in report a missing password; commands do not need one.
        if (password or self.oauth is not None) and not self.username:
            raise ValueError("a password or [email.smtp.oauth] needs a username")
        return self


class InboundSettings(SettingsTable):
    """The server that receives replies by SMTP or LMTP.

    Attributes:
        listen: Whether to listen for mail. Set it to false if replies come only by IMAP.
        protocol: ``lmtp`` behind Postfix or Exim, otherwise ``smtp``.
        host: The address to listen on: ``0.0.0.0`` is every IPv4 address, ``::`` every IPv6
            address, and not both.
        port: The port to listen on; 0 lets the system choose.
        max_bytes: The largest accepted mail.
        certificate: A PEM file with the server's certificate and chain. If it is set, STARTTLS is
            offered. A renewed file is reloaded.
        private_key: A file with the private key, if it is not in the certificate's file.
        require_tls: Whether to refuse mail without TLS.
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


class WebhookSettings(SettingsTable):
    """Mail by HTTP, at the gateway's ``/inbound/mail``.

    Attributes:
        secrets: Secrets of Standard Webhooks (``whsec_…``) for programs that post raw messages.
            List two during a rotation. Without any, the path is not served.
        mailgun_secrets: Mailgun's webhook signing keys, for routes to
            ``/inbound/mail/mailgun/mime``. Without any, the path is not served.
        results: Whether the posting program replaces all ``Authentication-Results`` with those of
            your mail server. Otherwise they are ignored, because anybody can write them.
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


class LimitSettings(SettingsTable):
    """Limits on incoming mail.

    Attributes:
        readers: How many mails a channels process reads at the same time, each in a separate
            process. The same number of processes verify signatures.
        seconds: Seconds of CPU for reading one mail. A mail that needs more goes to quarantine.
        per_token: Mails to the address of one card in an hour: from its approver, and from all
            others together. SMTP and LMTP defer further mails. On other paths, further mails that
            decide nothing are neither recorded nor answered.
        per_sender: Mails from one envelope sender in an hour. Further mails are deferred.
        unknown_recipients: Unknown recipients from one SMTP peer in an hour, except from this
            machine. Beyond that, all its mail is deferred.
    """

    readers: int = Field(default=2, ge=1, le=64)
    seconds: int = Field(default=2, ge=1, le=60)
    per_token: int = Field(default=60, ge=1)
    per_sender: int = Field(default=1000, ge=1)
    unknown_recipients: int = Field(default=100, ge=1)


class EmailSettings(SettingsTable):
    """The email channel.

    Attributes:
        sender: The sender of Signoff's mails.
        mailbox: The address for replies. Signoff appends ``+token`` to its local part, so the mail
            server must accept such addresses.
        bounces: Put the token into the envelope sender, so that a bounce identifies the card and
            somebody else is asked. Set it to false if your provider accepts only its own envelope
            senders.
        message_id_domains: Domains of relays that replace Message-IDs, such as Amazon SES. Replies
            to their mails are matched only by the tag in the subject.
        smtp: The server that sends our mail.
        dkim: Our own signature.
        inbound: The server that receives replies.
        webhook: Replies over HTTP.
        limits: The limits on incoming mail.
        authentication: The proof that replies need.
        imap: The mailbox from which replies are read.
    """

    sender: Sender = "Signoff <approvals@signoff.localhost>"
    mailbox: Mailbox = "approvals@signoff.localhost"
    bounces: bool = True
    message_id_domains: tuple[DomainName, ...] = ("amazonses.com",)
    smtp: SmtpSettings = Field(default_factory=SmtpSettings.model_construct)
    dkim: DkimSettings = Field(default_factory=DkimSettings.model_construct)
    inbound: InboundSettings = Field(default_factory=InboundSettings.model_construct)
    webhook: WebhookSettings = Field(default_factory=WebhookSettings.model_construct)
    limits: LimitSettings = Field(default_factory=LimitSettings.model_construct)
    authentication: AuthenticationSettings = Field(
        default_factory=AuthenticationSettings.model_construct
    )
    imap: ImapSettings | None = None

    @property
    def sender_name(self) -> str:
        """The name in front of the sender's address, "" if there is none."""
        return parseaddr(self.sender)[0]

    @property
    def sender_address(self) -> str:
        """The sender's address, without the name."""
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

    @property
    def strongest(self) -> EmailProof:
        """The strictest proof of a mail's author that this installation can require."""
        able = self.verifies_dkim or self.authentication.authserv_id
        return EmailProof.TOKEN_FROM_DMARC if able else EmailProof.TOKEN_FROM

    @property
    def required(self) -> EmailProof:
        """The required proof for an answer whose policy does not set one."""
        return self.authentication.require or self.strongest

    def reply_address(self, token: str) -> str:
        """Return the reply address for a token."""
        local, _, domain = self.mailbox.rpartition("@")
        return f"{local}+{token}@{domain}"
