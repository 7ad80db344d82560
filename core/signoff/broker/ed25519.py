"""Signed JSON: JWS in the compact form (RFC 7515), with Ed25519 (RFC 8037) and nothing else.

A library for all of JOSE brings all of its algorithms into the memory of each process. The tests
hold this against such a one.
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
"""Of RFC 8037, which every JOSE library knows; the name of RFC 9864 is new."""

_BYTES: Final = 32
_KIND: Final = {"kty": "OKP", "crv": "Ed25519"}


@dataclass(frozen=True, slots=True)
class Key:
    """A key of Ed25519.

    Attributes:
        public: The public key.
        seed: The private key; empty where it is not known.
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
        """Return the key of a JSON object (RFC 7517).

        Raises:
            ValueError: It is none, or its private key is that of another public key.
        """
        if jwk.get("kty") != _KIND["kty"]:
            raise ValueError(f"it is no key: kty is {jwk.get('kty')!r}, not 'OKP'")
        if jwk.get("crv") != _KIND["crv"]:
            raise ValueError(f"it is a key of {jwk.get('crv')}, not of Ed25519")
        public, seed = _key_bytes(jwk, "x"), _key_bytes(jwk, "d") if "d" in jwk else b""
        if seed and bytes(SigningKey(seed).verify_key) != public:
            raise ValueError("it is no key: x and d do not belong together")
        return cls(public, seed)

    @property
    def is_private(self) -> bool:
        """Whether it can sign."""
        return bool(self.seed)

    @property
    def kid(self) -> str:
        """What it is called: its thumbprint (RFC 7638)."""
        members = _KIND | {"x": _text(self.public)}
        text = json.dumps(members, sort_keys=True, separators=(",", ":"))
        return _text(hashlib.sha256(text.encode()).digest())

    def jwk(self, *, private: bool) -> dict[str, str]:
        """Return it as a JSON object, with its name."""
        secret = {"d": _text(self.seed)} if private else {}
        used = {"kid": self.kid, "use": "sig", "alg": ALGORITHM}
        return {**_KIND, "x": _text(self.public), **secret, **used}

    def sign(self, payload: str, kind: str) -> str:
        """Return a signed text.

        Args:
            payload: The text.
            kind: What it is, for its header (``typ``).
        """
        header = json.dumps({"alg": ALGORITHM, "kid": self.kid, "typ": kind})
        signed = f"{_text(header.encode())}.{_text(payload.encode())}"
        return f"{signed}.{_text(SigningKey(self.seed).sign(signed.encode()).signature)}"


def contents(signed: str) -> tuple[dict[str, Any], bytes]:
    """Return header and payload of a signed text. They are not verified.

    Raises:
        ValueError: It is none.
    """
    header, payload, _ = _parts(signed)
    found = json.loads(_bytes(header))
    if not isinstance(found, dict):
        raise ValueError("its header is not a JSON object")  # noqa: TRY004 -- of the text, not of a type
    return found, _bytes(payload)


def verified(signed: str, kind: str, key: Callable[[str], Key]) -> bytes:
    """Return the payload of a signed text.

    Args:
        signed: The text.
        kind: What it has to be (``typ``).
        key: Returns the public key of a name.

    Raises:
        ValueError: It is something else, or the signature is not that of this text and key.
    """
    header, payload = contents(signed)
    # Extensions that have to be understood (RFC 7515, section 4.1.11): there are none.
    if (header.get("alg"), header.get("typ")) != (ALGORITHM, kind) or "crit" in header:
        raise ValueError("it is something else than a receipt")
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
        raise ValueError("it has not three parts")
    return parts


def _key_bytes(jwk: dict[str, Any], name: str) -> bytes:
    value = jwk.get(name)
    found = _bytes(value) if isinstance(value, str) else b""
    if len(found) != _BYTES:
        raise ValueError(f"it is no key: {name} should be {_BYTES} bytes in base64url")
    return found


def _text(raw: bytes) -> str:
    return urlsafe_b64encode(raw).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    """Return what is written in base64url without padding (RFC 7515, section 2).

    Raises:
        ValueError: It is not.
    """
    try:
        raw = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raw = b""
    if _text(raw) != text:
        raise ValueError("it is not base64url")
    return raw
