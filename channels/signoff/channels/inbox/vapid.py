"""VAPID (RFC 8292): proves to push services that Signoff is the sender."""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from signoff.channels.inbox.settings import PushSettings

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

_LASTS: Final = timedelta(hours=12)
"""Push services refuse tokens that are valid for more than a day (RFC 8292, section 2)."""


def public_key(settings: PushSettings) -> str:
    """Return the public key with which browsers subscribe (base64url)."""
    # The pages import this module, and most installations do not use push.
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat  # noqa: PLC0415

    point = _key(settings).public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
    return encoded(point)


def authorization(settings: PushSettings, endpoint: str, now: datetime) -> str:
    """Return the header `Authorization` of a message to an endpoint."""
    from joserfc import jwt  # noqa: PLC0415 -- as above
    from joserfc.jwk import ECKey  # noqa: PLC0415

    numbers = _key(settings).private_numbers()
    public = numbers.public_numbers
    key = ECKey.import_key(
        {
            "kty": "EC",
            "crv": "P-256",
            "d": _number(numbers.private_value),
            "x": _number(public.x),
            "y": _number(public.y),
        }
    )
    parts = urlsplit(endpoint)
    claims: dict[str, object] = {
        "aud": f"{parts.scheme}://{parts.netloc}",
        "exp": int((now + _LASTS).timestamp()),
        "sub": settings.contact,
    }
    token = jwt.encode({"typ": "JWT", "alg": "ES256"}, claims, key)
    return f"vapid t={token}, k={public_key(settings)}"


def encoded(data: bytes) -> str:
    """Return bytes in base64url, without padding."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def decoded(text: str) -> bytes:
    """Decode base64url, with or without padding.

    Raises:
        ValueError: The text is not base64url.
    """
    text = text.rstrip("=")
    padding = "=" * (-len(text) % 4)
    return base64.b64decode(text + padding, altchars=b"-_", validate=True)


def _key(settings: PushSettings) -> ec.EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 -- as above

    return ec.derive_private_key(settings.number, ec.SECP256R1())


def _number(value: int) -> str:
    return encoded(value.to_bytes(32, "big"))
