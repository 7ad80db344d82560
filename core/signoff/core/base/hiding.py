"""Values that a policy hides from people: by the names under which they stand.

A name hides every argument, field or key of that name, however deep it stands; a path such as
``customer.iban`` hides the `iban` inside each `customer`, also where `customer` is a list. Case,
spaces, hyphens and underscores do not matter: hiding too much harms less than hiding too little.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

from pydantic import AfterValidator, Field, JsonValue

HIDDEN: Final = "hidden by policy"
"""Stands in the place of a value that a policy hides."""

_SHORTEST_SECRET: Final = 6
_ABOUT_VALUES: Final = frozenset({"default", "example", "examples", "const"})
"""What of a JSON schema holds values of the property that it describes."""


def _checked_name(name: str) -> str:
    if not all(map(_folded, name.split("."))):
        raise ValueError(f'{name!r} is no name of an argument: write "iban" or "customer.iban"')
    if "args" in name.split(".")[:1] and "." in name:
        raise ValueError(f"{name!r} begins with args: write {name.partition('.')[2]!r}")
    return name


Name = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked_name)]
"""The name of an argument or a field, or the path to it."""

Hidden = tuple[Name, ...]
"""Names and paths of what is hidden."""


def is_named(path: Sequence[str], names: Sequence[str]) -> bool:
    """Say whether one of some names or paths means what stands at a path."""
    here = ".".join(map(_folded, path))
    wanted = (".".join(map(_folded, one.split("."))) for one in names)
    return any(here == one or here.endswith(f".{one}") for one in wanted)


def is_hidden(path: Sequence[str], hide: Sequence[str]) -> bool:
    """Say whether what stands at a path is hidden, by its own name or with what it is part of."""
    return any(is_named(path[:end], hide) for end in range(1, len(path) + 1))


def without_hidden(
    values: Mapping[str, JsonValue], hide: Sequence[str], *, blanks: bool = True
) -> dict[str, JsonValue]:
    """Return values with `HIDDEN` in the place of what is hidden.

    Args:
        values: Arguments, or the values of fields.
        hide: Names and paths.
        blanks: Whether empty values are hidden, too. Of a field that a person has to fill, the
            emptiness says nothing, and its kind has to be known.
    """
    if not hide:
        return dict(values)
    return {name: _masked((name,), one, hide, blanks=blanks) for name, one in values.items()}


def having_hidden(
    values: Mapping[str, JsonValue], hide: Sequence[str], *, blanks: bool = True
) -> frozenset[str]:
    """Return the names of the values that are hidden, or have something hidden inside.

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
    """Return JSON text without what is hidden in it; any other text as it is."""
    if not hide or not text.lstrip().startswith(("{", "[")):
        return text
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return text
    masked = _masked((), value, hide, blanks=True)
    return text if masked == value else json.dumps(masked, ensure_ascii=False)


def schema_without_hidden(schema: JsonValue, hide: Sequence[str]) -> JsonValue:
    """Return a JSON schema without the defaults and examples of the properties that are hidden."""
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
    """Return the hidden texts that can be told apart from other words, the longest first."""
    found = {one for one in _hidden_in((), values, hide) if len(one) >= _SHORTEST_SECRET}
    found.discard(HIDDEN)
    return tuple(sorted(found, key=lambda one: (-len(one), one)))


def without_secrets(text: str, secrets: Sequence[str]) -> str:
    """Return text in which no hidden value is repeated as it is."""
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
