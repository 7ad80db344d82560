"""What a tool gets where a callback has changed what the model gave, kept until it is asked about.

A request for a confirmation carries the call as the model made it, and ADK goes on only if it does.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import timedelta

from pydantic import JsonValue

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger

_KEYS = "arguments:"
_KEPT = timedelta(days=30)
"""The approval has them once it is opened, which is when the turn has ended."""


async def keep(
    ledger: Ledger,
    where: Sequence[str],
    args: Mapping[str, JsonValue] | None,
    *,
    kept: timedelta = _KEPT,
) -> None:
    """Keep the arguments of a call in the place of those kept before; None forgets them.

    Args:
        ledger: Where to.
        where: The app, user, session and function call.
        args: The arguments.
        kept: For how long.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    key = _key(where)
    text = "" if args is None else json.dumps(args)

    async def attempt() -> None:
        found = await ledger.raw(key)
        if text != ("" if found is None else found[1]):
            was = 0 if found is None else found[0]
            await ledger.commit(Change().put_raw(key, text, was=was, ttl=kept))

    await ledger.decide_again(attempt)


async def fetch(ledger: Ledger, where: Sequence[str]) -> dict[str, JsonValue] | None:
    """Return what is kept of a call, None where nothing is.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.raw(_key(where))
    args: dict[str, JsonValue] | None = None if found is None else json.loads(found[1])
    return args


def _key(where: Sequence[str]) -> str:
    return _KEYS + hashlib.sha256(json.dumps(list(where)).encode()).hexdigest()
