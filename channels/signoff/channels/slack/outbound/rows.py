"""Calls as Block Kit: the arguments, folded or in full, and whether Slack can show all.

Pure: no I/O. A message may have 50 blocks and about 12,000 characters, a modal 100 blocks and 250
kB.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Final

from slack_sdk.models.blocks import Block, ContextBlock, PlainTextObject, SectionBlock

from signoff.channels.slack.text import (
    FIELD,
    HEADER,
    LABEL,
    SECTION,
    clip,
    pieces,
    plain,
    units,
    weight,
)
from signoff.core.approvals.parts import Kind as Asks
from signoff.core.approvals.parts import Shown
from signoff.core.cards.card import Card, Row

MOST_ROWS: Final = 20
"""The most arguments on the card; Details shows the others."""

MOST_IN_MODAL: Final = 100
"""The most blocks in a modal."""

NO_ARGUMENTS: Final = "It takes no arguments."

_FOLDED: Final = 160
"""The most characters of a value beside its name; a folded card shows no more of it."""

_ROOM: Final = 3_000
"""The most characters of a call that its card shows whole, by `weight`."""

_ROOM_FOLDED: Final = 4_000
"""The most characters of the arguments on a folded card, by `weight`."""

_MOST_LONG_ROWS: Final = 8
"""The most multi-line arguments on a card, two blocks each; a message has 50 blocks."""

_ROOM_IN_MODAL: Final = 200_000
"""The most bytes of a call in a modal; Slack accepts views of 250 kB."""

_OF_A_FIELD: Final = 500
"""The bytes of an input, besides its texts."""

_OURS_IN_MODAL: Final = 10
"""The blocks of a modal besides the call: titles, a reason, a duration, small print."""

_ROWS_A_SECTION: Final = 5
NAME: Final = 150
"""The most characters of a name on a card."""


def extent(card: Card) -> Shown:
    """Return how much of a call Slack can show before an approval.

    If the card is folded, Approve opens a modal that shows the rest.
    """
    return Shown.COMPLETE if is_whole(card) or fits_modal(card) else Shown.CUT


def is_whole(card: Card) -> bool:
    """Return whether a card shows its whole call, so that its button can decide immediately."""
    texts = (card.title, card.hint, *(text for row in card.rows for text in (row.name, row.value)))
    return (
        units(card.title) <= HEADER
        and len(card.rows) <= MOST_ROWS
        and sum(map(_is_long, card.rows)) <= _MOST_LONG_ROWS
        and all(units(row.name) <= NAME and units(row.value) <= FIELD for row in card.rows)
        and sum(map(weight, texts)) <= _ROOM
    )


def fits_modal(card: Card) -> bool:
    """Return whether a modal can show the whole call, in addition to the fields."""
    asked = (*card.fields, *(Row(name=name, value="") for name in card.optional))
    room = MOST_IN_MODAL - _OURS_IN_MODAL - len(asked)
    size = len(json.dumps([(row.name, row.value) for row in card.rows])) + _OF_A_FIELD * len(asked)
    texts = (card.title, card.hint, *(one.name for one in (*card.rows, *asked)))
    return (
        all(units(text) <= SECTION for text in texts)
        and all(units(row.name) <= FIELD for row in card.rows)
        and all(units(one.value) <= SECTION and units(one.note) <= LABEL for one in asked)
        and size <= _ROOM_IN_MODAL
        and sum(len(_in_full(row, room + 1)) for row in card.rows) <= room
    )


def without_arguments(card: Card) -> bool:
    """Return whether a call has no arguments; false for a question, which needs none."""
    return not card.rows and card.kind is not Asks.INPUT


def rows_of(card: Card, *, whole: bool) -> Iterator[Block]:
    """Yield the arguments, in full or shortened; a folded card shows as many as have room."""
    fields: list[PlainTextObject] = []
    shown = card.rows[:MOST_ROWS] if whole else [*_with_room(card.rows[:MOST_ROWS])]
    for row in shown:
        if whole and _is_long(row):
            if fields:
                yield SectionBlock(fields=fields)
            fields = []
            yield from _in_full(row, 1)
            continue
        fields += [plain(row.name, NAME), plain(row.value if whole else _fold(row.value), FIELD)]
        if len(fields) == 2 * _ROWS_A_SECTION:
            yield SectionBlock(fields=fields)
            fields = []
    if fields:
        yield SectionBlock(fields=fields)
    if left := len(card.rows) - len(shown):
        yield ContextBlock(elements=[plain(f"… and {left} more behind Details")])


def _with_room(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield the first arguments that a folded card has room for."""
    left = _ROOM_FOLDED
    for row in rows:
        left -= weight(clip(row.name, NAME)) + weight(_fold(row.value))
        if left < 0:
            return
        yield row


def rows_in_full(rows: Sequence[Row], *, most: int) -> Iterator[Block]:
    """Yield arguments in full, in at most `most` blocks; the last one says what is left out."""
    left, room = most, _ROOM_IN_MODAL
    for at, row in enumerate(rows):
        blocks = _in_full(row, left)
        room -= len(json.dumps([row.name, row.value]))
        # The last block is reserved for the note about omitted arguments.
        if room < 0 or len(blocks) > left - (at < len(rows) - 1):
            more = f"… and {len(rows) - at:,} more that are too long for Slack: see the page"
            yield ContextBlock(elements=[plain(more)])
            return
        yield from blocks
        left -= len(blocks)


def _in_full(row: Row, most: int) -> list[Block]:
    """Return an argument in full, even if it needs more blocks than `most`."""
    name = plain(row.name, FIELD)
    if not _is_long(row):
        return [SectionBlock(fields=[name, plain(row.value, FIELD)])]
    parts = pieces(row.value, SECTION, most + 1)
    return [SectionBlock(text=name), *(SectionBlock(text=plain(one), expand=True) for one in parts)]


def _is_long(row: Row) -> bool:
    return units(row.value) > _FOLDED or row.value.count("\n") > 2


def _fold(value: str) -> str:
    first = value.split("\n", 1)[0]
    line = clip(first, _FOLDED)
    return line if line == value else f"{line.removesuffix('…')}… (folded)"
