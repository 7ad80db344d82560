"""Dead letters of webhooks: messages that were given up, which an operator can send again."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from signoff.broker import stages
from signoff.broker.ledger.change import DEAD, Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import Conflict


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that was given up.

    Attributes:
        key: Its key in the ledger.
        version: The version of its record.
        id: The entry of the audit that it is about.
        problem: Why it was given up.
        body: The body of the work item.
    """

    key: str
    version: int
    id: str
    problem: str
    body: dict[str, Any]


async def dead_letters(ledger: Ledger, hook: str) -> list[DeadLetter]:
    """Return the dead letters of a webhook, the oldest first."""
    start = f"{stages.webhook(hook)}:"
    names = [one for one in await ledger.store.members(DEAD) if one.startswith(start)]
    keys = [f"{DEAD}:{one}" for one in names]
    found = []
    for key, record in zip(keys, await ledger.store.read(keys), strict=True):
        if record is not None:
            version, text = record
            kept = json.loads(text)
            found.append(DeadLetter(key, version, kept["id"], kept["problem"], kept["body"]))
    return sorted(found, key=lambda one: [int(part) for part in one.id.split("-")])


async def replay(ledger: Ledger, hook: str) -> int:
    """Queue the dead letters of a webhook again, with all attempts, and return their number."""
    count = 0
    for one in await dead_letters(ledger, hook):
        name = one.key.removeprefix(f"{DEAD}:")
        change = Change().put_raw(one.key, "", was=one.version, drop=[(DEAD, name, 0)])
        try:
            await ledger.commit(change.send_raw(stages.webhook(hook), one.id, one.body))
        except Conflict:
            continue  # another process replayed it
        count += 1
    return count
