"""Tokens: each lets one person answer one request through one channel.

A token is 128 random bits. The ledger keeps only its hash, so readers of the ledger cannot answer
for others. The token itself is in the outbox until the card is sent, and on the card.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import secrets
from datetime import timedelta
from enum import StrEnum
from typing import Final, NamedTuple

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import card_id
from signoff.core.routing.targets import EMAIL

LENGTH: Final = 26
"""128 bits in base32, without padding; lower-case, because mail clients lower-case local parts."""

GRACE: Final = timedelta(days=30)
"""How long after the deadline a token is kept, so that people are told that they are late."""

_IN_ADDRESS: Final = re.compile(r"\+[A-Za-z2-7]{26}(?=@)")
_TOKENS: Final = frozenset({EMAIL})
"""The channels whose answers carry a token."""

_ALPHABET: Final = frozenset("abcdefghijklmnopqrstuvwxyz234567")


class Role(StrEnum):
    """The role of the holder of a token in the approval."""

    APPROVER = ""
    REQUESTER = "requester"
    """Answers questions and may withdraw. Such a token never decides."""
    BUNDLE = "bundle"
    """Was sent several requests in one message: `Holder.approval` is the id of the bundle."""


class Holder(NamedTuple):
    """The person and the approval of a token, and the level of the card: see `Asked`."""

    approval: str
    person: str
    channel: str
    role: Role = Role.APPROVER
    level_key: str = ""

    @property
    def card(self) -> str:
        """The id of the work that delivers the card."""
        return card_id(self.approval, self.person, self.level_key)


def new_token() -> str:
    """Return a fresh token."""
    return base64.b32encode(secrets.token_bytes(16)).decode().rstrip("=").lower()


def is_token(text: str) -> bool:
    """Return whether a text has the form of a token."""
    return len(text) == LENGTH and set(text) <= _ALPHABET


def redact(text: str) -> str:
    """Return text, such as the message of a mail server, without the tokens in its addresses."""
    return _IN_ADDRESS.sub("+[token]", text)


def token_key(token: str) -> str:
    """Return the key of a token's record, which does not reveal the token.

    It has 128 bits of the hash, as many as the token has.
    """
    return f"token:{hashlib.sha256(token.lower().encode()).hexdigest()[:32]}"


def issue_token(change: Change, holder: Holder, *, within: timedelta) -> str:
    """Add a new token for a holder to a change and return it, "" if the channel needs none."""
    if holder.channel not in _TOKENS:
        return ""
    token = new_token()
    parts = holder._asdict()
    parts["turn"] = parts.pop("level_key")  # as the last release calls it
    # Every card has such a record, so empty members are left out.
    record = json.dumps({name: one for name, one in parts.items() if one}, separators=(",", ":"))
    change.put_raw(token_key(token), record, ttl=within + GRACE)
    return token


async def find_holder(ledger: Ledger, token: str) -> Holder | None:
    """Return the holder of a token, None if it was never issued or its record is gone.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    if not is_token(token.lower()):
        return None
    found = await ledger.raw(token_key(token))
    if found is None:
        return None
    parts = json.loads(found[1])
    role, level_key = Role(parts.pop("role", "")), parts.pop("turn", "")
    return Holder(**parts, role=role, level_key=level_key)
