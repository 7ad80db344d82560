"""The Message-IDs of our mails: each is derived from its cause, and names its approval.

Each has a code that only this installation can compute. So only the recipients of a mail know its
Message-ID, and others can neither forge a bounce of it nor a reply to it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from typing import Final

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict

_PREFIX: Final = "<signoff."
_APPROVAL: Final = "ap_"
_BUNDLE: Final = "bn_"
_KEY: Final = "key:message-ids"


class MessageKey:
    """The random key of the codes, which the first process creates and the ledger keeps."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known = b""

    async def get(self) -> bytes:
        """Return the key, 32 bytes.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if not self._known:
            self._known = await self._ledger.decide_again(self._attempt)
        return self._known

    async def _attempt(self) -> bytes:
        record = await self._ledger.raw(_KEY)
        if record is None:
            await self._ledger.commit(Change().put_raw(_KEY, secrets.token_hex(32)))
            record = await self._ledger.raw(_KEY)
        if record is None:
            raise Conflict("The key of the Message-IDs was taken away while it was made.")
        return bytes.fromhex(record[1])


def message_id(cause: str, approval: str, domain: str, *, key: bytes = b"") -> str:
    """Return the Message-ID of the mail for a cause; a resent mail has the same one.

    Args:
        cause: The id of the work item; for a card it is derived from approval, level and person.
        approval: The id of the approval that the mail is about. It is not a secret.
        domain: Our domain.
        key: The key of the code; see `MessageKey`.
    """
    return f"{_PREFIX}{'.'.join(_parts_of(cause, approval, key))}@{domain}>"


def approval_named(message_id: str) -> str:
    """Return the id of the approval in one of our Message-IDs, "" for any other Message-ID."""
    approval = _parts(message_id)[-1]
    return approval if approval.startswith(_APPROVAL) else ""


def bundle_named(message_id: str) -> str:
    """Return the id of the bundle in one of our Message-IDs, "" for any other Message-ID."""
    bundle = _parts(message_id)[-1]
    return bundle if bundle.startswith(_BUNDLE) else ""


def is_caused_by(message_id: str, cause: str, approval: str, *, key: bytes) -> bool:
    """Return whether a Message-ID is that of our mail for a cause."""
    wanted = _parts_of(cause, approval, key)
    return hmac.compare_digest(".".join(_parts(message_id)).encode(), ".".join(wanted).encode())


def is_ours(message_id: str, approval: str, *, key: bytes) -> bool:
    """Return whether a Message-ID is that of one of our mails about an approval."""
    match _parts(message_id):
        case [short, code, named] if named == approval:
            return hmac.compare_digest(code.encode(), _code(short, approval, key).encode())
    return False


def is_without_code(message_id: str) -> bool:
    """Return whether a Message-ID is one of ours without a code, as the previous version made."""
    return bool(approval_named(message_id)) and len(_parts(message_id)) == 2


def _parts_of(cause: str, approval: str, key: bytes) -> tuple[str, str, str]:
    short = _short(hashlib.sha256(cause.encode()).digest())
    return short, _code(short, approval, key), approval


def _parts(message_id: str) -> list[str]:
    left = message_id.rpartition("@")[0]
    return left.removeprefix(_PREFIX).split(".") if left.startswith(_PREFIX) else [""]


def _code(short: str, approval: str, key: bytes) -> str:
    text = f"{short}.{approval}".encode("utf-8", "backslashreplace")
    return _short(hmac.digest(key, text, "sha256"))


def _short(digest: bytes) -> str:
    """Return 80 bits in 16 letters and digits, because mail programs fold longer lines."""
    return base64.b32encode(digest[:10]).decode().lower()
