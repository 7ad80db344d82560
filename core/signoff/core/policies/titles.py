"""Titles of requests, from the templates of policies.

``Reimburse {args.amount:money EUR} for {args.purpose}`` is text with placeholders. A placeholder
names a fact of the call and, after a colon, its format. There are no expressions, conditions or
attributes of Python objects. A literal brace is doubled.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Annotated, Final, NamedTuple

from pydantic import JsonValue

from signoff.core.base.dates import is_iso_date
from signoff.core.base.hiding import HIDDEN, Name, is_hidden
from signoff.core.base.model import checked_by
from signoff.core.base.numbers import is_amount, is_currency, json_text, money_text, number_text
from signoff.core.base.shown_text import shown, shown_value, unbroken, visible

LONGEST_TITLE: Final = 110
"""The most characters of a title; Slack's header takes 150, and phones show fewer."""

MISSING: Final = "…"
"""The replacement for an argument that is missing, empty or hidden."""

NAMES: Final = ("requester", "agent", "app", "tool")
"""The names of placeholders besides ``args.…``."""

_LONGEST_TEMPLATE: Final = 300
_LONGEST_VALUE: Final = 60
_LOOKED_AT: Final = 600
"""The most characters of an argument that are prepared for the title."""
_EXAMPLE: Final = '"Reimburse {args.amount:money EUR} for {args.purpose}"'
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH: Final = re.compile(r"args((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)")
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")


class Placeholder(NamedTuple):
    """A placeholder: a fact of the call and its format.

    Attributes:
        source: Its text in the template, with the braces.
        name: ``requester``, ``agent``, ``app`` or ``tool``; "" for an argument.
        path: The keys that lead to the argument.
        form: ``money``, ``number``, ``date``, or "" for no format.
        currency: For money: the code of the currency, or the path of the argument that has it.
    """

    source: str
    name: str = ""
    path: tuple[str, ...] = ()
    form: str = ""
    currency: str | tuple[str, ...] = ""


@lru_cache(maxsize=1024)
def parse_title(template: str) -> tuple[str | Placeholder, ...]:
    """Return the texts and placeholders of a template, in order.

    Raises:
        ValueError: The template is invalid; the message names the placeholder.
    """
    if len(template) > _LONGEST_TEMPLATE:
        raise ValueError(f"a title has at most {_LONGEST_TEMPLATE} characters")
    if visible(template) != template or "\n" in template or "\t" in template:
        raise ValueError("a title is one line of printable text")
    parts: list[str | Placeholder] = []
    done = 0
    for found in _PART.finditer(template):
        parts.append(template[done : found.start()])
        done = found.end()
        text = found.group()
        if text in {"{{", "}}"}:
            parts.append(text[0])
        elif len(text) == 1:
            raise ValueError(
                f"the {text!r} at character {found.start() + 1} is unpaired: write a placeholder "
                "as {args.amount}, and a literal brace twice"
            )
        else:
            parts.append(_placeholder(text))
    parts.append(template[done:])
    return tuple(one for one in parts if one)


def read_currency(text: str) -> str | tuple[str, ...]:
    """Return the code of a currency, or the path of the argument that has it.

    Raises:
        ValueError: The text is neither.
    """
    if path := _PATH.fullmatch(text):
        return tuple(path[1][1:].split("."))
    if is_currency(text):
        return text.upper()
    raise ValueError(
        f"{text!r} is not a currency: write its code, EUR, or the argument with it, args.currency"
    )


def check_title(template: str, hide: Sequence[str]) -> None:
    """Refuse a title that is invalid or shows a hidden argument.

    Raises:
        ValueError: The title is refused; the message names the placeholder.
    """
    for one in parse_title(template):
        if isinstance(one, str):
            continue
        currency = one.currency if isinstance(one.currency, tuple) else ()
        if any(path and is_hidden(path, hide) for path in (one.path, currency)):
            raise ValueError(
                f"{one.source} shows an argument that `hide` hides: take one of them out"
            )


def title_of(
    template: str,
    args: Mapping[str, JsonValue],
    names: Mapping[str, str],
    in_use: frozenset[str] = frozenset(),
) -> str:
    """Return the title of a call: one line of at most `LONGEST_TITLE` characters.

    This never raises. An argument that is missing, empty or hidden is shown as "…", and one that
    does not fit its format is shown without it.

    Args:
        template: The template of the policy.
        args: The arguments, with hidden values masked.
        names: The values of the other placeholders; see `NAMES`.
        in_use: The scripts of the request; see `signoff.core.base.lookalikes.scripts_in_use`.

    Returns:
        The title, "" if there is no template or all its placeholders are missing.
    """
    try:
        parts = parse_title(template)
    except ValueError:
        # Another release has written the record.
        return ""
    texts = [one if isinstance(one, str) else _written(one, args, names, in_use) for one in parts]
    written = [text for one, text in zip(parts, texts, strict=True) if isinstance(one, Placeholder)]
    if written and all(text == MISSING for text in written):
        return ""
    # Escaped again as a whole, because letters of two parts may form a lookalike word.
    return shortened_line(unbroken(shown("".join(texts), in_use)), LONGEST_TITLE)


def shortened_line(text: str, most: int) -> str:
    """Return a line of at most so many characters; a shortened line ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def literals(template: str) -> tuple[str, ...]:
    """Return the texts of a template between its placeholders, empty if it is invalid."""
    try:
        return tuple(one for one in parse_title(template) if isinstance(one, str))
    except ValueError:
        return ()


def _placeholder(source: str) -> Placeholder:
    name, colon, form = source[1:-1].partition(":")
    path = _PATH.fullmatch(name)
    if path is None and name not in NAMES:
        raise ValueError(
            f"{source} is not a fact of a call. There are args.NAME, {', '.join(NAMES)}, as in "
            f"{_EXAMPLE}"
        )
    kind, _, currency = form.partition(" ")
    if colon and kind not in {"money", "number", "date"}:
        raise ValueError(f"{source} has an unknown format: there are money EUR, number and date")
    if kind != "money" and currency:
        raise ValueError(f"{source}: nothing may follow {kind}")
    if path is None and colon:
        raise ValueError(f"{source}: only arguments have a format")
    keys = tuple(path[1][1:].split(".")) if path else ()
    if kind != "money":
        return Placeholder(source, "" if path else name, keys, kind)
    try:
        return Placeholder(source, "", keys, kind, read_currency(currency))
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _written(
    one: Placeholder,
    args: Mapping[str, JsonValue],
    names: Mapping[str, str],
    in_use: frozenset[str],
) -> str:
    value = names.get(one.name, "") if one.name else value_at(args, one.path)
    if value is None or value == HIDDEN or (isinstance(value, str) and not value.strip()):
        return MISSING
    written = _formatted(one, value, args)
    if isinstance(written, str):
        text = shown_value(written[:_LOOKED_AT], in_use)
    else:
        text = shown(json_text(written)[:_LOOKED_AT], in_use)
    return shortened_line(unbroken(text), _LONGEST_VALUE) or MISSING


def _formatted(one: Placeholder, value: JsonValue, args: Mapping[str, JsonValue]) -> JsonValue:
    match one.form:
        case "money" if is_amount(value):
            currency = currency_of(one.currency, args)
            return money_text(value, currency) if currency else value
        case "number" if isinstance(value, int | float) and not isinstance(value, bool):
            return grouped(value)
        case "date" if isinstance(value, str) and (found := _DAY.fullmatch(value)):
            return _day(found[1]) if is_iso_date(found[1]) else value
    return value


def _day(text: str) -> str:
    day = date.fromisoformat(text)
    return f"{day.day} {day:%b} {day.year}"


def grouped(value: float) -> str:
    """Return a number with thousands separators: 12,500.5."""
    units, point, decimals = number_text(value).partition(".")
    sign, digits = units[: units.startswith("-")], units.removeprefix("-")
    return f"{sign}{int(digits):,}{point}{decimals}" if digits.isdigit() else number_text(value)


def currency_of(currency: str | tuple[str, ...], args: Mapping[str, JsonValue]) -> str:
    """Return the code of a currency, "" if the argument that should have it has none."""
    if isinstance(currency, str):
        return currency
    value = value_at(args, currency)
    return value.upper() if isinstance(value, str) and is_currency(value) else ""


def value_at(args: Mapping[str, JsonValue], path: Sequence[str]) -> JsonValue:
    """Return the argument at a path, None if there is none."""
    found: JsonValue = dict(args)
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


Title = Annotated[str, checked_by(parse_title)]
Money = dict[Name, Annotated[str, checked_by(read_currency)]]
"""The arguments that are amounts, by name or path, each with its currency."""
