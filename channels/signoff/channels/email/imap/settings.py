"""The settings of the mailbox from which replies are read: `[email.imap]`."""

from typing import Annotated, ClassVar, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, SecretStr, model_validator

from signoff.channels.email.servers import ServerSettings
from signoff.channels.web.settings import SettingsTable
from signoff.core.base.networks import is_loopback


def _token_url(text: str) -> str:
    url = urlsplit(text)
    safe = url.scheme == "https" or (url.scheme == "http" and is_loopback(url.hostname or ""))
    if not safe or not url.hostname:
        raise ValueError(f"{text!r} is not a URL like https://oauth2.example.com/token")
    return text


class OAuthSettings(SettingsTable):
    """OAuth instead of a password (RFC 6749).

    Attributes:
        token_url: The HTTPS address that issues tokens.
        client_id: The client id of the registration.
        client_secret: The client secret, if the registration has one.
        refresh_token: The refresh token from the owner's consent. Without one, Signoff uses client
            credentials, as for a shared mailbox in Microsoft 365.
        scope: The scope, as the issuer documents it.
    """

    token_url: Annotated[str, AfterValidator(_token_url)]
    client_id: str = Field(min_length=1)
    client_secret: SecretStr = SecretStr("")
    refresh_token: SecretStr = SecretStr("")
    scope: str = ""

    @property
    def grantable(self) -> bool:
        """Whether there is a secret with which to request tokens."""
        return bool(self.client_secret.get_secret_value() or self.refresh_token.get_secret_value())


class ImapSettings(ServerSettings):
    """The mailbox from which replies are read.

    Attributes:
        port: The port; 0 selects the usual one: 993 for tls, 143 for starttls and none.
        username: The user name of the mailbox, usually its address.
        password: The password; not needed with ``oauth``.
        folder: The folder to read. The first time, only the mail of the last five days is read.
        idle: Seconds after which IDLE is renewed, before routers drop the connection; 0 polls
            instead.
        poll: Seconds between two polls of a server without IDLE.
        takeover: Seconds without a heartbeat after which another gateway reads the mailbox.
        oauth: How to request tokens, instead of a password.
    """

    usual_ports: ClassVar[dict[str, int]] = {"none": 143, "starttls": 143, "tls": 993}
    table: ClassVar[str] = "email.imap"

    host: str = Field(min_length=1, max_length=253)
    security: Literal["none", "starttls", "tls"] = "tls"
    username: str = Field(min_length=1, max_length=320)
    folder: str = Field(default="INBOX", min_length=1, max_length=255)
    # RFC 2177: less than 29 minutes. Many routers drop connections sooner.
    idle: float = Field(default=540, ge=0, lt=1740)
    poll: float = Field(default=30, ge=1, lt=1740)
    takeover: float = Field(default=30, ge=1, le=3600)
    oauth: OAuthSettings | None = None

    @model_validator(mode="after")
    def _one_login(self) -> Self:
        password = self.password.get_secret_value()
        # The process that logs in reports that both are missing; commands do not need them.
        if password and self.oauth is not None:
            raise ValueError("set password, or the table [email.imap.oauth], and not both")
        for name, text in (
            ("username", self.username),
            ("password", password),
            ("folder", self.folder),
        ):
            if not text.isprintable():
                raise ValueError(f"{name} has a line break or a control character in it")
        return self

    @property
    def mailbox(self) -> str:
        """The id of the mailbox and folder, which only one gateway reads."""
        return f"{self.username}@{self.host}/{self.folder}"
