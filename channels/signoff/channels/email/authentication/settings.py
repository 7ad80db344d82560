"""The table `[email.authentication]`."""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from signoff.channels.email.authentication.authenticator import Authenticator
from signoff.channels.email.authentication.lookup import Txt, host_and_port
from signoff.core.policies.policy import EmailProof

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def _authserv_id(text: str) -> str:
    if not set(text.lower()) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_"):
        raise ValueError(f"{text!r} is not the name of a server like mx.example.com")
    return text


def _nameserver(text: str) -> str:
    try:
        host, port = host_and_port(text)
        ipaddress.ip_address(host)
    except ValueError:
        port = 0
    if not 0 < port < 1 << 16:
        raise ValueError(f"{text!r} is not an address like 192.0.2.53 or 192.0.2.53:5353")
    return text


def _network(text: str) -> str:
    try:
        ipaddress.ip_network(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a network like 10.1.2.0/24 or 10.1.2.3") from None
    return text


AuthservId = Annotated[str, AfterValidator(_authserv_id)]
Network = Annotated[str, AfterValidator(_network)]
Nameserver = Annotated[str, AfterValidator(_nameserver)]


class AuthenticationSettings(BaseModel):
    """Who wrote a mail: what is asked for, and what can prove it.

    Attributes:
        require: What must be proven about an answer before it counts, where its policy does not
            say: ``token``, ``token+from`` or ``token+from+dmarc``. The strictest that can be
            proven where it is not set.
        authserv_id: What your mail server calls itself in the ``Authentication-Results`` that it
            puts on top of each mail. Set it only if that server removes such fields of others.
        relays: The networks from which that server hands mail to the gateway. Results on a mail
            from elsewhere are not believed.
        dkim: Verify DKIM signatures here too, with keys from the DNS. Where it is not set: yes,
            unless the mailbox is in a domain of this machine alone (``.localhost``).
        alignment: Whether the organisation of an address may vouch for it (``relaxed``), or only
            its very domain (``strict``).
        nameservers: ``address`` or ``address:port`` of the DNS servers to ask; the system's where
            there are none.
        timeout: Seconds for one answer of the DNS.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    require: EmailProof | None = None
    authserv_id: AuthservId = ""
    relays: tuple[Network, ...] = _LOOPBACK
    dkim: bool | None = None
    alignment: Literal["relaxed", "strict"] = "relaxed"
    nameservers: tuple[Nameserver, ...] = ()
    timeout: float = Field(default=5, gt=0, le=60)

    def authenticator(self, *, dkim: bool) -> Authenticator:
        """Return what finds out who wrote a mail.

        Args:
            dkim: Whether signatures are verified here.
        """
        return Authenticator(
            authserv_id=self.authserv_id,
            relays=[ipaddress.ip_network(one) for one in self.relays],
            dkim=dkim,
            strict=self.alignment == "strict",
            txt=Txt(self.nameservers, timeout=self.timeout),
        )
