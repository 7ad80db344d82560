"""The audit: an append-only stream in which each entry is chained to the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from signoff.broker.ledger.store import Store
from signoff.core.base.counts import counted
from signoff.core.base.errors import AuditBroken

_PAGE = 1000
_LINE: Final = re.compile(
    r'\{"id": "(\d+-\d+)", "entry": ([^\n]*?)'
    r'(?:, "hash": "([0-9a-f]{64})")?, "link": "([0-9a-f]{40})"\}\n?'
)


async def entries(
    store: Store, *, after: str = "", page: int = _PAGE
) -> AsyncIterator[tuple[str, str, str]]:
    """Yield stream id, JSON text and link of every entry, the oldest first.

    Args:
        store: The ledger's store.
        after: A stream id; only later entries are yielded.
        page: The most entries in one read.
    """
    start = f"({after}" if after else "-"
    while True:
        async with store.translated_client() as client:
            rows = await client.xrange(f"{store.prefix}audit", start, "+", count=page)
        for entry_id, fields in rows:
            yield entry_id, fields.get("e", ""), fields.get("h", "")
        if len(rows) < page:
            return
        start = f"({rows[-1][0]}"


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
        async with (
            store.translated_client() as client,
            client.pipeline(transaction=False) as pipe,
        ):
            for one in ids[start : start + _PAGE]:
                pipe.xrange(key, one, one)
            found = await pipe.execute()
        for entry_id, fields in (row for rows in found for row in rows):
            yield entry_id, fields.get("e", ""), fields.get("h", "")


def order(entry_id: str) -> tuple[int, int]:
    """Return the sort key of a stream id."""
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth)


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
        # An entry that is not UTF-8 has the hash of its bytes.
        inner = hashed or hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
        self.link = hashlib.sha1((self.link + inner).encode(), usedforsecurity=False).hexdigest()
        self.count += 1
        if self.link != stored:
            raise AuditBroken(
                f"Entry {self.count} ({entry_id}) does not follow from the one before: it, or one "
                "before it, was changed, added or removed.",
                entry=entry_id,
            )
        return self.link


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
