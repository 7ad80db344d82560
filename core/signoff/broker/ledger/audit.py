"""The audit: an append-only stream in which each entry is chained to the one before."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Final

from signoff.broker.ledger.store import Store
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
        after: A stream id; only what comes behind it is yielded.
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
    """Yield what `entries` yields of one run and its approvals alone.

    Args:
        store: The ledger's store.
        run: The id of the run.
        after: A stream id; only what comes behind it is yielded.
    """
    async with store.translated_client() as client:
        trail = await client.hget(f"{store.prefix}trails", run) or ""
    ids = sorted({order(one) for one in trail.split()})
    behind = [f"{ms}-{nth}" for ms, nth in ids if not after or (ms, nth) > order(after)]
    async for entry in by_ids(store, behind):
        yield entry


async def by_ids(store: Store, ids: Sequence[str]) -> AsyncIterator[tuple[str, str, str]]:
    """Yield what `entries` yields of the entries with these stream ids that are still there."""
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
    """Return what stream ids are ordered by."""
    ms, _, nth = entry_id.partition("-")
    return int(ms), int(nth)


def to_line(entry_id: str, text: str, link: str, hashed: str = "") -> str:
    """Return an entry as a line of JSON; the text stands in it as it is, so that links can be made.

    The line has no other line feed than the one at its end.

    Args:
        entry_id: Its id in the stream.
        text: Its JSON text.
        link: Its link.
        hashed: The SHA-256 of the text as it was, where personal data was erased from it since.
    """
    erased = f', "hash": "{hashed}"' if hashed else ""
    return f'{{"id": "{entry_id}", "entry": {text}{erased}, "link": "{link}"}}\n'


def from_line(line: str) -> tuple[str, str, str, str]:
    """Return what `to_line` was given.

    Raises:
        ValueError: It has not made this line.
    """
    form = _LINE.fullmatch(line)
    if form is None:
        raise ValueError("it is not a line that `signoff audit export` or the API has written")
    return form[1], form[2], form[4], form[3] or ""


async def lines(
    store: Store, *, subject: str = "", run: str = "", after: str = ""
) -> AsyncIterator[str]:
    """Yield entries as lines, the oldest first, to the present end.

    Args:
        store: The ledger's store.
        subject: The id of an approval or a run; only its entries are yielded. All where it is "".
        run: The id of that one's run.
        after: A stream id; only what comes behind it is yielded.
    """
    found = about(store, run, after=after) if subject else entries(store, after=after)
    async for entry_id, text, link in found:
        if subject:
            event = json.loads(text)
            if subject not in {event.get("approval"), event.get("run")}:
                continue
        yield to_line(entry_id, text, link)


class Chain:
    """The chain as far as it was walked.

    Each link is SHA-1 (what a script can compute inside Redis) over the link before and the
    SHA-256 of the entry: an entry cannot be changed, left out or put in without breaking it.

    Attributes:
        count: How many entries there were.
        link: The link of the last one.
    """

    def __init__(self) -> None:
        self.count, self.link = 0, ""

    def follow(self, entry_id: str, text: str, stored: str, hashed: str = "") -> str:
        """Go on to the next entry, and return its link.

        Args:
            entry_id: Its id in the stream.
            text: Its JSON text.
            stored: The link that it is stored with.
            hashed: The hash of what it was, where personal data was erased from it.

        Raises:
            AuditBroken: It does not follow from the one before.
        """
        inner = hashed or hashlib.sha256(text.encode()).hexdigest()
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
    """Walk the chain; return the number of entries and the head, its last link.

    Somebody who can write to Redis could compute a whole new chain, so keep the head that this
    returns somewhere else, and pass it the next time.

    Args:
        store: The ledger's store.
        expect_head: A head seen earlier, which must still be a link of the chain.
        chain: As far as it was walked in the archive.
        after: The stream id of the last entry there; it is gone on behind it.

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
        # Entries are appended while this walks: the head of the start must be on the way.
        head_seen = head_seen or link == head
    if not head_seen:
        raise AuditBroken("The end of the audit was cut off, or its head replaced.", entry="+")
    _require_seen(expect_head, expected_seen)
    return chain.count, chain.link


def verify_lines(lines: Iterable[str], *, expect_head: str = "") -> tuple[int, str]:
    """Walk the chain of an export from its first line; returns and raises as `verify` does.

    That the end was cut off shows against a head alone that was seen earlier.

    Args:
        lines: The lines, each with its line feed.
        expect_head: A head seen earlier, which must be a link of the chain.
    """
    chain, seen = Chain(), not expect_head
    for number, line in enumerate(lines, 1):
        try:
            entry = from_line(line)
        except ValueError as error:
            raise AuditBroken(f"Line {number} cannot be verified: {error}.", entry="-") from error
        seen = chain.follow(*entry) == expect_head or seen
    _require_seen(expect_head, seen)
    return chain.count, chain.link


def _require_seen(head: str, seen: bool) -> None:
    if not seen:
        raise AuditBroken(f"The head {head} is not in the chain.", entry="-")


async def _head(store: Store, archived: str, after: str) -> str:
    """Return the head, which the last entry must carry at the same moment.

    Where everything is in the archive, up to a stream id, it is the last link there.
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
