"""Arguments of calls that a callback has changed, stored until the approval is opened.

A confirmation request carries the call as the model made it, and ADK resumes no other call. So the
arguments that the tool will get are stored here.
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
"""The approval has them from its opening on, which is at the end of the turn."""


async def keep(
    ledger: Ledger,
    call: Sequence[str],
    args: Mapping[str, JsonValue] | None,
    *,
    kept: timedelta = _KEPT,
) -> None:
    """Store the arguments of a call instead of earlier ones; None deletes them.

    Args:
        ledger: The ledger.
        call: The app, user, session and function call id.
        args: The arguments.
        kept: How long to store them.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    key = _key(call)
    text = "" if args is None else json.dumps(args)

    async def attempt() -> None:
        found = await ledger.raw(key)
        if text != ("" if found is None else found[1]):
            was = 0 if found is None else found[0]
            await ledger.commit(Change().put_raw(key, text, was=was, ttl=kept))

    await ledger.decide_again(attempt)


def add(
    change: Change, call: Sequence[str], args: Mapping[str, JsonValue], *, kept: timedelta = _KEPT
) -> None:
    """Store the arguments of a call, which has none yet, together with a change."""
    change.put_raw(_key(call), json.dumps(args), was=0, ttl=kept)


async def fetch(ledger: Ledger, call: Sequence[str]) -> dict[str, JsonValue] | None:
    """Return the stored arguments of a call, None if there are none.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    found = await ledger.raw(_key(call))
    args: dict[str, JsonValue] | None = None if found is None else json.loads(found[1])
    return args


def _key(call: Sequence[str]) -> str:
    return _KEYS + hashlib.sha256(json.dumps(list(call)).encode()).hexdigest()
