"""Lines and tables that commands print: by rich at a terminal, and without it into a pipe.

Importing rich takes a twentieth of the instructions of a short command, and laying out a table as
much again.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final, Self

from signoff.cli.terminal import make_console, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.table import Table as RichTable
    from rich.text import Text as RichText

TIME: Final = "time ("
"""The beginning of the heading of a column of times."""

_WHOLE: Final = frozenset({"id", "state", "since", "due in", "after", "number"})
"""Columns that are not wrapped, as those of times."""

_NARROWEST: Final = 12
"""The least width to which a column is wrapped. A table that needs less is printed row by row."""

_PIPE_WIDTH: Final = 400
_GAP: Final = 2
"""The space between two columns."""

_TERMINALS: Final = frozenset({"FORCE_COLOR", "TTY_COMPATIBLE"})
"""Environment variables that tell rich whether the output is a terminal."""


class Text:
    """Text with the styles of rich, which are left out in a pipe.

    Args:
        text: The text; it is never read as markup.
        style: The style of the whole text.
    """

    __slots__ = ("_parts",)

    def __init__(self, text: str = "", style: str = "") -> None:
        self._parts = [(text, style)]

    def append(self, text: str, style: str = "") -> Self:
        """Add more text with a style of its own; return this text."""
        self._parts.append((text, style))
        return self

    @property
    def plain(self) -> str:
        """The text without styles."""
        return "".join(text for text, _ in self._parts)

    def __rich__(self) -> RichText:
        from rich.text import Text as RichText  # noqa: PLC0415 -- slow; a pipe does not need it

        (first, style), *more = self._parts
        made = RichText(first, style=style)
        for text, own in more:
            made.append(text, own)
        return made


class Table:
    """Rows of texts in columns; in a terminal that is too narrow, a list of each row's cells.

    Without any heading, it has no header.

    Attributes:
        rows: The cells of each row, one for each column.
    """

    __slots__ = ("_columns", "_has_header", "rows")

    def __init__(self, *columns: str) -> None:
        self._columns = columns
        self._has_header = any(columns)
        self.rows = list[tuple[Text, ...]]()

    def add_row(self, *cells: Text) -> None:
        """Add a row."""
        self.rows.append(cells)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fits = not self._has_header or self._least_width() <= options.max_width
        yield self._by_column() if fits else self._by_row()

    def _least_width(self) -> int:
        """Return the width that the table needs, with its long cells wrapped."""
        columns = zip(
            self._columns, *((cell.plain for cell in row) for row in self.rows), strict=True
        )
        widths = [
            max(_width(line) for cell in column for line in cell.split("\n")) for column in columns
        ]
        return sum(
            width if _is_whole(name) else min(width, _NARROWEST)
            for name, width in zip(self._columns, widths, strict=True)
        ) + _GAP * (len(widths) - 1)

    def _by_column(self) -> RichTable:
        from rich.table import Table as RichTable  # noqa: PLC0415 -- as above

        made = RichTable(
            box=None,
            padding=(0, _GAP, 0, 0),
            header_style="bold dim",
            pad_edge=False,
            show_header=self._has_header,
        )
        for column in self._columns:
            made.add_column(column, overflow="fold", no_wrap=_is_whole(column))
        for row in self.rows:
            made.add_row(*row)
        return made

    def _by_row(self) -> RichTable:
        """Return the cells of each row below each other, with headings and without empty cells."""
        from rich.table import Table as RichTable  # noqa: PLC0415 -- as above

        made = RichTable.grid(padding=(0, _GAP, 0, 0))
        made.add_column(style="dim", no_wrap=True)
        made.add_column(overflow="fold")
        for at, row in enumerate(self.rows):
            if at:
                made.add_row("", "")
            for name, cell in zip(self._columns, row, strict=True):
                if cell.plain:
                    made.add_row(name, cell)
        return made

    def lines(self) -> list[str]:
        """Return the lines of the table without styles, each with the width of the table."""
        texts = [self._columns] if self._has_header else []
        texts += [tuple(cell.plain for cell in row) for row in self.rows]
        rows = [[text.split("\n") for text in row] for row in texts]
        sizes = [[[_width(line) for line in cell] for cell in row] for row in rows]
        widths = [max(max(cell) for cell in column) for column in zip(*sizes, strict=True)]
        # As rich does: an empty last column, which has no gap behind it, takes one space.
        widths[-1:] = [max(one, 1) for one in widths[-1:]]
        lines = list[str]()
        for row, size in zip(rows, sizes, strict=True):
            for at in range(max(map(len, row))):
                cells = (
                    cell[at] + " " * (width - each[at]) if at < len(cell) else " " * width
                    for cell, each, width in zip(row, size, widths, strict=True)
                )
                lines.append((" " * _GAP).join(cells))
        return lines


class Output:
    """Standard output. Lines into a pipe are wrapped at 400 columns, whatever the terminal has."""

    def print(self, *objects: Text | Table, sep: str = " ") -> None:
        """Print a table, or texts one after the other.

        Args:
            objects: A table, or texts.
            sep: What stands between two texts.
        """
        lines = None if _may_be_terminal() else _plain(objects, sep)
        if lines is None:
            self.rich().print(*objects, sep=sep)
        else:
            say("\n".join(lines))

    def rich(self) -> Console:
        """Return a console of rich with the same output."""
        console = make_console()
        if not console.is_terminal:
            console.width = _PIPE_WIDTH
        return console


def _is_whole(column: str) -> bool:
    return column in _WHOLE or column.startswith(TIME)


def _may_be_terminal() -> bool:
    return not _TERMINALS.isdisjoint(os.environ) or sys.stdout.isatty()


def _plain(objects: Sequence[Text | Table], sep: str) -> list[str] | None:
    """Return the lines that rich would print into a pipe; None if its layout is not that simple.

    It is simple if nothing has to be wrapped, and all characters are printed as they are.
    """
    from signoff.core.base.shown_text import visible  # noqa: PLC0415 -- help must not wait for it

    texts = [one.plain for one in objects if isinstance(one, Text)]
    if len(texts) == len(objects):
        lines = sep.join(texts).split("\n")
    elif len(objects) == 1:
        lines = [line for one in objects if isinstance(one, Table) for line in one.lines()]
    else:
        return None
    text = "".join(lines)
    ordinary = text.isprintable() and visible(text) == text
    fits = all(len(line) <= _PIPE_WIDTH and _width(line) <= _PIPE_WIDTH for line in lines)
    return lines if lines and ordinary and fits else None


def _width(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len  # noqa: PLC0415 -- a small part of rich

    return cell_len(text)
