"""A small DNS server on loopback, and mail signed with the keys that it publishes."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import dkim
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import nacl.signing
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from signoff.channels.email.authentication.lookup import Txt

FIELDS = ("from", "to", "cc", "subject", "date", "message-id", "content-type")


@dataclass
class Zone:
    """A DNS zone, with the queries that the server received.

    Attributes:
        records: The TXT records by name.
        broken: The names that get SERVFAIL.
        silent: The names that get no answer.
        asked: The requested names, in order.
        port: The port of the server.
    """

    records: dict[str, list[str]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    port: int = 0

    @property
    def server(self) -> str:
        """The address for ``nameservers``."""
        return f"127.0.0.1:{self.port}"

    def txt(self) -> Txt:
        """Return a resolver for this server, with enough time for a busy machine."""
        return Txt([self.server], timeout=60)

    def publish(self, signer: Signer, *, flags: str = "") -> None:
        """Publish the key of a signer."""
        self.records[f"{signer.selector}._domainkey.{signer.domain}"] = [signer.record + flags]


class _Protocol(asyncio.DatagramProtocol):
    def __init__(self, zone: Zone) -> None:
        self.zone = zone

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        query = dns.message.from_wire(data)
        question = query.question[0]
        name = question.name.to_text(omit_final_dot=True).lower()
        self.zone.asked.append(name)
        if name in self.zone.silent:
            return
        answer = dns.message.make_response(query)
        answer.flags |= dns.flags.RA
        texts = self.zone.records.get(name, [])
        if name in self.zone.broken:
            answer.set_rcode(dns.rcode.SERVFAIL)
        elif not texts:
            answer.set_rcode(dns.rcode.NXDOMAIN)
        else:
            pieces = [
                " ".join(f'"{text[at : at + 250]}"' for at in range(0, len(text), 250))
                for text in texts
            ]
            answer.answer.append(dns.rrset.from_text(question.name, 300, "IN", "TXT", *pieces))
        self.transport.sendto(answer.to_wire(), addr)


@asynccontextmanager
async def serving(zone: Zone) -> AsyncIterator[Zone]:
    """Serve a zone on a free port of loopback."""
    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(
        lambda: _Protocol(zone), local_addr=("127.0.0.1", 0)
    )
    zone.port = transport.get_extra_info("sockname")[1]
    try:
        yield zone
    finally:
        transport.close()


@dataclass(frozen=True)
class Signer:
    """Signs mail for a domain as its mail server does."""

    domain: str
    selector: str = "s1"
    algorithm: str = "rsa-sha256"
    bits: int = 1024

    @property
    def record(self) -> str:
        """The TXT record of the key."""
        kind = self.algorithm.partition("-")[0]
        return f"v=DKIM1; k={kind}; p={_keys(kind, self.bits)[1]}"

    @property
    def key(self) -> bytes:
        """The private key: PEM for RSA, and dkimpy's form for Ed25519."""
        return _keys(self.algorithm.partition("-")[0], self.bits)[0]

    def sign(self, raw: bytes, *, fields: tuple[str, ...] = FIELDS, **more: Any) -> bytes:
        """Return a mail with a signature above it; keyword arguments go to dkimpy."""
        present = [name.encode() for name in fields if f"\n{name}:" in _head(raw)]
        line = dkim.DKIM(raw, signature_algorithm=self.algorithm.encode()).sign(
            self.selector.encode(),
            self.domain.encode(),
            self.key,
            include_headers=present,
            canonicalize=more.pop("canonicalize", (b"relaxed", b"relaxed")),
            **more,
        )
        return bytes(line) + raw


def _head(raw: bytes) -> str:
    return "\n" + raw.replace(b"\r\n", b"\n").partition(b"\n\n")[0].decode("latin-1").lower()


@cache
def _keys(kind: str, bits: int) -> tuple[bytes, str]:
    """Return a private key in dkimpy's form, and the public key in DNS form."""
    if kind == "ed25519":
        key = nacl.signing.SigningKey.generate()
        public = base64.b64encode(bytes(key.verify_key)).decode()
        return base64.b64encode(bytes(key)), public
    private = rsa.generate_private_key(65537, bits)
    pem = private.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    der = private.public_key().public_bytes(
        serialization.Encoding.DER, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return pem, base64.b64encode(der).decode()


def letter(
    *,
    sender: str = "Mara Lind <mara@example.com>",
    to: str = "approvals+token@signoff.example",
    text: str = "approve\r\n",
    more: str = "",
    subject: str = "Re: Approval needed",
) -> bytes:
    """Return an answer as a mail program writes it."""
    return (
        f"{more}From: {sender}\r\nTo: {to}\r\nSubject: {subject}\r\n"
        "Date: Sat, 21 Nov 2026 11:00:00 +0000\r\nMessage-ID: <one@example.com>\r\n"
        f'Content-Type: text/plain; charset="utf-8"\r\n\r\n{text}'
    ).encode()
