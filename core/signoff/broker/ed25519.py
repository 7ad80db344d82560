"""Signed JSON: JWS in the compact form (RFC 7515), with Ed25519 only (RFC 8037).

A complete JOSE library would load all its algorithms into each process. The tests compare this
module with such a library.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Self

from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey, VerifyKey

ALGORITHM: Final = "EdDSA"
"""The name from RFC 8037, which every JOSE library knows; the one from RFC 9864 is newer."""

_BYTES: Final = 32
_KIND: Final = {"kty": "OKP", "crv": "Ed25519"}


@dataclass(frozen=True, slots=True)
class Key:
    """An Ed25519 key.

    Attributes:
        public: The public key.
        seed: The private key; empty if it is not known.
    """

    public: bytes
    seed: bytes = field(default=b"", repr=False)

    @classmethod
    def generate(cls) -> Self:
        """Return a new private key."""
        made = SigningKey.generate()
        return cls(bytes(made.verify_key), bytes(made))

    @classmethod
    def read(cls, jwk: dict[str, Any]) -> Self:
        """Return the key in a JSON object (RFC 7517).

        Raises:
            ValueError: It is not an Ed25519 key, or the private key does not match the public one.
        """
        if jwk.get("kty") != _KIND["kty"]:
            raise ValueError(f"it is not a key: kty is {jwk.get('kty')!r}, not 'OKP'")
        if jwk.get("crv") != _KIND["crv"]:
            raise ValueError(f"it is a key of {jwk.get('crv')}, not of Ed25519")
        public, seed = _key_bytes(jwk, "x"), _key_bytes(jwk, "d") if "d" in jwk else b""
        if seed and bytes(SigningKey(seed).verify_key) != public:
            raise ValueError("it is not a key: x and d do not match")
        return cls(public, seed)

    @property
    def is_private(self) -> bool:
        """Whether it can sign."""
        return bool(self.seed)

    @property
    def kid(self) -> str:
        """The key id: the thumbprint of the public key (RFC 7638)."""
        members = _KIND | {"x": _text(self.public)}
        text = json.dumps(members, sort_keys=True, separators=(",", ":"))
        return _text(hashlib.sha256(text.encode()).digest())

    def jwk(self, *, private: bool) -> dict[str, str]:
        """Return the key as a JSON object, with its key id."""
        secret = {"d": _text(self.seed)} if private else {}
        used = {"kid": self.kid, "use": "sig", "alg": ALGORITHM}
        return {**_KIND, "x": _text(self.public), **secret, **used}

    def sign(self, payload: str, kind: str) -> str:
        """Sign a text, and return both as a JWS with this type (``typ``) in its header."""
        header = json.dumps({"alg": ALGORITHM, "kid": self.kid, "typ": kind})
        signed = f"{_text(header.encode())}.{_text(payload.encode())}"
        return f"{signed}.{_text(SigningKey(self.seed).sign(signed.encode()).signature)}"


def contents(signed: str) -> tuple[dict[str, Any], bytes]:
    """Return the header and the payload of a JWS without verifying its signature.

    Raises:
        ValueError: It is not a JWS.
    """
    header, payload, _ = _parts(signed)
    found = json.loads(_bytes(header))
    if not isinstance(found, dict):
        raise ValueError("its header is not a JSON object")  # noqa: TRY004 -- of the text, not of a type
    return found, _bytes(payload)


def verified(signed: str, kind: str, key: Callable[[str], Key]) -> bytes:
    """Verify a JWS, and return its payload.

    Args:
        signed: The JWS.
        kind: The expected type (``typ``).
        key: Returns the public key with a key id.

    Raises:
        ValueError: It is not a JWS of this type, or the signature is invalid.
    """
    header, payload = contents(signed)
    # "crit" lists extensions that must be understood (RFC 7515, section 4.1.11); none are.
    if (header.get("alg"), header.get("typ")) != (ALGORITHM, kind) or "crit" in header:
        raise ValueError("it is not a receipt")
    public = VerifyKey(key(str(header.get("kid", ""))).public)
    head, body, signature = _parts(signed)
    try:
        public.verify(f"{head}.{body}".encode(), _bytes(signature))
    except BadSignatureError as error:
        raise ValueError("the signature is not that of this text") from error
    return payload


def _parts(signed: str) -> list[str]:
    parts = signed.split(".")
    if len(parts) != 3:
        raise ValueError("it does not have three parts")
    return parts


def _key_bytes(jwk: dict[str, Any], name: str) -> bytes:
    value = jwk.get(name)
    found = _bytes(value) if isinstance(value, str) else b""
    if len(found) != _BYTES:
        raise ValueError(f"it is not a key: {name} should be {_BYTES} bytes in base64url")
    return found


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Decode base64url without padding (RFC 7515, section 2).

    Raises:
        ValueError: The text is not base64url.
    """
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if _text(raw) != text:
        raise ValueError("it is not base64url")
    return raw
