"""Receipts: decisions are signed by those who take them, and verified by those who run tools.

Gateway, channels and the command line hold the private key. Workers hold public keys alone: what a
model drives in a worker's process can write to Redis, and still cannot write a yes.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import OKPKey

from signoff.broker.ledger.change import entry_hash
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.receipts import DECIDED, claims, why_not_about
from signoff.core.base.errors import CannotSign, KeyUnknown

ALGORITHM: Final = "EdDSA"
"""Of RFC 8037, which every JOSE library knows; the name of RFC 9864 is new."""

TYPE: Final = "signoff-receipt+jws"

_SIGNED: Final = frozenset({What.APPROVED, What.REJECTED, What.GLASS_BROKEN})
_NOT_PROOF: Final = frozenset({"digest", "payload", "proposal", "grant", "policy", "despite"})

Keys = Callable[[], Sequence[OKPKey]]
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
        private: Callable[[], OKPKey] | None = None,
        *,
        unsigned_until: datetime | None = None,
    ) -> None:
        self._load = keys
        self._private = private
        self._unsigned_until = unsigned_until
        self._keys: dict[str, OKPKey] = {}

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
        key = self._private()
        header = {"alg": ALGORITHM, "kid": kid_of(key), "typ": TYPE}
        with _allowed():
            receipt = jws.serialize_compact(
                header, json.dumps(payload, sort_keys=True), key, algorithms=[ALGORITHM]
            )
        return approval.model_copy(update={"receipt": receipt})

    def read(self, receipt: str) -> dict[str, Any]:
        """Return what a receipt states.

        Raises:
            KeyUnknown: It is signed by a key that is not among the public ones.
            ValueError: It is no receipt, or the signature is not that of its text.
        """
        try:
            header = jws.extract_compact(receipt.encode()).headers()
            if (header.get("alg"), header.get("typ")) != (ALGORITHM, TYPE):
                raise ValueError("it is something else than a receipt")  # noqa: TRY301 -- as the rest
            key = self._key(str(header.get("kid", "")))
            with _allowed():
                found = jws.deserialize_compact(receipt, key, algorithms=[ALGORITHM])
            said = json.loads(found.payload)
        except (JoseError, UnicodeError, ValueError) as error:
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

    def _key(self, kid: str) -> OKPKey:
        if kid not in self._keys:
            self._keys = {kid_of(one): one for one in self._load()}
        if kid not in self._keys:
            raise KeyUnknown(
                f"The receipt is signed with the key {kid or '(none)'}, which is not among the "
                f"{len(self._keys)} public keys here. Give workers the keys that gateway and "
                "channels sign with: `signoff receipt keys` prints them."
            )
        return self._keys[kid]


def kid_of(key: OKPKey) -> str:
    """Return what a key is called in receipts: its thumbprint (RFC 7638)."""
    return key.thumbprint()


def read_key(text: str) -> OKPKey:
    """Return an Ed25519 key that is written as JSON (RFC 8037).

    Raises:
        ValueError: It is none.
    """
    try:
        key = OKPKey.import_key(_object(text))
    except (JoseError, KeyError, TypeError) as error:
        raise ValueError(f"it is no key: {error}") from error
    if key.curve_name != "Ed25519":
        raise ValueError(f"it is a key of {key.curve_name}, not of Ed25519")
    return key


def read_keys(text: str) -> list[OKPKey]:
    """Return the keys of a set that is written as JSON (RFC 7517, section 5).

    Raises:
        ValueError: It is none.
    """
    found = _object(text).get("keys")
    if not isinstance(found, list):
        raise ValueError('it is no set of keys: {"keys": [...]}')  # noqa: TRY004 -- as below
    return [read_key(json.dumps(one)) for one in found]


def key_text(key: OKPKey, *, private: bool = False) -> str:
    """Return a key as JSON, with its name."""
    return json.dumps(_jwk(key, private=private))


def keys_text(keys: Iterable[OKPKey]) -> str:
    """Return the public parts of keys as a set in JSON, each once."""
    found = {kid_of(one): _jwk(one, private=False) for one in keys}
    return json.dumps({"keys": list(found.values())})


def _jwk(key: OKPKey, *, private: bool) -> Mapping[str, object]:
    used = {"kid": kid_of(key), "use": "sig", "alg": ALGORITHM}
    return {**key.as_dict(private=private), **used}


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError("it is no JSON object")  # noqa: TRY004 -- of the text, not of a type
    return found


@contextmanager
def _allowed() -> Iterator[None]:
    """Let joserfc use the old name of the algorithm, of which it warns each time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        yield
