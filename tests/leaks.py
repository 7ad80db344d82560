"""Words in a text that also holds hashes, ids, tokens and times; the text of a ledger."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from functools import partial

from signoff.broker.ledger.ledger import Ledger

_BEFORE = r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=\\u[0-9a-f]{4}))"
"""No letter or digit, unless they are the escape of a character in JSON."""


def words_in(text: str, *words: str) -> list[str]:
    """Return those of some words that are in a text as words of their own.

    Any four digits are in one of a thousand hashes, and any four letters in one of 80,000 ids,
    so a part of a longer word does not count.
    """
    return [one for one in words if re.search(f"{_BEFORE}{re.escape(one)}(?![A-Za-z0-9])", text)]


async def text_in(ledger: Ledger) -> str:
    """Return the whole text in Redis, with keys; DUMP would compress it."""
    client, found = ledger.store.client, list[str]()
    for key in await ledger.store.keys(""):
        full = ledger.store.prefix + key
        reading: dict[str, Callable[[], Awaitable[object]]] = {
            "string": partial(client.get, full),
            "hash": partial(client.hgetall, full),
            "list": partial(client.lrange, full, 0, -1),
            "set": partial(client.smembers, full),
            "zset": partial(client.zrange, full, 0, -1),
            "stream": partial(client.xrange, full),
        }
        found += [key, repr(await reading[str(await client.type(full))]())]
    return "\n".join(found)
