"""Receipts: decisions are signed by those who take them, and verified by those who run tools.

Gateway, channels and the command line hold the private key. Workers hold public keys alone: what a
model drives in a worker's process can write to Redis, and still cannot write a yes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from signoff.broker.ed25519 import Key, verified
from signoff.broker.ledger.change import entry_hash
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.receipts import DECIDED, claims, why_not_about
from signoff.core.base.errors import CannotSign, KeyUnknown

TYPE: Final = "signoff-receipt+jws"

_SIGNED: Final = frozenset({What.APPROVED, What.REJECTED, What.GLASS_BROKEN})
_NOT_PROOF: Final = frozenset({"digest", "payload", "proposal", "grant", "policy", "despite"})

Keys = Callable[[], Sequence[Key]]
"""Returns the public keys that are trusted by now."""


class Receipts:
    """Signs and verifies.

    Args:
        keys: The public keys; asked again where a receipt names one that is not among them.
        private: Returns the key to sign with; None in a process that decides nothing.
        unsigned_until: Until when decisions without a receipt count: for those that were taken by
            a release that signed nothing.
    """

    def __init__(
        self,
        keys: Keys,
        private: Callable[[], Key] | None = None,
        *,
        unsigned_until: datetime | None = None,
    ) -> None:
        self._load = keys
        self._private = private
        self._unsigned_until = unsigned_until
        self._keys: dict[str, Key] = {}

    @property
    def signs(self) -> bool:
        """Whether this process holds the private key."""
        return self._private is not None

    def seal(self, approval: Approval, events: Iterable[Event]) -> Approval:
        """Return an approval with the receipt of what has just been decided, if anything was.

        Args:
            approval: After the move.
            events: What the move did, with everything that the audit will have of it.

        Raises:
            CannotSign: This process has no private key.
        """
        last = next((one for one in reversed([*events]) if one.what in _SIGNED), None)
        if last is None or approval.state not in DECIDED:
            return approval
        if self._private is None:
            raise CannotSign(
                f"The decision of approval {approval.id} cannot be signed: this process has no "
                "private key. Decide where the gateway or `signoff channels` runs, or set "
                "SIGNOFF_RECEIPTS__PRIVATE_KEY. Nothing was done."
            )
        proof = {name: value for name, value in last.more.items() if name not in _NOT_PROOF}
        payload = claims(approval, proof=proof, entry=entry_hash(last))
        receipt = self._private().sign(json.dumps(payload, sort_keys=True), TYPE)
        return approval.model_copy(update={"receipt": receipt})

    def read(self, receipt: str) -> dict[str, Any]:
        """Return what a receipt states.

        Raises:
            KeyUnknown: It is signed by a key that is not among the public ones.
            ValueError: It is no receipt, or the signature is not that of its text.
        """
        try:
            said = json.loads(verified(receipt, TYPE, self._key))
        except ValueError as error:
            raise ValueError(f"it cannot be verified: {error}") from error
        if not isinstance(said, dict):
            raise ValueError("it states nothing")  # noqa: TRY004 -- of the text, not of a type
        return said

    def why_refused(self, approval: Approval, now: datetime) -> str:
        """Say why a decision is not to be believed; "" where it is.

        Args:
            approval: As the ledger has it.
            now: The present.

        Raises:
            KeyUnknown: It is signed by a key that this process does not have.
        """
        if approval.state not in DECIDED:
            return ""
        if not approval.receipt:
            early = self._unsigned_until is not None and now < self._unsigned_until
            return "" if early else "it has no receipt"
        try:
            return why_not_about(approval, self.read(approval.receipt))
        except ValueError as error:
            return f"its receipt does not count: {error}"

    def _key(self, kid: str) -> Key:
        if kid not in self._keys:
            self._keys = {one.kid: one for one in self._load()}
        if kid not in self._keys:
            raise KeyUnknown(
                f"The receipt is signed with the key {kid or '(none)'}, which is not among the "
                f"{len(self._keys)} public keys here. Give workers the keys that gateway and "
                "channels sign with: `signoff receipt keys` prints them."
            )
        return self._keys[kid]


def read_key(text: str) -> Key:
    """Return an Ed25519 key that is written as JSON (RFC 8037).

    Raises:
        ValueError: It is none.
    """
    return Key.read(_object(text))


def read_keys(text: str) -> list[Key]:
    """Return the keys of a set that is written as JSON (RFC 7517, section 5).

    Raises:
        ValueError: It is none.
    """
    found = _object(text).get("keys")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError('it is no set of keys: {"keys": [...]}')
    return [Key.read(one) for one in found]


def key_text(key: Key, *, private: bool = False) -> str:
    """Return a key as JSON, with its name."""
    return json.dumps(key.jwk(private=private))


def keys_text(keys: Iterable[Key]) -> str:
    """Return the public parts of keys as a set in JSON, each once."""
    found = {one.kid: one.jwk(private=False) for one in keys}
    return json.dumps({"keys": list(found.values())})


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is not a JSON object")  # noqa: TRY004 -- of the text, not of a type
    return found
