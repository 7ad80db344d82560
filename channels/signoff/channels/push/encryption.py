"""The body of a push message: only the browser that it is for can read it (RFC 8291)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final

import http_ece
from cryptography.hazmat.primitives.asymmetric import ec

from signoff.channels.inbox.subscriptions import Subscription
from signoff.channels.inbox.vapid import decoded

MOST: Final = 3000
"""The most bytes of a message; push services accept 4096 after encryption (RFC 8291, 4)."""


def encrypted(content: Mapping[str, object], to: Subscription) -> bytes:
    """Return a message, encrypted for one subscription (``aes128gcm``)."""
    body: bytes = http_ece.encrypt(
        json.dumps(content, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        salt=os.urandom(16),
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=decoded(to.key),
        auth_secret=decoded(to.auth),
        version="aes128gcm",
    )
    return body
