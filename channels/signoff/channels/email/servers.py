"""The settings that all mail servers share: the address, and the security of the connection."""

import ssl
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from signoff.channels.web.settings import SettingsTable
from signoff.core.base.errors import ConfigError
from signoff.core.base.networks import is_address, is_loopback


class ServerSettings(SettingsTable):
    """A mail server that we connect to.

    Attributes:
        host: The server's name, which its certificate must contain.
        port: The port; 0 selects the usual one.
        security: ``starttls``, ``tls`` or ``none``. ``none`` is allowed only for this machine.
        insecure: Whether to allow ``none`` for other machines. Others can then read the tokens in
            transit.
        ca_file: Certificates to trust in addition to the system's, for a private authority. A
            replaced file is reloaded.
        username: The user name. Without one Signoff does not log in.
        password: The password.
        timeout: Seconds for each command.
    """

    usual_ports: ClassVar[dict[str, int]]
    table: ClassVar[str]

    host: str = Field(default="127.0.0.1", min_length=1, max_length=253)
    port: int = Field(default=0, ge=0, le=65535)
    security: Literal["none", "starttls", "tls"] = "none"
    insecure: bool = False
    ca_file: Path | None = None
    username: str = ""
    password: SecretStr = SecretStr("")
    timeout: float = Field(default=20, gt=0, le=600)

    @property
    def real_port(self) -> int:
        """The port, or the usual one if none is set."""
        return self.port or self.usual_ports[self.security]

    @property
    def where(self) -> str:
        """Host and port, for messages."""
        return f"{self.host}:{self.real_port}"

    @field_validator("host", mode="after")
    @classmethod
    def _only_a_name(cls, value: str) -> str:
        if "/" in value or "@" in value or (":" in value and not is_address(value)):
            raise ValueError(
                f"{value!r} is not the name of a server, like mail.example.com: leave out scheme, "
                "port and path"
            )
        return value

    @model_validator(mode="after")
    def _safe(self) -> Self:
        if self.security == "none" and not (self.insecure or is_loopback(self.host)):
            raise ValueError(
                f"security = 'none' would carry mail between here and {self.host} unencrypted, "
                "tokens included; set 'starttls' or 'tls', or insecure = true if that is what you "
                "want"
            )
        return self

    def tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context; None without TLS.

        Raises:
            ConfigError: The file of certificates cannot be read.
        """
        if self.security == "none":
            return None
        context = ssl.create_default_context()
        if self.ca_file is not None:
            try:
                context.load_verify_locations(self.ca_file)
            except (OSError, ssl.SSLError) as error:
                raise ConfigError(
                    f"{self.ca_file} cannot be read as certificates: {error}",
                    key=f"{self.table}.ca_file",
                ) from error
        return context
