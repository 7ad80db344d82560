"""The Message-IDs of our own mails: each a function of its cause, and each names its approval."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

_PREFIX: Final = "<signoff."
_LENGTH: Final = 26


def message_id(cause: str, approval: str, domain: str) -> str:
    """Return the Message-ID of the mail for a cause: a resend is the same mail.

    Args:
        cause: The id of the work item; that of a card is a function of approval, level and person.
        approval: The id of the approval that the mail is about. It is no secret.
        domain: Ours.
    """
    return f"{_PREFIX}{_short(cause)}.{approval}@{domain}>"


def approval_named(message_id: str) -> str:
    """Return the id of the approval that a Message-ID of ours is about, "" for any other's."""
    left = message_id.rpartition("@")[0]
    approval = left[len(_PREFIX) + _LENGTH + 1 :]
    return approval if left.startswith(_PREFIX) and approval.startswith("ap_") else ""


def is_caused_by(message_id: str, cause: str) -> bool:
    """Say whether a Message-ID of ours is that of the mail for a cause."""
    return message_id.startswith(f"{_PREFIX}{_short(cause)}.")


def _short(cause: str) -> str:
    digest = hashlib.sha256(cause.encode()).digest()[:16]
    return base64.b32encode(digest).decode().rstrip("=").lower()
