"""The Message-IDs of our own mails: each a function of its cause, and each names its approval.

Each has a code that only this installation can make. Nobody who has not got the mail can name it:
neither in a bounce that never happened, nor as what a mail of theirs answers.
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
    """The key of the codes: random, made by whichever process is first, and kept in the ledger.

    Args:
        ledger: Where it is kept.
    """

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
    """Return the Message-ID of the mail for a cause: a resend is the same mail.

    Args:
        cause: The id of the work item; that of a card is a function of approval, level and person.
        approval: The id of the approval that the mail is about. It is no secret.
        domain: Ours.
        key: Makes the code; see `MessageKey`.
    """
    return f"{_PREFIX}{'.'.join(_parts_of(cause, approval, key))}@{domain}>"


def approval_named(message_id: str) -> str:
    """Return the id of the approval that a Message-ID of ours is about, "" for any other's."""
    approval = _parts(message_id)[-1]
    return approval if approval.startswith(_APPROVAL) else ""


def bundle_named(message_id: str) -> str:
    """Return the id of the bundle that a Message-ID of ours is about, "" for any other's."""
    bundle = _parts(message_id)[-1]
    return bundle if bundle.startswith(_BUNDLE) else ""


def is_caused_by(message_id: str, cause: str, approval: str, *, key: bytes = b"") -> bool:
    """Say whether a Message-ID is that of our mail for a cause."""
    wanted = _parts_of(cause, approval, key)
    return hmac.compare_digest(".".join(_parts(message_id)).encode(), ".".join(wanted).encode())


def is_ours(message_id: str, approval: str, *, key: bytes = b"") -> bool:
    """Say whether a Message-ID is that of any mail of ours about an approval."""
    match _parts(message_id):
        case [short, code, named] if named == approval:
            return hmac.compare_digest(code.encode(), _code(short, approval, key).encode())
    return False


def is_without_code(message_id: str) -> bool:
    """Say whether a Message-ID is one of ours without a code, as the last version made them all."""
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
    """Return 80 bits in 16 letters and digits: longer lines are folded by mail programs."""
    return base64.b32encode(digest[:10]).decode().lower()
