"""Many approvals that wait, as copies of one: to make each anew would take minutes."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import to_us

_BATCH = 200
_ISO = "%Y-%m-%dT%H:%M:%S.%fZ"


@dataclass(frozen=True, slots=True)
class Template:
    """A change, and the parts of it in which copies differ: they are as long as the original.

    Attributes:
        text: The change as the commit script reads it.
        parts: By name, what is random in it: of the ids that keys are made of, and the mark.
        opened_at: When the original was opened: each copy was a millisecond before the one before.
            Without it all were at the same time, and an index has them all at one place.
    """

    text: str
    parts: dict[str, str]
    opened_at: datetime | None = None

    @classmethod
    def of(cls, change: Change, *, opened_at: datetime | None = None, **parts: str) -> Template:
        """Return the template of a change, given what is random in it besides its mark."""
        return cls(change.to_json(), parts | {"mark": change.mark}, opened_at)

    async def put(self, ledger: Ledger, count: int) -> list[dict[str, str]]:
        """Commit so many copies, and return the parts of each.

        Raises:
            RuntimeError: The ledger refused one.
        """
        made: list[dict[str, str]] = []
        while len(made) < count:
            calls = []
            for _ in range(min(_BATCH, count - len(made))):
                fresh = {
                    name: secrets.token_hex(32)[: len(part)] for name, part in self.parts.items()
                }
                copy = self.text
                for name, part in self.parts.items():
                    copy = copy.replace(part, fresh[name])
                if (was := self.opened_at) is not None:
                    at = was - timedelta(milliseconds=len(made) + 1)
                    copy = copy.replace(f"{was:{_ISO}}", f"{at:{_ISO}}")
                    copy = copy.replace(str(to_us(was)), str(to_us(at)))
                calls.append((copy, 0))
                made.append(fresh)
            replies = await ledger.store.scripts("commit", calls)
            if any(reply[0] != "ok" for reply in replies):
                raise RuntimeError(f"The ledger refused: {replies}")
        return made
