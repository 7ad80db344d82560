"""Hides values from people, by the names of arguments and fields.

A name hides every argument, field or key with that name, at any depth. A path such as
``customer.iban`` hides the `iban` inside each `customer`, even if `customer` is a list. Case,
spaces, hyphens and underscores are ignored, because hiding too much does less harm than hiding too
little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

HIDDEN: Final = "hidden by policy"
"""The replacement for a hidden value."""

_SHORTEST_SECRET: Final = 6
_ABOUT_VALUES: Final = frozenset({"default", "example", "examples", "const"})
"""The keywords of a JSON schema that contain values of the property."""


def _checked_name(name: str) -> str:
    if not all(map(_folded, name.split("."))):
        raise ValueError(
            f'{name!r} is not the name of an argument: write "iban" or "customer.iban"'
        )
    if "args" in name.split(".")[:1] and "." in name:
        raise ValueError(f"{name!r} begins with args: write {name.partition('.')[2]!r}")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked_name)]
"""The name of an argument or a field, or the path to it."""

Hidden = tuple[Name, ...]
"""The names and paths of hidden values."""


def is_named(path: Sequence[str], names: Sequence[str]) -> bool:
    """Say whether one of these names or paths means the value at a path."""
    here = ".".join(map(_folded, path))
    wanted = (".".join(map(_folded, one.split("."))) for one in names)
    return any(here == one or here.endswith(f".{one}") for one in wanted)


def is_hidden(path: Sequence[str], hide: Sequence[str]) -> bool:
    """Say whether the value at a path is hidden, or is part of a hidden value."""
    return any(is_named(path[:end], hide) for end in range(1, len(path) + 1))


def without_hidden(
    values: Mapping[str, JsonValue], hide: Sequence[str], *, blanks: bool = True
) -> dict[str, JsonValue]:
    """Return values with `HIDDEN` in place of each hidden value.

    Args:
        values: Arguments, or the values of fields.
        hide: Names and paths.
        blanks: Whether empty values are hidden, too. The empty value of a field that a person has
            to fill reveals nothing, and its type must be visible.
    """
    if not hide:
        return dict(values)
    return {name: _masked((name,), one, hide, blanks=blanks) for name, one in values.items()}


def having_hidden(
    values: Mapping[str, JsonValue], hide: Sequence[str], *, blanks: bool = True
) -> frozenset[str]:
    """Return the names of the values that are hidden or contain a hidden value.

    Args:
        values: Arguments, or the values of fields.
        hide: Names and paths.
        blanks: Whether empty values count; see `without_hidden`.
    """
    if not hide:
        return frozenset()
    return frozenset(
        name for name, one in values.items() if _has_hidden((name,), one, hide, blanks=blanks)
    )


def without_hidden_text(text: str, hide: Sequence[str]) -> str:
    """Return JSON text without hidden values; any other text is returned unchanged."""
    if not hide or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    masked = _masked((), value, hide, blanks=True)
    return text if masked == value else json.dumps(masked, ensure_ascii=False)


def schema_without_hidden(schema: JsonValue, hide: Sequence[str]) -> JsonValue:
    """Return a JSON schema without defaults and examples of hidden properties."""
    if not hide:
        return schema
    match schema:
        case list():
            return [schema_without_hidden(one, hide) for one in schema]
        case dict():
            return {
                name: {key: _described(key, one, hide) for key, one in part.items()}
                if name in {"properties", "$defs"} and isinstance(part, dict)
                else schema_without_hidden(part, hide)
                for name, part in schema.items()
            }
    return schema


def secrets_in(values: JsonValue, hide: Sequence[str]) -> tuple[str, ...]:
    """Return the hidden texts that are long enough to be recognised, the longest first."""
    if not hide:
        return ()
    found = {one for one in _hidden_in((), values, hide) if len(one) >= _SHORTEST_SECRET}
    found.discard(HIDDEN)
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return text with a placeholder in place of each literal copy of a hidden text."""
    for one in secrets:
        text = text.replace(one, f"[{HIDDEN}]")
    return text


def _described(name: str, schema: JsonValue, hide: Sequence[str]) -> JsonValue:
    if isinstance(schema, dict) and is_hidden((name,), hide):
        schema = {key: one for key, one in schema.items() if key not in _ABOUT_VALUES}
    return schema_without_hidden(schema, hide)


def _masked(
    path: tuple[str, ...], value: JsonValue, hide: Sequence[str], *, blanks: bool
) -> JsonValue:
    if path and is_named(path, hide):
        return HIDDEN if blanks or not _is_blank(value) else value
    match value:
        case dict():
            return {
                name: _masked((*path, name), one, hide, blanks=blanks)
                for name, one in value.items()
            }
        case list():
            return [_masked(path, one, hide, blanks=blanks) for one in value]
    return value


def _has_hidden(
    path: tuple[str, ...], value: JsonValue, hide: Sequence[str], *, blanks: bool
) -> bool:
    if is_named(path, hide):
        return blanks or not _is_blank(value)
    match value:
        case dict():
            return any(
                _has_hidden((*path, name), one, hide, blanks=blanks) for name, one in value.items()
            )
        case list():
            return any(_has_hidden(path, one, hide, blanks=blanks) for one in value)
    return False


def _is_blank(value: JsonValue) -> bool:
    return not isinstance(value, bool | dict | list) and not value


def _hidden_in(path: tuple[str, ...], value: JsonValue, hide: Sequence[str]) -> Iterator[str]:
    inside = bool(path) and is_hidden(path, hide)
    match value:
        case dict():
            for name, one in value.items():
                yield from _hidden_in((*path, name), one, hide)
        case list():
            for one in value:
                yield from _hidden_in(path, one, hide)
        case str() if inside:
            yield value
        case int() | float() if inside and not isinstance(value, bool):
            yield str(value)


def _folded(name: str) -> str:
    return "".join(mark for mark in name.casefold() if mark not in " -_")
