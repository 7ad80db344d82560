"""A software authenticator that acts as a security key: with keys, a counter and a user."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import struct
from dataclasses import dataclass, field
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_PRESENT, _VERIFIED, _ATTESTED = 0x01, 0x04, 0x40


def b64(raw: bytes) -> str:
    """Return bytes as base64url without padding."""
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


@dataclass
class Authenticator:
    """One passkey; its answers can be made false.

    Attributes:
        origin: The origin that the browser reports.
        host: The host that the answer is bound to.
        verifies: Whether the user gives a fingerprint or a PIN.
        counts: How much the counter grows each time.
    """

    origin: str
    host: str
    verifies: bool = True
    counts: int = 1
    count: int = 0
    id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(
        default_factory=lambda: ec.generate_private_key(ec.SECP256R1())
    )

    def make(self, offer: dict[str, Any]) -> str:
        """Return the browser's response to a request to create a passkey."""
        numbers = self.key.public_key().public_numbers()
        public = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32), -3: numbers.y.to_bytes(32)}
        attested = bytes(16) + struct.pack(">H", len(self.id)) + self.id + cbor2.dumps(public)
        data = self._data(_ATTESTED) + attested
        statement = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", offer)
        return self._written({"clientDataJSON": b64(client), "attestationObject": b64(statement)})

    def sign(self, offer: dict[str, Any]) -> str:
        """Return the browser's response to a request to sign."""
        data, client = self._data(0), self._client("webauthn.get", offer)
        signed = data + hashlib.sha256(client).digest()
        signature = self.key.sign(signed, ec.ECDSA(hashes.SHA256()))
        return self._written(
            {
                "clientDataJSON": b64(client),
                "authenticatorData": b64(data),
                "signature": b64(signature),
            }
        )

    def _data(self, more: int) -> bytes:
        self.count += self.counts
        flags = _PRESENT | more | (_VERIFIED if self.verifies else 0)
        return hashlib.sha256(self.host.encode()).digest() + struct.pack(">BI", flags, self.count)

    def _client(self, kind: str, offer: dict[str, Any]) -> bytes:
        data = {"type": kind, "challenge": offer["challenge"], "origin": self.origin}
        return json.dumps(data).encode()

    def _written(self, response: dict[str, str]) -> str:
        name = b64(self.id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})
