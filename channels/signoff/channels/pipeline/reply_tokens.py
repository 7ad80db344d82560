"""Tokens: what lets one person answer one request through one channel.

A token is 128 random bits. The ledger knows only its hash, so that who can read the ledger cannot
answer for others; in plain it exists in the outbox until the card is sent, and on the card.
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
from signoff.channels.pipeline.targets import EMAIL

LENGTH: Final = 26
"""128 bits in base32, without padding; lower-case, because mail clients lower-case local parts."""

GRACE: Final = timedelta(days=30)
"""How long after the deadline an answer is still told that it came too late."""

_IN_ADDRESS: Final = re.compile(r"\+[A-Za-z2-7]{26}(?=@)")
_TOKENS: Final = frozenset({EMAIL})
"""The channels whose answers prove by a token what they are about."""

_ALPHABET: Final = frozenset("abcdefghijklmnopqrstuvwxyz234567")


class Role(StrEnum):
    """What the holder of a token is to the approval."""

    APPROVER = ""
    REQUESTER = "requester"
    """Answers questions and may withdraw; such a token never decides, whosever it is."""
    BUNDLE = "bundle"
    """Was sent several requests in one message: `Holder.approval` is the id of the bundle."""


class Holder(NamedTuple):
    """Who may answer what with a token, and at which level they were asked: see `Asked`."""

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
    """Say whether a text has the form of a token."""
    return len(text) == LENGTH and set(text) <= _ALPHABET


def redact(text: str) -> str:
    """Return text, such as what a mail server said about an address, without the tokens in it."""
    return _IN_ADDRESS.sub("+[token]", text)


def token_key(token: str) -> str:
    """Return the key of a token's record, which does not give the token away.

    128 bits of the hash: as many as the token has, so that a shorter key costs no safety.
    """
    return f"token:{hashlib.sha256(token.lower().encode()).hexdigest()[:32]}"


def issue(change: Change, holder: Holder, *, within: timedelta) -> str:
    """Add a fresh token for a holder to a change and return it; "" where the channel needs none."""
    if holder.channel not in _TOKENS:
        return ""
    token = new_token()
    parts = holder._asdict()
    record = json.dumps({"turn": parts.pop("level_key")} | parts)  # as the last release calls it
    change.put_raw(token_key(token), record, ttl=within + GRACE)
    return token


async def find_holder(ledger: Ledger, token: str) -> Holder | None:
    """Return who holds a token; None for one that was never issued, or is long over.

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
