"""Finds the line of a setting in a TOML file, and writes values of TOML."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Path = tuple[int | str, ...]


def line_of(text: str, loc: Path) -> int | None:
    """Return the line (from 1) of a setting, or of the closest table around it.

    The setting is a path in a TOML document that parses: ``("policies", 0, "within")``. It looks
    for headers, and for keys at the start of lines. A key in an inline table gets the line of the
    table.
    """
    best, depth = None, 0
    for number, path in _paths(text):
        if len(path) > depth and path == loc[: len(path)]:
            best, depth = number, len(path)
    return best


def _paths(text: str) -> Iterator[tuple[int, Path]]:
    """Yield the line and the path of each header and key."""
    table: Path = ()
    counts: dict[tuple[str, ...], int] = {}
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if line.startswith("["):
            many = line.startswith("[[")
            names = _names(line.lstrip("[").partition("]")[0])
            if many:
                counts[names] = counts.get(names, -1) + 1
            table = _indexed(names, counts)
            yield number, table
        elif "=" in line and not line.startswith("#"):
            yield number, (*table, *_names(line.partition("=")[0]))


def _indexed(names: tuple[str, ...], counts: dict[tuple[str, ...], int]) -> Path:
    path: list[int | str] = []
    for end, name in enumerate(names, start=1):
        path.append(name)
        if names[:end] in counts:
            path.append(counts[names[:end]])
    return tuple(path)


def _names(text: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in text.split("."))


def toml_text(value: Any) -> str:  # noqa: ANN401 -- any JSON
    """Return a value as TOML: as in JSON, which need not escape one control character."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
