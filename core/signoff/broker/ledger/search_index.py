"""The search index: which approvals may contain a word.

It is a bit-sliced signature file. Each approval has a row of `BITS` bits. Every three consecutive
letters of its text set one of these bits. A slice holds the same bit of all rows. A search takes
one slice for each three letters of its words, and then reads only the records whose rows have all
of these bits set. It may return approvals without the words, but never misses one that has them.
Redis itself intersects the slices (search.lua), because with a million approvals those of five
bits are 700 kB.

Rows are added in the order in which approvals were opened, some time afterwards and many at once,
so that opening an approval does not wait for it. The head records the last approval in the index.
Later approvals, and records that another release wrote, are read one by one. Rows are grouped in
segments. A segment is deleted when none of its approvals is left.

A byte of a slice holds seven rows, so that a slice is text, as all other values in Redis.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple, Self
from zlib import crc32

from pydantic import ValidationError

from signoff.broker.ledger import listing
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.listing import Place
from signoff.broker.ledger.records import read_approval
from signoff.broker.ledger.store import to_us
from signoff.core.approvals.lists.search import text_of

BITS: Final = 768
"""Bits in a row: a text of 250 letters sets about a fifth of them."""

PER_BYTE: Final = 7
"""Rows in a byte of a slice."""

STEP: Final = 16 * PER_BYTE
"""Rows are added in multiples of this.

A search reads the approvals that remain one by one. Adding fewer at once would write more: each
addition appends to all slices.
"""

BATCH: Final = 7 * STEP
"""The most rows that are added at once."""

SEGMENT: Final = 383 * STEP
"""Rows in a segment.

Redis doubles the memory of a text that outgrows it. With this number, the slices of a complete
segment nearly fill theirs.
"""

MARGIN: Final = timedelta(minutes=2)
"""More recent approvals are not added yet: an earlier one may still be committed after them."""

_FEW: Final = 2_000
"""With more candidates than this, reading the records in order is faster."""

_UNINDEXED: Final = 5_000
_MOST_SLICES: Final = 24
_SPARSE: Final = 4
"""The index is rebuilt when there are this many times more rows than approvals."""

_WIDTH: Final = 20
"""Bytes of an id, with spaces at the end."""

_HEAD: Final = "search:index"


class Segment(NamedTuple):
    """A segment of the index.

    Attributes:
        name: The number of the segment.
        rows: How many rows it has.
        first: The score of its first approval in the index `approvals`: when it was opened.
        last: The score of its last approval.
    """

    name: int
    rows: int
    first: int
    last: int


class Head(NamedTuple):
    """The head of the index: its segments, and how far it goes.

    Attributes:
        segments: The segments, the oldest first.
        done: The place of the last approval in the index, by the index `approvals`.
        text: The text under which the head is stored; "" if it is not.
    """

    segments: tuple[Segment, ...] = ()
    done: Place | None = None
    text: str = ""

    @classmethod
    async def read(cls, ledger: Ledger) -> Self:
        """Return the stored head."""
        async with ledger.store.translated_client() as client:
            text = await client.get(ledger.store.prefix + _HEAD)
        return cls.of(text) if text else cls()

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the head of a stored text."""
        found = json.loads(text)
        segments = tuple(Segment(**one) for one in found["segments"])
        return cls(segments, Place(*found["done"]), text)

    def stored(self) -> str:
        """Return the text to store."""
        return json.dumps({"segments": [one._asdict() for one in self.segments], "done": self.done})


class SearchIndex:
    """Extends and queries the index.

    Args:
        ledger: The ledger.
        margin: How long ago an approval must have been opened to be added.
        step: Rows are added in multiples of this; a multiple of `PER_BYTE`.
        segment: Rows in a segment; a multiple of `step`.
    """

    def __init__(
        self,
        ledger: Ledger,
        *,
        margin: timedelta = MARGIN,
        step: int = STEP,
        segment: int = SEGMENT,
    ) -> None:
        self._ledger = ledger
        self._margin = margin
        self._step = step
        self._segment = segment

    # -- writing -------------------------------------------------------------------------------

    async def extend(self) -> int:
        """Add rows, drop empty segments, and return how many rows were added.

        Any number of processes may do this at the same time: each approval is added once.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        head, added = await self._trim(await Head.read(self._ledger)), 0
        while True:
            next_ones = await self._ledger.store.behind(
                listing.APPROVALS, before=head.done, limit=BATCH, rising=True
            )
            until = to_us(await self._ledger.now() - self._margin)
            filled = head.segments[-1].rows if head.segments else 0
            room = self._segment - filled % self._segment
            count = min(sum(score <= until for score, _ in next_ones), room)
            batch = next_ones[: count // self._step * self._step]
            if not batch or not await self._add(head, batch):
                return added
            added += len(batch)
            head = await Head.read(self._ledger)

    async def _add(self, head: Head, batch: Sequence[tuple[int, str]]) -> bool:
        ids = [one for _, one in batch]
        if any(len(one) > _WIDTH for one in ids):
            return False
        if not head.segments:
            await self._delete_earlier()
        records = await self._ledger.store.read([f"approval:{one}" for one in ids])
        read = dict(zip(ids, records, strict=True))
        # In a thread, because it would block the event loop for some milliseconds.
        slices = await asyncio.to_thread(slices_of, [read[one] for one in ids])
        # A new index never continues a segment of a dropped one, which may not be deleted yet.
        fresh = Segment(secrets.randbits(40), 0, batch[0][0], 0)
        *before, last = head.segments or (fresh,)
        if last.rows == self._segment:
            before, last = [*before, last], Segment(last.name + 1, 0, batch[0][0], 0)
        last = last._replace(rows=last.rows + len(ids), last=batch[-1][0])
        after = Head((*before, last), Place(*batch[-1]))
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
        """Delete the index; it is rebuilt from the records in the background."""
        async with self._ledger.store.translated_client() as client:
            # The head first: without it the rest is not used.
            await client.delete(self._ledger.store.prefix + _HEAD)
        await self._delete_earlier()

    async def _delete_earlier(self) -> None:
        """Delete what is left of earlier indexes."""
        keys = await self._ledger.store.keys("search:", "string")
        # Another process may have begun a new index meanwhile.
        new = {f"search:{one.name}" for one in (await Head.read(self._ledger)).segments}
        await self._delete(
            [one for one in keys if one != _HEAD and one.rpartition(":")[0] not in new]
        )

    async def _trim(self, head: Head) -> Head:
        """Delete segments without approvals, and return the new head."""
        rows = sum(one.rows for one in head.segments)
        if rows < self._segment:
            return head
        async with self._ledger.store.translated_client() as client:
            key = self._ledger.store.prefix + listing.APPROVALS
            there = await client.zcard(key)
            oldest = head.segments[0]
            left = await client.zcount(key, oldest.first, oldest.last)
        if rows > _SPARSE * (there + self._segment):
            await self.drop()
            return Head()
        if left or len(head.segments) == 1:
            return head
        after = head._replace(segments=head.segments[1:])
        # Without rows, only the head changes.
        if await self._ledger.store.script("search_append", head.text, after.stored(), 0, ""):
            start = f"search:{oldest.name}:"
            await self._delete(await self._ledger.store.keys(start, "string"))
        return await Head.read(self._ledger)

    async def _delete(self, keys: Sequence[str]) -> None:
        if keys:
            async with self._ledger.store.translated_client() as client:
                await client.delete(*(self._ledger.store.prefix + one for one in keys))

    # -- reading -------------------------------------------------------------------------------

    async def candidates(self, words: Iterable[str]) -> list[str] | None:
        """Return the ids of all approvals that may contain all of these words.

        Args:
            words: Folded words, as `Search.words` returns them.

        Returns:
            The ids, or None if the index does not help: it is empty, the words are too short, or
            too many approvals match.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        wanted = sorted({place for word in words for place in places_in(word)})[:_MOST_SLICES]
        if not wanted:
            return None
        found = await self._ledger.store.script("search", _FEW, _WIDTH, *wanted)
        if found is None:
            return None
        head, *ids = found
        # The approvals that are not in the index yet, and one more to see if there are too many.
        recent = await self._ledger.store.behind(
            listing.APPROVALS, before=Head.of(head).done, limit=_UNINDEXED + 1, rising=True
        )
        if len(recent) > _UNINDEXED:
            return None
        return [*(one.rstrip() for one in ids), *(one for _, one in recent)]


@lru_cache(maxsize=65_536)
def _place(letters: str) -> int:
    return crc32(letters.encode("utf-8", "surrogatepass")) % BITS


def places_in(text: str) -> set[int]:
    """Return the bits that a text sets, or that a search word needs."""
    return {_place(text[at : at + 3]) for at in range(len(text) - 2)}


def slices_of(records: Sequence[tuple[int, str] | None]) -> list[str]:
    """Return the slices for the rows of these records, as ASCII.

    Args:
        records: The records; None for one that does not exist any more.
    """
    slices = [0] * BITS
    for row, record in enumerate(records):
        bit = 1 << row // PER_BYTE * 8 + row % PER_BYTE
        for place in _places_of(record):
            slices[place] |= bit
    width = -(-len(records) // PER_BYTE)
    return [one.to_bytes(width, "little").decode("ascii") for one in slices]


def _places_of(record: tuple[int, str] | None) -> Iterable[int]:
    if record is None:
        return ()
    try:
        approval = read_approval(*record)
    except ValidationError:
        # Another release may be able to read it.
        return range(BITS)
    if approval.terms is None or approval.hides:
        # Hidden values are shown as a placeholder, by which a search must find the approval too.
        return range(BITS)
    return places_in(text_of(approval))
