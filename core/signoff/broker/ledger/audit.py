"""The audit: an append-only stream in which each entry is chained to the one before.

Old entries may be packed: blocks of them are in a sorted set, by their last ids, and the stream has
the later ones. Each reader here reads both.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import AsyncIterator, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Final

import structlog

from signoff.broker.ledger.packing import pack, unpack
from signoff.broker.ledger.redis_types import Pipeline
from signoff.broker.ledger.store import Store
from signoff.core.base.counts import counted
from signoff.core.base.errors import AuditBroken

log = structlog.get_logger(__name__)

BLOCK: Final = 128
"""How many entries are packed together."""

_BLOCKS: Final = 9
"""How many blocks to read at first: a page of 1,000 may begin anywhere in the first of them."""

_AT_ONCE: Final = 500
"""The most blocks that are packed at once, which takes a few seconds of CPU in a thread."""

PACKED: Final = "audit:packed"
"""The blocks. Each has the score of its last entry when it was packed; see `score_of`."""

COUNT: Final = "audit:count"
"""How many entries are in blocks."""

_PAGE = 1000
_LINE: Final = re.compile(
    r'\{"id": "(\d+-\d+)", "entry": ([^\n]*?)'
    r'(?:, "hash": "([0-9a-f]{64})")?, "link": "([0-9a-f]{40})"\}\n?'
)


Entry = tuple[str, str, str]
"""The stream id, the JSON text and the link of an entry."""


async def entries(store: Store, *, after: str = "", page: int = _PAGE) -> AsyncIterator[Entry]:
    """Yield all entries, the oldest first.

    Args:
        store: The ledger's store.
        after: A stream id; only later entries are yielded.
        page: The most entries in one read.
    """
    more = True
    while more:
        rows, more = await _read(store, after, page)
        for row in rows:
            yield row
            after = row[0]


async def following(store: Store, after: str, *, limit: int) -> list[Entry]:
    """Return at most so many entries after a stream id, as `entries` does; none at the end.

    Args:
        store: The ledger's store.
        after: The stream id; "" for the beginning.
        limit: The most entries to return.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    return (await _read(store, after, limit))[0]


async def _read(store: Store, after: str, limit: int) -> tuple[list[Entry], bool]:
    """Return at most so many entries after a stream id, and whether there may be more."""
    place, most = order(after or "0-0"), _BLOCKS
    while True:
        # At one moment, because entries move from the stream into a block.
        async with store.translated_client() as client, client.pipeline(transaction=True) as pipe:
            _find(pipe, store, after or "0-0", most=most)
            pipe.xrange(f"{store.prefix}audit", f"({after}" if after else "-", "+", count=limit)
            blocks, rows = await pipe.execute()
        found = [row for one in blocks for row in read_block(one) if order(row[0]) > place]
        if len(blocks) < most:
            found += [_entry(*row) for row in rows]
        if len(blocks) < most or len(found) >= limit:
            return found[:limit], len(found) >= limit
        # Blocks may have lost entries to the archive.
        most *= 2


async def about(store: Store, run: str, *, after: str = "") -> AsyncIterator[tuple[str, str, str]]:
    """Yield the entries about one run and its approvals, as `entries` does.

    Args:
        store: The ledger's store.
        run: The id of the run.
        after: A stream id; only later entries are yielded.
    """
    async with store.translated_client() as client:
        trail = await client.hget(f"{store.prefix}trails", run) or ""
    ids = sorted({order(one) for one in trail.split()})
    behind = [f"{ms}-{nth}" for ms, nth in ids if not after or (ms, nth) > order(after)]
    async for entry in by_ids(store, behind):
        yield entry


async def by_ids(store: Store, ids: Sequence[str]) -> AsyncIterator[tuple[str, str, str]]:
    """Yield the entries with these stream ids, as `entries` does, without those that are gone."""
    key = f"{store.prefix}audit"
    for start in range(0, len(ids), _PAGE):
        page = ids[start : start + _PAGE]
        async with (
            store.translated_client() as client,
            client.pipeline(transaction=False) as pipe,
        ):
            for one in page:
                pipe.xrange(key, one, one)
            found = await pipe.execute()
        there = {row[0]: _entry(*row) for rows in found for row in rows}
        # Afterwards, because entries only move from the stream into a block.
        missing = {one for one in page if one not in there}
        for _, rows in await _blocks_with(store, missing):
            there |= {row[0]: row for row in rows if row[0] in missing}
        for one in page:
            if one in there:
                yield there[one]


def _entry(entry_id: str, fields: Mapping[str, str]) -> Entry:
    return entry_id, fields.get("e", ""), fields.get("h", "")


def _find(pipe: Pipeline, store: Store, entry_id: str, *, most: int) -> None:
    """Read the block that may have an entry, and the following ones."""
    score = score_of(entry_id)
    key = store.prefix + PACKED
    pipe.execute_command("ZRANGEBYSCORE", key, score, "+inf", "LIMIT", 0, most)


async def _blocks_with(store: Store, ids: Collection[str]) -> list[tuple[str, list[Entry]]]:
    """Return the blocks that have one of these entries, with all their entries."""
    found: list[tuple[str, list[Entry]]] = []
    for one in sorted(ids, key=order):
        if found and order(one) <= order(found[-1][1][-1][0]):
            continue
        async with (
            store.translated_client() as client,
            client.pipeline(transaction=False) as pipe,
        ):
            _find(pipe, store, one, most=1)
            (blocks,) = await pipe.execute()
        if not blocks:
            break
        if rows := read_block(blocks[0]):
            found.append((blocks[0], rows))
    return found


def to_block(rows: Sequence[Entry]) -> bytes:
    """Return entries as a block; links that follow from the entries before are left out.

    Raises:
        ValueError: These entries cannot be packed.
    """
    stored, link = list[Entry](), ""
    for entry_id, text, own in rows:
        kept = "" if link and own == _link(link, text) and entry_id != rows[-1][0] else own
        stored.append((entry_id, text, kept))
        link = own
    return pack(json.dumps(stored, ensure_ascii=False, separators=(",", ":")), repeats=True)


def read_block(block: str) -> list[Entry]:
    """Return the entries of a block, none if it is damaged, which breaks the chain."""
    try:
        stored = json.loads(unpack(block))
    except ValueError as error:
        log.error("audit.block_damaged", error=str(error))  # noqa: TRY400 -- the message says it all
        return []
    rows, link = list[Entry](), ""
    for entry_id, text, own in stored:
        link = own or _link(link, text)
        rows.append((entry_id, text, link))
    return rows


async def pack_entries(store: Store, *, age: timedelta) -> int:
    """Move entries that are older than an age into blocks, but not very many; return how many.

    Any number of processes may do this: an entry is in the stream or in one block.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    count, ms = 0, age // timedelta(milliseconds=1)
    for _ in range(_AT_ONCE):
        async with store.translated_client() as client:
            found = await client.xrange(f"{store.prefix}audit", "-", "+", count=BLOCK)
        rows = [_entry(*one) for one in found]
        if len(rows) < BLOCK:
            return count
        try:
            # In a thread, because it would block the event loop for some milliseconds.
            block = await asyncio.to_thread(to_block, rows)
        except ValueError as error:
            log.warning("audit.not_packed", entry=rows[0][0], error=str(error))
            return count
        ids = [one for one, _, _ in rows]
        if not await store.script("pack_audit", ms, block, rows[-1][2], *ids):
            return count
        count += len(rows)
    return count


async def remove(store: Store, ids: Sequence[str]) -> None:
    """Remove entries, which the archive has.

    Raises:
        LedgerUnavailable: Redis cannot be reached. Removing them again is safe.
    """
    for start in range(0, len(ids), _PAGE):
        async with store.translated_client() as client:
            await client.xdel(f"{store.prefix}audit", *ids[start : start + _PAGE])
    # Afterwards, because entries only move from the stream into a block.
    gone = set(ids)
    again = True
    while again:
        again = False
        for block, rows in await _blocks_with(store, gone):
            left = [one for one in rows if one[0] not in gone]
            if len(left) == len(rows):
                continue
            new = to_block(left) if left else ""
            old = block.encode("utf-8", "surrogateescape")
            done = await store.script("repack_audit", old, new, len(rows) - len(left))
            again = again or not done


def order(entry_id: str) -> tuple[int, int]:
    """Return the sort key of a stream id."""
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth or 0)


def score_of(entry_id: str) -> int:
    """Return the score of a block whose last entry has this id, an integer below 2^53."""
    ms, nth = order(entry_id)
    return ms * 4096 + min(nth, 4095)


def to_line(entry_id: str, text: str, link: str, hashed: str = "") -> str:
    """Return an entry as a line of JSON with a line feed at its end.

    The line contains the text unchanged, so that its hash can be computed.

    Args:
        entry_id: Its id in the stream.
        text: Its JSON text.
        link: Its link.
        hashed: The SHA-256 of the original text, if personal data was erased from it; else "".

    Raises:
        AuditBroken: The text is not UTF-8, so a line cannot contain it unchanged.
    """
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise AuditBroken(f"Entry {entry_id} is not UTF-8.", entry=entry_id) from error
    erased = f', "hash": "{hashed}"' if hashed else ""
    return f'{{"id": "{entry_id}", "entry": {text}{erased}, "link": "{link}"}}\n'


def from_line(line: str) -> tuple[str, str, str, str]:
    """Return the arguments of `to_line` for a line.

    Raises:
        ValueError: `to_line` does not make such a line.
    """
    form = _LINE.fullmatch(line)
    if form is None:
        raise ValueError("it is not a line that `signoff audit export` or the API has written")
    return form[1], form[2], form[4], form[3] or ""


async def lines(
    store: Store, *, subject: str = "", run: str = "", after: str = ""
) -> AsyncIterator[str]:
    """Yield the present entries as lines, the oldest first.

    Args:
        store: The ledger's store.
        subject: The id of an approval or a run, whose entries are yielded; "" yields all.
        run: The id of the subject's run.
        after: A stream id; only later entries are yielded.
    """
    found = about(store, run, after=after) if subject else entries(store, after=after)
    async for entry_id, text, link in found:
        if subject:
            event = json.loads(text)
            if subject not in {event.get("approval"), event.get("run")}:
                continue
        yield to_line(entry_id, text, link)


class Chain:
    """The verified part of the chain.

    Each link is the SHA-1, which scripts in Redis can compute, over the previous link and the
    SHA-256 of the entry. So no entry can be changed, removed or inserted without breaking it.

    Attributes:
        count: The number of entries so far.
        link: The link of the last entry.
    """

    def __init__(self) -> None:
        self.count, self.link = 0, ""

    def follow(self, entry_id: str, text: str, stored: str, hashed: str = "") -> str:
        """Verify the next entry, and return its link.

        Args:
            entry_id: Its id in the stream.
            text: Its JSON text.
            stored: The link that is stored with it.
            hashed: The SHA-256 of its original text, if personal data was erased from it; else "".

        Raises:
            AuditBroken: The stored link is not the one that follows from the previous entry.
        """
        self.link = _link(self.link, text, hashed)
        self.count += 1
        if self.link != stored:
            raise AuditBroken(
                f"Entry {self.count} ({entry_id}) does not follow from the one before: it, or one "
                "before it, was changed, added or removed.",
                entry=entry_id,
            )
        return self.link


def _link(before: str, text: str, hashed: str = "") -> str:
    """Return the link of an entry; see `Chain`.

    Args:
        before: The link of the entry before; "" for the first one.
        text: The entry's JSON text.
        hashed: The SHA-256 of its original text, if personal data was erased from it; else "".
    """
    # An entry that is not UTF-8 has the hash of its bytes.
    inner = hashed or hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    return hashlib.sha1((before + inner).encode(), usedforsecurity=False).hexdigest()


async def verify(
    store: Store, *, expect_head: str = "", chain: Chain | None = None, after: str = ""
) -> tuple[int, str]:
    """Verify the chain; return the number of entries and the head, which is the last link.

    Write access to Redis suffices to compute a whole new chain. So keep the head somewhere else,
    and pass it the next time.

    Args:
        store: The ledger's store.
        expect_head: An earlier head, which must still be a link of the chain; "" for none.
        chain: The part of the chain in the archive, already verified.
        after: The stream id of the last entry in the archive.

    Raises:
        AuditBroken: An entry does not fit, the stored head is not the last link, or the expected
            head is not in the chain.
    """
    chain = chain or Chain()
    head = await _head(store, chain.link, after)
    expected_seen, head_seen = not expect_head, head == chain.link
    async for entry in entries(store, after=after):
        link = chain.follow(*entry)
        expected_seen = expected_seen or link == expect_head
        # Entries may have been appended since the head was read, so any link may be that head.
        head_seen = head_seen or link == head
    if not head_seen:
        raise AuditBroken("The end of the audit was cut off, or its head replaced.", entry="+")
    _require_seen(expect_head, expected_seen)
    return chain.count, chain.link


def verify_lines(lines: Iterable[str], *, expect_head: str) -> tuple[int, str, int]:
    """Verify an export of the whole audit.

    Missing lines at the end are only detected with `expect_head`. An erased entry has the hash of
    its former text, so nothing in an export proves its present text.

    Args:
        lines: The lines, each with its line feed.
        expect_head: As for `verify`.

    Returns:
        The number of entries, the head, and the number of erased entries.

    Raises:
        AuditBroken: As for `verify`, or there are erased entries, but none that notes an erasure.
    """
    chain, seen, erased, erasure = Chain(), not expect_head, 0, False
    for number, line in enumerate(lines, 1):
        try:
            entry = from_line(line)
        except ValueError as error:
            raise AuditBroken(f"Line {number} cannot be verified: {error}.", entry="-") from error
        seen = chain.follow(*entry) == expect_head or seen
        _, text, _, hashed = entry
        erased += bool(hashed)
        erasure = erasure or (not hashed and '"what":"erased"' in text)
    _require_seen(expect_head, seen)
    if erased and not erasure:
        raise AuditBroken(
            f"{counted(erased, 'entry is', 'entries are')} marked as erased, but no entry notes an "
            "erasure.",
            entry="-",
        )
    return chain.count, chain.link, erased


def _require_seen(head: str, seen: bool) -> None:
    if not seen:
        raise AuditBroken(f"The head {head} is not in the chain.", entry="-")


async def _head(store: Store, archived: str, after: str) -> str:
    """Return the head, after comparing it with the link of the last entry at the same moment.

    Args:
        store: The ledger's store.
        archived: The last link in the archive, which is the head if no later entry exists.
        after: The stream id of the last entry in the archive.

    Raises:
        AuditBroken: They differ.
    """
    async with (
        store.translated_client() as client,
        client.pipeline(transaction=True) as pipe,
    ):
        pipe.get(f"{store.prefix}audit:head")
        pipe.xrevrange(f"{store.prefix}audit", count=1)
        head, rows = await pipe.execute()
    here = [fields for one, fields in rows if not after or order(one) > order(after)]
    if (head or "") != (here[0].get("h", "") if here else archived):
        raise AuditBroken(
            "The end of the audit was cut off or added to, or its head removed or replaced.",
            entry="+",
        )
    return head or ""
