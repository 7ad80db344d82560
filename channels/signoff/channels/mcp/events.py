"""Server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Final

_BREAK: Final = re.compile(rb"\r\n|\n|\r")
_LONGEST_PAUSE: Final = 30.0


class ServerEvents:
    """The events of a server, over several connections.

    Attributes:
        last: The id of the last whole event, b"" if none had one. The stream resumes after it.
        pause: Seconds to wait before the stream is resumed, as the server wants it.
    """

    def __init__(self) -> None:
        self.last = b""
        self.pause = 1.0

    async def read(self, parts: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the data of the events of one connection."""
        line, data, halved, event_id = list[bytes](), list[bytes](), False, self.last
        async for part in parts:
            # A line break can be cut in two: the "\r" ended the part before.
            new = part.removeprefix(b"\n") if halved else part
            halved = part.endswith(b"\r") if part else halved
            begun, *more = _BREAK.split(new)
            line.append(begun)
            for following in more:
                whole, line = b"".join(line), [following]
                name, _, value = whole.partition(b":")
                value = value.removeprefix(b" ")
                match name:
                    case b"data":
                        data.append(value)
                    case b"id" if b"\0" not in value:
                        event_id = value
                    case b"retry" if value.isdigit():
                        self.pause = min(float(value) / 1000, _LONGEST_PAUSE)
                    case b"" if not whole:
                        # The event is whole. Only now may the stream resume after it.
                        self.last = event_id
                        if data:
                            yield b"\n".join(data)
                            data.clear()
