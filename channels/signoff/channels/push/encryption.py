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
"""Bytes of a message before it is encrypted: push services take 4096 after it (RFC 8291, 4)."""


def encrypted(told: Mapping[str, object], to: Subscription) -> bytes:
    """Return a message, encrypted for one subscription (``aes128gcm``).

    Args:
        told: What the service worker gets, as JSON.
        to: The subscription.
    """
    body: bytes = http_ece.encrypt(
        json.dumps(told, ensure_ascii=False).encode("utf-8", "backslashreplace"),
        salt=os.urandom(16),
        private_key=ec.generate_private_key(ec.SECP256R1()),
        dh=decoded(to.key),
        auth_secret=decoded(to.auth),
        version="aes128gcm",
    )
    return body
