"""Signatures of webhooks, incoming and outgoing: an HMAC over the content and the time."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

WINDOW: Final = timedelta(minutes=5)
"""The most that the time of sending may differ from the ledger's clock, in both directions."""

PREFIX: Final = "whsec_"
"""The prefix of a Standard Webhooks secret."""

_MOST_SIGNATURES: Final = 10
_LONGEST_ID: Final = 256


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a text, in hexadecimal: a name for a secret that is not stored."""
    return hashlib.sha256(text.encode()).hexdigest()


class Signed(NamedTuple):
    """A signed message.

    Attributes:
        id: The sender's id for it; the same if it is sent again.
        timestamp: When it was sent, in seconds since the epoch, as text.
        content: The bytes that the signature covers.
        signatures: The signatures that were sent; one must match.
    """

    id: str
    timestamp: str
    content: bytes
    signatures: tuple[bytes, ...]


def standard(headers: Mapping[str, str], body: bytes = b"") -> Signed | None:
    """Return the signed message of a Standard Webhooks request; None without its headers.

    The names of the headers are in lower case. The body may be only its beginning.
    """
    name, at = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    signatures = []
    for one in headers.get("webhook-signature", "").split()[:_MOST_SIGNATURES]:
        version, _, encoded = one.partition(",")
        if version == "v1":
            signatures.append(_decoded(encoded) or b"")
    if not name or len(name) > _LONGEST_ID or not signatures:
        return None
    return Signed(name, at, f"{name}.{at}.".encode() + body, tuple(signatures))


def mailgun(fields: Mapping[str, str]) -> Signed | None:
    """Return the signed message of a Mailgun route's form; None if it is not signed.

    Mailgun signs its token and the time, but not the mail.
    """
    token, at = fields.get("token", ""), fields.get("timestamp", "")
    try:
        signature = bytes.fromhex(fields.get("signature", ""))
    except ValueError:
        return None
    if not token or len(token) > _LONGEST_ID or not signature:
        return None
    return Signed(token, at, f"{at}{token}".encode(), (signature,))


class SignatureCheck:
    """Checks whether one of the keys signed a message with HMAC-SHA256, as its bytes arrive.

    It starts with the beginning of the content. Several keys allow rotation.
    """

    def __init__(self, signed: Signed, keys: Sequence[bytes]) -> None:
        self._signatures = signed.signatures
        self._digests = [hmac.new(key, signed.content, hashlib.sha256) for key in keys]

    def update(self, content: bytes) -> None:
        """Add the next bytes of the content."""
        for digest in self._digests:
            digest.update(content)

    @property
    def fits(self) -> bool:
        """Whether one of the signatures is that of a key."""
        fits = False
        for digest in self._digests:
            wanted = digest.digest()
            for one in self._signatures:
                fits = hmac.compare_digest(wanted, one) or fits
        return fits


def is_signed(signed: Signed, keys: Sequence[bytes]) -> bool:
    """Return whether one of the keys signed a message; see `SignatureCheck`."""
    return SignatureCheck(signed, keys).fits


def sign(keys: Sequence[bytes], name: str, at: datetime, body: bytes) -> dict[str, str]:
    """Return the Standard Webhooks headers for an outgoing message; each key signs it."""
    seconds = str(int(at.timestamp()))
    content = f"{name}.{seconds}.".encode() + body
    made = [base64.b64encode(hmac.digest(key, content, hashlib.sha256)).decode() for key in keys]
    return {
        "Webhook-Id": name,
        "Webhook-Timestamp": seconds,
        "Webhook-Signature": " ".join(f"v1,{one}" for one in made),
    }


def is_timely(signed: Signed, now: datetime) -> bool:
    """Return whether it was sent within `WINDOW` of now."""
    if not (signed.timestamp.isascii() and signed.timestamp.isdigit()):
        return False
    if len(signed.timestamp) > len("9999999999"):
        return False
    return abs(now.timestamp() - int(signed.timestamp)) <= WINDOW.total_seconds()


def key_of(secret: str) -> bytes | None:
    """Return the key of a Standard Webhooks secret (``whsec_`` and base64), else None."""
    if not secret.startswith(PREFIX):
        return None
    return _decoded(secret.removeprefix(PREFIX))


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
