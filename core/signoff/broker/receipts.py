"""Receipts: signed statements about decisions, which workers verify before they run tools.

Gateways, channels processes and the command line have the private key. Workers only have public
keys: code that a model controls in a worker can write to Redis, but cannot forge an approval.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from signoff.broker.ed25519 import Key, verified
from signoff.broker.ledger.change import entry_hash
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.receipts import DECIDED, claims, why_not_about
from signoff.core.base.counts import counted
from signoff.core.base.errors import CannotSign, ConfigError, KeyUnknown

TYPE: Final = "signoff-receipt+jws"

_SIGNED: Final = frozenset({What.APPROVED, What.REJECTED, What.GLASS_BROKEN})
_NOT_PROOF: Final = frozenset({"digest", "payload", "proposal", "grant", "policy", "despite"})

Keys = Callable[[], Sequence[Key]]
"""Returns the public keys that are trusted at the moment."""


class Receipts:
    """Signs and verifies receipts.

    Args:
        keys: Returns the public keys. It is called for each receipt, so that a key which is removed
            does not count any more.
        private: Returns the private key; None in a process that does not decide.
        unsigned_until: Until when decisions without a receipt are accepted, because a release
            without receipts made them; None accepts none.
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

    @property
    def signs(self) -> bool:
        """Whether this process holds the private key."""
        return self._private is not None

    @property
    def key_ids(self) -> dict[str, str]:
        """The key that signs, as ``signs``, and the keys that are trusted, as ``trusts``.

        Several are separated by spaces. Keys that cannot be read are left out.
        """
        found = {"trusts": ""}
        with suppress(ConfigError):
            found["trusts"] = " ".join(one.kid for one in self._load())
        if self._private is not None:
            with suppress(ConfigError):
                found["signs"] = self._private().kid
        return found

    def seal(self, approval: Approval, events: Iterable[Event]) -> Approval:
        """Return an approval with a receipt, if a move has just decided it.

        Args:
            approval: The approval after the move.
            events: The events of the move, as they will be in the audit.

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
        """Return the statement of a receipt.

        Raises:
            KeyUnknown: It was signed with a key that this process does not have.
            ValueError: It is not a receipt, or the signature is invalid.
        """
        try:
            statement = json.loads(verified(receipt, TYPE, self._key))
        except ValueError as error:
            raise ValueError(f"it cannot be verified: {error}") from error
        if not isinstance(statement, dict):
            raise ValueError("its payload is not a JSON object")  # noqa: TRY004 -- of the text, not of a type
        return statement

    def why_refused(self, approval: Approval, now: datetime) -> str:
        """Say why a decision is not proven, "" if it is proven or there is no decision.

        Raises:
            KeyUnknown: The receipt was signed with a key that this process does not have.
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
        try:
            keys = {one.kid: one for one in self._load()}
        except ConfigError as error:
            raise KeyUnknown(f"The public keys of receipts cannot be read: {error}") from error
        if kid not in keys:
            raise KeyUnknown(
                f"The receipt is signed with the key {kid or '(none)'}, which is not among the "
                f"{counted(len(keys), 'public key')} here. Give workers the keys that gateway and "
                "channels sign with: `signoff receipt keys` prints them."
            )
        return keys[kid]


def read_key(text: str) -> Key:
    """Return an Ed25519 key from JSON (RFC 8037).

    Raises:
        ValueError: The text is not such a key.
    """
    return Key.read(_object(text))


def read_keys(text: str) -> list[Key]:
    """Return the keys of a key set from JSON (RFC 7517, section 5).

    Raises:
        ValueError: The text is not a set of such keys.
    """
    found = _object(text).get("keys")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ValueError('it is not a set of keys: {"keys": [...]}')
    return [Key.read(one) for one in found]


def key_text(key: Key, *, private: bool = False) -> str:
    """Return a key as JSON, with its key id."""
    return json.dumps(key.jwk(private=private))


def keys_text(keys: Iterable[Key]) -> str:
    """Return the public keys as a key set in JSON, each key once."""
    found = {one.kid: one.jwk(private=False) for one in keys}
    return json.dumps({"keys": list(found.values())})


def _object(text: str) -> dict[str, Any]:
    with suppress(json.JSONDecodeError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    raise ValueError("it is not a JSON object")
