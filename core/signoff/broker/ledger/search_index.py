"""The index of searches: which approvals may have a word in them.

It is a bit-sliced signature file. A row stands for an approval and has `BITS` bits; each three
letters in a row of its text set one of them. A slice has the same bit of all rows. So a search
reads a slice for each three letters of its words, and only the records whose rows have all of
these bits. It may name an approval that does not have the words, and leaves out none that has.

Rows are added in batches, in the order in which approvals were opened, some time after they were:
opening one does not wait for it. The head says up to where. What is behind that, and records that
another release has written, are looked at one by one. Rows are in segments; a segment goes when
nothing is left of what it has.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import Final, Self
from zlib import crc32

from pydantic import ValidationError

from signoff.broker.ledger import listing
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.listing import Place
from signoff.broker.ledger.records import read_approval
from signoff.broker.ledger.store import to_us
from signoff.core.approvals.lists.search import text_of

BITS: Final = 768
"""Bits of a row: a text of 250 letters sets about a fifth of them."""

BATCH: Final = 768
"""Rows that are added at a time: their bits are whole letters of base64."""

SEGMENT: Final = 64 * BATCH
"""Rows of a segment."""

MARGIN: Final = timedelta(minutes=2)
"""What was opened less long ago may still be committed with an earlier time than another one."""

_FEW: Final = 2_000
"""With more candidates than this, reading the records in order finds some sooner."""

_UNINDEXED: Final = 5_000
_MOST_SLICES: Final = 24
_SPARSE: Final = 4
"""Where rows are so many times as many as approvals, the index is made anew."""

_WIDTH: Final = 24
_HEAD: Final = "search:head"


@dataclass(frozen=True, slots=True)
class _Segment:
    """Rows that were added one after the other.

    Attributes:
        name: A number.
        rows: How many.
        first: When the first of them was opened, as the index `approvals` has it.
        last: The same of the last.
    """

    name: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class _Head:
    """What is in the index.

    Attributes:
        segments: The oldest first.
        done: The place in the index `approvals` up to which it goes.
        text: How it is stored; "" where it is not.
    """

    segments: tuple[_Segment, ...] = ()
    done: Place | None = None
    text: str = field(default="", compare=False)

    @classmethod
    async def read(cls, ledger: Ledger) -> Self:
        """Return it as it is stored."""
        async with ledger.store.translated_client() as client:
            text = await client.get(ledger.store.prefix + _HEAD)
        if not text:
            return cls()
        found = json.loads(text)
        segments = tuple(_Segment(**one) for one in found["segments"])
        return cls(segments, Place(*found["done"]), text)

    def stored(self) -> str:
        """Return the text under which it is stored."""
        return json.dumps({"segments": [asdict(one) for one in self.segments], "done": self.done})


class SearchIndex:
    """Adds to the index, and asks it.

    Args:
        ledger: Where it is.
        margin: How long ago an approval must have been opened.
    """

    def __init__(self, ledger: Ledger, *, margin: timedelta = MARGIN) -> None:
        self._ledger = ledger
        self._margin = margin

    # -- writing -------------------------------------------------------------------------------

    async def extend(self) -> int:
        """Add all whole batches, drop segments of which nothing is left, and return how many rows.

        Any number of processes may do it at the same time: each batch is added once.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        head, added = await self._trim(await _Head.read(self._ledger)), 0
        while True:
            batch = await self._ledger.store.behind(
                listing.APPROVALS, before=head.done, limit=BATCH, rising=True
            )
            until = to_us(await self._ledger.now() - self._margin)
            if len(batch) < BATCH or batch[-1][0] > until:
                return added
            if not await self._add(head, batch):
                return added
            added += BATCH
            head = await _Head.read(self._ledger)

    async def _add(self, head: _Head, batch: Sequence[tuple[int, str]]) -> bool:
        ids = [one for _, one in batch]
        if any(len(one) > _WIDTH for one in ids):
            return False
        records = await self._ledger.store.read([f"approval:{one}" for one in ids])
        read = dict(zip(ids, records, strict=True))
        # In a thread: it takes some milliseconds, in which others are served.
        slices = await asyncio.to_thread(_slices, [read[one] for one in ids])
        *before, last = head.segments or (_Segment(0, 0, batch[0][0], 0),)
        if last.rows == SEGMENT:
            before, last = [*before, last], _Segment(last.name + 1, 0, batch[0][0], 0)
        last = replace(last, rows=last.rows + BATCH, last=batch[-1][0])
        after = _Head((*before, last), Place(*batch[-1]))
        return bool(
            await self._ledger.store.script(
                "search_append",
                head.text,
                after.stored(),
                last.name,
                "".join(one.ljust(_WIDTH) for one in ids),
                *slices,
            )
        )

    async def drop(self) -> None:
        """Take all of it away; it is made anew from the records, in the background."""
        async with self._ledger.store.translated_client() as client:
            # The head first: without it nobody looks at the rest.
            await client.delete(self._ledger.store.prefix + _HEAD)
        await self._remove("search:")

    async def _trim(self, head: _Head) -> _Head:
        """Take away what has nothing left in it; return the head as it stands then."""
        rows = sum(one.rows for one in head.segments)
        if rows < SEGMENT:
            return head
        async with self._ledger.store.translated_client() as client:
            key = self._ledger.store.prefix + listing.APPROVALS
            there = await client.zcard(key)
            oldest = head.segments[0]
            left = await client.zcount(key, oldest.first, oldest.last)
        if rows > _SPARSE * (there + SEGMENT):
            await self.drop()
            return _Head()
        if left or len(head.segments) == 1:
            return head
        after = replace(head, segments=head.segments[1:])
        # Without rows: only the head changes.
        if await self._ledger.store.script("search_append", head.text, after.stored(), 0, ""):
            await self._remove(f"search:{oldest.name}:")
        return await _Head.read(self._ledger)

    async def _remove(self, start: str) -> None:
        keys = await self._ledger.store.keys(start, "string")
        if keys:
            async with self._ledger.store.translated_client() as client:
                await client.delete(*(self._ledger.store.prefix + one for one in keys))

    # -- reading -------------------------------------------------------------------------------

    async def candidates(self, words: Iterable[str]) -> list[str] | None:
        """Return the ids of all approvals that may have every one of these words in them.

        Args:
            words: Folded words, as `Search.words` returns them.

        Returns:
            None where the index does not help: it is empty, the words are too short, or too many
            have them.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        wanted = sorted({place for word in words for place in _places(word)})[:_MOST_SLICES]
        head = await _Head.read(self._ledger) if wanted else _Head()
        if head.done is None:
            return None
        # What was opened since, and one more: whether there is more than that.
        recent = await self._ledger.store.behind(
            listing.APPROVALS, before=head.done, limit=_UNINDEXED + 1, rising=True
        )
        if len(recent) > _UNINDEXED:
            return None
        prefix, rows = self._ledger.store.prefix, list[tuple[int, int]]()
        async with self._ledger.store.translated_client() as client:
            keys = [
                f"{prefix}search:{one.name}:{place}" for one in head.segments for place in wanted
            ]
            slices = await client.mget(keys)
            for at, segment in enumerate(head.segments):
                part = slices[at * len(wanted) : (at + 1) * len(wanted)]
                rows += ((segment.name, row) for row in _rows_of(part))
                if len(rows) > _FEW:
                    return None
            async with client.pipeline(transaction=False) as pipe:
                for name, row in rows:
                    start = row * _WIDTH
                    key = f"{prefix}search:{name}:ids"
                    pipe.execute_command("GETRANGE", key, start, start + _WIDTH - 1)
                found = await pipe.execute() if rows else []
        return [*(one.rstrip() for one in found), *(one for _, one in recent)]


@lru_cache(maxsize=65_536)
def _place(letters: str) -> int:
    return crc32(letters.encode("utf-8", "surrogatepass")) % BITS


def _places(text: str) -> set[int]:
    """Return the bits that a text sets, or that a word of a search needs."""
    return {_place(text[at : at + 3]) for at in range(len(text) - 2)}


def _slices(records: Sequence[tuple[int, str] | None]) -> list[str]:
    """Return the slices of the rows of these records, in base64."""
    slices = [0] * BITS
    for row, record in enumerate(records):
        bit = 1 << row
        for place in _places_of(record):
            slices[place] |= bit
    return [base64.b64encode(one.to_bytes(BATCH // 8, "little")).decode() for one in slices]


def _places_of(record: tuple[int, str] | None) -> Iterable[int]:
    if record is None:
        return ()
    try:
        approval = read_approval(*record)
    except ValidationError:
        # Another release may be able to read it.
        return range(BITS)
    if approval.terms is None or approval.hides:
        # What a policy hides is shown as something else, which has to be found too.
        return range(BITS)
    return _places(text_of(approval))


def _rows_of(slices: Sequence[str | None]) -> Iterator[int]:
    """Yield the rows that have the bits of all these slices."""
    both = -1
    for one in slices:
        both &= int.from_bytes(base64.b64decode(one or ""), "little")
        if not both:
            return
    for at, byte in enumerate(both.to_bytes((both.bit_length() + 7) // 8, "little")):
        if byte:
            yield from (8 * at + bit for bit in range(8) if byte >> bit & 1)
