"""Server-sent events, in any division of their bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from signoff.channels.mcp.events import ServerEvents

MIB = 1024 * 1024


async def parts_of(text: bytes, cuts: Sequence[int]) -> AsyncIterator[bytes]:
    """Yield a text in parts."""
    for start, end in pairwise([0, *sorted(cuts), len(text)]):
        yield text[start:end]


async def read(text: bytes, cuts: Sequence[int] = ()) -> tuple[list[bytes], bytes, float]:
    """Return the data of all events, the last id and the pause."""
    events = ServerEvents()
    found = [one async for one in events.read(parts_of(text, cuts))]
    return found, events.last, events.pause


@pytest.mark.parametrize("end", [b"\n", b"\r", b"\r\n"])
async def test_an_event_has_its_lines(end: bytes) -> None:
    """Comments are ignored, and an unfinished event does not count."""
    lines = [b": hello", b"id: 7", b"retry: 20", b"data: a", b"data:b", b"", b"", b"data: lost"]
    assert await read(end.join(lines)) == ([b"a\nb"], b"7", 0.02)


async def test_a_stream_resumes_after_its_last_whole_event() -> None:
    """The id of an unfinished event does not count, so the server sends it again."""
    assert await read(b"id: 1\ndata: a\n\nid: 2\ndata: b\n") == ([b"a"], b"1", 1.0)


async def test_an_event_without_data_has_an_id_too() -> None:
    """A server sends such an event first, so that the stream can be resumed before the answer."""
    assert await read(b"id: 1\n\n") == ([], b"1", 1.0)


async def test_a_pause_of_any_length_is_shortened() -> None:
    """This holds even for a number of seconds that is too large for a float."""
    assert await read(b"retry: " + b"9" * 5000 + b"\n") == ([], b"", 30.0)


@given(st.lists(st.sampled_from([b"data: a", b"", b"\r", b"\n", b"\r\n", b"id: 1"])), st.data())
def test_a_stream_can_be_split_at_any_byte(pieces: list[bytes], data: st.DataObject) -> None:
    """The cut may be inside a line break."""
    text = b"".join(pieces)
    cuts = data.draw(st.lists(st.integers(0, len(text))))
    assert asyncio.run(read(text, cuts)) == asyncio.run(read(text))


async def test_a_long_line_is_scanned_once() -> None:
    """A picture arrives in a thousand parts, which must not stop the gate."""
    line = b"data: " + b"a" * (8 * MIB)
    found, *_ = await read(line + b"\n\n", range(0, len(line), 8192))
    assert [len(one) for one in found] == [8 * MIB]
