"""Many pending approvals as copies of one, because creating each would take minutes."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us

_BATCH = 200
_ISO = "%Y-%m-%dT%H:%M:%S.%fZ"

_BETWEEN = "\0"

_AUDIT = 6
"""The place of the audit entries in a change; see commit.lua."""

_HEX = frozenset("0123456789abcdef")


@dataclass(frozen=True, slots=True)
class Template:
    """A change and its random parts; copies have others of the same length and alphabet.

    Attributes:
        text: The arguments of the commit script, joined by `_BETWEEN`, which JSON never contains.
        parts: The random parts by name: those of the ids in keys, and the mark.
        opened_at: When the original was opened. Each copy is a millisecond older than the copy
            before it; without this, all copies would have the same place in an index.
    """

    text: str
    parts: dict[str, str]
    opened_at: datetime | None = None

    @classmethod
    def of(cls, change: Change, *, opened_at: datetime | None = None, **parts: str) -> Template:
        """Return the template of a change, given its random parts other than its mark."""
        text = _BETWEEN.join(map(str, change.arguments(0)))
        return cls(text, parts | {"mark": change.mark}, opened_at)

    async def put(self, ledger: Ledger, count: int) -> list[dict[str, str]]:
        """Commit this number of copies, and return the parts of each.

        Raises:
            RuntimeError: The ledger refused one.
        """
        made: list[dict[str, str]] = []
        while len(made) < count:
            calls = []
            for _ in range(min(_BATCH, count - len(made))):
                fresh = {name: _like(part) for name, part in self.parts.items()}
                copy = self.text
                for name, part in self.parts.items():
                    copy = copy.replace(part, fresh[name])
                if (was := self.opened_at) is not None:
                    at = was - timedelta(milliseconds=len(made) + 1)
                    copy = copy.replace(f"{was:{_ISO}}", f"{at:{_ISO}}")
                    copy = copy.replace(str(to_us(was)), str(to_us(at)))
                calls.append(_with_hashes(copy.split(_BETWEEN)))
                made.append(fresh)
            replies = await ledger.store.scripts("commit", calls)
            if any(reply[0] != "ok" for reply in replies):
                raise RuntimeError(f"The ledger refused: {replies}")
        return made


def _with_hashes(arguments: list[str]) -> list[str]:
    """Return the arguments with the hash of each audit entry, without which no chain verifies."""
    change = json.loads(arguments[0])
    for entry in change[_AUDIT]:
        entry[1] = hashlib.sha256(arguments[1 + entry[0]].encode()).hexdigest()
    return [json.dumps(change), *arguments[1:]]


def _like(part: str) -> str:
    """Return random text like a part: hexadecimal digits, or base32 as in ids of approvals.

    With another alphabet, copies would compress better than real records.
    """
    if _HEX.issuperset(part):
        return secrets.token_hex(len(part))[: len(part)]
    return base64.b32encode(secrets.token_bytes(len(part))).decode().lower()[: len(part)]
