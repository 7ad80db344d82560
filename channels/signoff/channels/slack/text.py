"""Text for Slack: escaped, clipped to the documented limits, and never parsed as markup.

Limits: https://docs.slack.dev/reference/block-kit. Lengths are counted in UTF-16 units, the larger
of the two ways in which a limit in "characters" can be read.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from slack_sdk.models.blocks import MarkdownTextObject, PlainTextObject

from signoff.channels.words.messages import moment

HEADER: Final = 150
SECTION: Final = 3_000
FIELD: Final = 2_000
BUTTON: Final = 75
MODAL_TITLE: Final = 24
LABEL: Final = 2_000
ROOM_FOR_MORE: Final = "…"

_ENTITIES: Final = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


def units(text: str) -> int:
    """Return the length of a text in UTF-16 units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def weight(text: str) -> int:
    """Return the length of a text as Slack stores it, with & < > as entities."""
    return units(text) + 4 * text.count("&") + 3 * text.count("<") + 3 * text.count(">")


def clip(text: str, most: int, length: Callable[[str], int] = units) -> str:
    """Return a text of at most `most` UTF-16 units; a cut text ends in an ellipsis.

    `length` counts them: `units`, or `weight`.
    """
    if length(text) <= most:
        return text
    kept, used = [], 1
    for char in text:
        used += length(char)
        if used > most:
            break
        kept.append(char)
    return "".join(kept) + ROOM_FOR_MORE


def pieces(text: str, size: int, most: int) -> list[str]:
    """Split a text into at most `most` pieces of a size, at line ends if possible."""
    found: list[str] = []
    rest = text
    while rest and len(found) < most:
        if units(rest) <= size:
            return [*found, rest]
        head = clip(rest, size).removesuffix(ROOM_FOR_MORE)
        at = head.rfind("\n") + 1
        head = head[:at] if at > size // 2 else head
        found.append(head)
        rest = rest[len(head) :]
    if rest:
        found[-1] = clip(found[-1] + rest, size)
    return found


def escape(text: str, most: int = SECTION) -> str:
    """Escape text from others for mrkdwn, so that it cannot contain mentions, channels or links.

    https://docs.slack.dev/messaging/formatting-message-text#escaping
    """
    clipped = clip(text, most)
    escaped = "".join(_ENTITIES.get(char, char) for char in clipped)
    while units(escaped) > most:
        clipped = clip(clipped, units(clipped) - max(1, (units(escaped) - most) // 5))
        escaped = "".join(_ENTITIES.get(char, char) for char in clipped)
    return escaped


def plain(text: str, most: int = SECTION) -> PlainTextObject:
    """Return a text that is shown unchanged: without formatting, ``:emoji:`` and links."""
    return PlainTextObject(text=clip(text, most) or " ", emoji=False)


def brief(text: str, most: int) -> PlainTextObject:
    """Return a text like `plain`, but of a length that counts in a message; see `weight`."""
    return plain(clip(text, most, weight))


def markup(text: str) -> MarkdownTextObject:
    """Return our own mrkdwn, without automatic links; text from others must already be escaped."""
    return MarkdownTextObject(text=text, verbatim=True)


def date(at: datetime) -> str:
    """Return a time that Slack shows each reader in their own time zone.

    A client that cannot do this shows it in UTC.

    https://docs.slack.dev/messaging/formatting-message-text#date-formatting
    """
    return f"<!date^{int(at.timestamp())}^{{date_short_pretty}} at {{time}}|{moment(at, UTC)}>"
