"""The table `[email.authentication]`."""

import ipaddress
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from signoff.core.policies.policy import EmailProof

_LOOPBACK = ("127.0.0.0/8", "::1/128")


def _authserv_id(text: str) -> str:
    if not set(text.lower()) <= set("abcdefghijklmnopqrstuvwxyz0123456789.-_"):
        raise ValueError(f"{text!r} is not the name of a server like mx.example.com")
    return text


def host_and_port(server: str) -> tuple[str, int]:
    """Split ``192.0.2.1``, ``192.0.2.1:5353``, ``2001:db8::1`` or ``[2001:db8::1]:5353``."""
    if server.startswith("["):
        host, _, port = server[1:].partition("]")
        return host, int(port.removeprefix(":") or 53)
    host, _, port = server.rpartition(":") if server.count(":") == 1 else (server, "", "53")
    return host, int(port)


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
    """What a reply must prove about its sender, and what can prove it.

    Attributes:
        require: What a reply must prove, unless its policy says otherwise: ``token``,
            ``token+from`` or ``token+from+dmarc``. The default is the strictest that your setup can
            prove.
        authserv_id: Your mail server's name in the ``Authentication-Results`` that it adds to each
            mail. Set it only if that server removes such fields from incoming mail.
        relays: The networks from which that server delivers mail to the gateway. Results on other
            mail are ignored.
        dkim: Whether Signoff verifies DKIM signatures itself, with keys from the DNS. The default
            is true, except for a mailbox on this machine (``.localhost``).
        alignment: ``relaxed``: the address's organisation may vouch for it. ``strict``: only the
            same domain.
        nameservers: DNS servers, as ``address`` or ``address:port``. The default is the system's.
        timeout: Seconds for one DNS query.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    require: EmailProof | None = None
    authserv_id: AuthservId = ""
    relays: tuple[Network, ...] = _LOOPBACK
    dkim: bool | None = None
    alignment: Literal["relaxed", "strict"] = "relaxed"
    nameservers: tuple[Nameserver, ...] = ()
    timeout: float = Field(default=5, gt=0, le=60)
