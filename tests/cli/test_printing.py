"""Into a pipe, commands print the same lines and tables as rich does, without importing it."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from signoff.cli.printing import Output, Table, Text
from signoff.core.base.shown_text import visible

_CHARS = st.sampled_from("ab  Zé…⚠漢🙂e\u0301\n\t\u202e\x1b\u200b[]*")
TEXTS = st.lists(_CHARS, max_size=12).map("".join)
LONG = st.builds(lambda text, times: text * times, TEXTS, st.integers(1, 60))
NAMES = ("", "id", "asks for", "since", "time (UTC)")


@pytest.fixture(autouse=True)
def in_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no variable of this shell say that the output is a terminal."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)


def printed(*objects: Text | Table, sep: str = " ") -> str:
    """Return what is printed into a pipe."""
    with redirect_stdout(io.StringIO()) as out:
        Output().print(*objects, sep=sep)
    return out.getvalue()


def printed_by_rich(*objects: Text | Table, sep: str = " ") -> str:
    """Return what rich prints into a pipe."""
    with redirect_stdout(io.StringIO()) as out:
        Output().rich().print(*objects, sep=sep)
    return out.getvalue()


@st.composite
def tables(draw: st.DrawFn) -> Table:
    """Return a table with rows of texts, some of them long."""
    columns = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4))
    made = Table(*(columns if draw(st.booleans()) else [""] * len(columns)))
    cells = st.builds(Text, TEXTS | LONG, st.sampled_from(["", "bold red"]))
    for _ in range(draw(st.integers(0, 4))):
        made.add_row(*(draw(cells).append(draw(TEXTS), "dim") for _ in columns))
    return made


def rows_of(*cells: str) -> Table:
    """Return a table with one row."""
    made = Table(*NAMES[: len(cells)])
    made.add_row(*map(Text, cells))
    return made


@given(tables())
@example(rows_of("x" * 400))
@example(rows_of("x" * 401))
@example(rows_of("x", "word " * 79 + "word"))
@example(rows_of("a\n\nb", "漢字 ", ""))
def test_a_table_in_a_pipe_is_that_of_rich(table: Table) -> None:
    """Also if a cell has several lines or wide characters, or is too long for a line."""
    assert printed(table) == printed_by_rich(table)


@given(st.lists(TEXTS | LONG, min_size=1, max_size=3), st.sampled_from(["", " "]))
@example(["\ntimeline", ""], " ")
def test_texts_in_a_pipe_are_those_of_rich(texts: list[str], sep: str) -> None:
    """Several texts are printed one after the other, and long ones are wrapped."""
    objects = [Text(one, style="bold") for one in texts]
    assert printed(*objects, sep=sep) == printed_by_rich(*objects, sep=sep)


@given(tables())
def test_nothing_invisible_is_printed(table: Table) -> None:
    """Characters that a person would not see become escapes, as in all output."""
    out = printed(table)
    assert visible(out) == out


@pytest.mark.parametrize("name", ["FORCE_COLOR", "TTY_COMPATIBLE"])
def test_colours_can_be_forced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe into a program that shows colours gets them, as rich documents."""
    monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[31m" in printed(Text("no", style="red"))


@pytest.fixture
def narrow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands print to a terminal of 60 columns."""
    for name, value in {"TTY_COMPATIBLE": "1", "COLUMNS": "60", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("TERM", "xterm")


def shown_lines(table: Table) -> list[str]:
    """Return the printed lines, without styles and the space behind them."""
    plain = re.sub(r"\x1b\[[\d;]*m", "", printed(table))
    return [line.rstrip() for line in plain.splitlines()]


@pytest.mark.usefixtures("narrow")
def test_a_narrow_terminal_shows_the_cells_of_each_row_below_each_other() -> None:
    """Columns of a few letters could not be read; empty cells are left out."""
    table = Table("id", "asks for", "requester", "waits on", "since", "due in")
    long = "Samantha Featherstonehaugh-Cholmondeley, 山田 健二 and 3 more"
    table.add_row(
        *map(Text, ("ap_4fzqhxk3y2mnbt7d", "restart(db-19)", "Lee R", long, "10m34s", ""))
    )
    table.add_row(*map(Text, ("ap_q6w5r2ld3xk7ynca", "pay()", "Lee R", "nobody", "4s", "1h")))
    assert shown_lines(table) == [
        "id         ap_4fzqhxk3y2mnbt7d",
        "asks for   restart(db-19)",
        "requester  Lee R",
        "waits on   Samantha Featherstonehaugh-Cholmondeley, 山田",
        "           健二 and 3 more",
        "since      10m34s",
        "",
        "id         ap_q6w5r2ld3xk7ynca",
        "asks for   pay()",
        "requester  Lee R",
        "waits on   nobody",
        "since      4s",
        "due in     1h",
    ]


@pytest.mark.usefixtures("narrow")
def test_a_table_that_fits_a_narrow_terminal_stays_a_table() -> None:
    """Also if a long cell has to be wrapped, and if the table has no headings."""
    table = Table("id", "asks for")
    table.add_row(Text("ap_1"), Text("word " * 20))
    assert shown_lines(table)[0] == "id    asks for"
    facts = Table("", "")
    facts.add_row(Text("x" * 58), Text("a long text"))
    assert shown_lines(facts)[0].startswith("xxxx")
