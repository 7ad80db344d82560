"""Delta compression of bytes against a base.

A suspended run of code differs little from its base: the session into which the vocabulary was
loaded.
"""

from __future__ import annotations

import json
import zlib
from typing import Final

_BLOCK: Final = 32
_STRIDE: Final = 256


def pack(data: bytes, base: bytes) -> bytes:
    """Return the data compressed against a base; `unpack` restores it with the same base."""
    places = {base[at : at + _BLOCK]: at for at in range(0, len(base) - _BLOCK + 1, _BLOCK)}
    copies: list[tuple[int, int, int]] = []
    new = bytearray()
    at = done = 0
    while at <= len(data) - _BLOCK:
        place = places.get(data[at : at + _BLOCK])
        if place is None:
            at += 1
            continue
        while at > done and place and data[at - 1] == base[place - 1]:
            at, place = at - 1, place - 1
        length = _same(data, at, base, place)
        copies.append((at - done, place, length))
        new += data[done:at]
        at = done = at + length
    new += data[done:]
    return zlib.compress(json.dumps(copies, separators=(",", ":")).encode() + b"\n" + new, 9)


def unpack(packed: bytes, base: bytes) -> bytes:
    """Return the data that `pack` has compressed.

    Raises:
        ValueError: `pack` has not made this.
    """
    try:
        head, _, new = zlib.decompress(packed).partition(b"\n")
    except zlib.error as error:
        raise ValueError(str(error)) from error
    data = bytearray()
    read = 0
    for fresh, place, length in json.loads(head):
        data += new[read : read + fresh] + base[place : place + length]
        read += fresh
    return bytes(data + new[read:])


def _same(data: bytes, at: int, base: bytes, place: int) -> int:
    """Return how many bytes are equal in both, beginning at these places."""
    length = _BLOCK
    while True:
        ours = data[at + length : at + length + _STRIDE]
        theirs = base[place + length : place + length + _STRIDE]
        if ours != theirs or not ours:
            break
        length += len(ours)
    while (
        at + length < len(data)
        and place + length < len(base)
        and data[at + length] == base[place + length]
    ):
        length += 1
    return length
