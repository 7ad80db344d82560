"""The packed form of texts that have waited for some time: records, and blocks of the audit.

A packed text begins with `PACKED`, the number of texts outside and these texts, each with a line
feed. Scripts in Redis find there what they read of a record. Four bytes of CRC-32 of the whole text
follow, then its deflated text, then the bytes of its hashes and times.

In the deflated text, control characters, which JSON does not contain, stand for the texts outside,
for hexadecimal hashes and for times. Their bytes take much less room than their text, which hardly
compresses.
"""

from __future__ import annotations

import re
import zlib
from datetime import datetime, timedelta
from typing import Final

from signoff.broker.ledger.packing_dictionary import DICTIONARY

PACKED: Final = "~"
"""The first character of a packed text. JSON never begins with it."""

_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TIME: Final = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z"
_LITERAL: Final = re.compile(
    f"{_UUID}|{_TIME}|[0-9a-f]{{64}}|[0-9a-f]{{32}}|[0-9a-f]{{16}}", re.ASCII
)
_SIZES: Final = {"\x01": 32, "\x02": 16, "\x03": 8, "\x04": 16, "\x05": 7}
"""What stands for hashes of three lengths, a UUID and a time, and how many bytes each takes."""

_MARK: Final = re.compile("([\x01-\x05])")
_OF_LENGTH: Final = {64: "\x01", 32: "\x02", 16: "\x03", 36: "\x04", 27: "\x05"}
_OUTSIDE: Final = 0x10
"""The character that stands for the first text outside."""

_SHORTEST: Final = 4
"""Characters from which a text outside is replaced; deflating shortens others as much."""

_EPOCH: Final = datetime(1970, 1, 1)  # noqa: DTZ001 -- of times that end with Z
_US: Final = timedelta(microseconds=1)


def pack(text: str, *outside: str, repeats: bool = False) -> bytes:
    """Return the packed form of a text; `unpack` returns exactly this text again.

    Args:
        text: The text. It need not be UTF-8; see `DECODE_ANY`.
        outside: At most nine texts that scripts can read. If one of them is in the text, it is not
            stored twice.
        repeats: Whether hashes and times repeat, so that they deflate better as text.

    Raises:
        ValueError: The text cannot be packed; it has control characters, for example.
    """
    body, literals = text, list[bytes]()

    def mark_of(found: re.Match[str]) -> str:
        mark = _OF_LENGTH[len(found[0])]
        literal = _to_bytes(found[0])
        # Not each text of this form is a time.
        if literal is None:
            return found[0]
        literals.append(literal)
        return mark

    for place, one in enumerate(outside):
        if len(one) >= _SHORTEST:
            body = body.replace(one, chr(_OUTSIDE + place))
    if not repeats:
        body = _LITERAL.sub(mark_of, body)
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY)
    packed = b"".join(
        (
            _bytes("\n".join((f"{PACKED}{len(outside)}", *outside, ""))),
            zlib.crc32(_bytes(text)).to_bytes(4),
            deflate.compress(_bytes(body)),
            deflate.flush(),
            *literals,
        )
    )
    if unpack(packed.decode("utf-8", "surrogateescape")) != text:
        raise ValueError("The text has control characters, or a text outside has a line feed.")
    return packed


def unpack(data: str) -> str:
    """Return the text of a packed form, as replies of Redis are decoded.

    Any other text is returned unchanged, and so is a damaged packed form, which is no JSON.
    """
    if not data.startswith(PACKED):
        return data
    try:
        count, rest = data[1:].split("\n", 1)
        *outside, body = rest.split("\n", int(count))
        return _unpacked(_bytes(body), outside)
    except (ValueError, OverflowError, zlib.error):
        return data


def _unpacked(data: bytes, outside: list[str]) -> str:
    """Return the text of a packed form without its head.

    Raises:
        ValueError, OverflowError, zlib.error: It is damaged.
    """
    inflate = zlib.decompressobj(-15, DICTIONARY)
    text = (inflate.decompress(data[4:]) + inflate.flush()).decode("utf-8", "surrogateescape")
    literals, place, pieces = inflate.unused_data, 0, _MARK.split(text)
    for at in range(1, len(pieces), 2):
        start, place = place, place + _SIZES[pieces[at]]
        pieces[at] = _from_bytes(pieces[at], literals[start:place])
    text = "".join(pieces)
    for number in range(len(outside) - 1, -1, -1):
        text = text.replace(chr(_OUTSIDE + number), outside[number])
    if place != len(literals) or zlib.crc32(_bytes(text)).to_bytes(4) != data[:4]:
        raise ValueError("The packed form is damaged.")
    return text


def _to_bytes(literal: str) -> bytes | None:
    """Return a hash or a time as bytes, None if there is no such time."""
    if len(literal) != 27:
        return bytes.fromhex(literal.replace("-", ""))
    try:
        return ((datetime.fromisoformat(literal[:-1]) - _EPOCH) // _US).to_bytes(7)
    except (ValueError, OverflowError):
        return None


def _from_bytes(mark: str, literal: bytes) -> str:
    if mark == "\x05":
        moment = _EPOCH + timedelta(microseconds=int.from_bytes(literal))
        return f"{moment.isoformat(timespec='microseconds')}Z"
    one = literal.hex()
    if mark == "\x04":
        return "-".join((one[:8], one[8:12], one[12:16], one[16:20], one[20:]))
    return one


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
