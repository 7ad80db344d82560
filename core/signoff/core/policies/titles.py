"""Titles: what a policy calls the requests that it rules.

``Reimburse {args.amount:money EUR} for {args.purpose}`` is text with placeholders. A placeholder
names a fact of the call and, behind a colon, how it is written. There is nothing else: no
expressions, no conditions, no attributes of Python objects. Braces are written twice.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Annotated, Final

from pydantic import JsonValue

from signoff.core.base.dates import is_iso_date
from signoff.core.base.hiding import HIDDEN, Name, is_hidden
from signoff.core.base.model import held_to
from signoff.core.base.numbers import is_amount, is_currency, json_text, money_text, number_text
from signoff.core.base.shown_text import shown, unbroken, visible

LONGEST_TITLE: Final = 110
"""Characters of a title: most phones show the beginning of it, and Slack's header takes 150."""

MISSING: Final = "…"
"""Stands for an argument that is missing, empty or hidden."""

NAMES: Final = ("requester", "agent", "app", "tool")
"""What a placeholder can name besides ``args.…``."""

_LONGEST_TEMPLATE: Final = 300
_LONGEST_VALUE: Final = 60
_LOOKED_AT: Final = 600
"""Characters of an argument of which the beginning is shown."""
_EXAMPLE: Final = '"Reimburse {args.amount:money EUR} for {args.purpose}"'
_PART: Final = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_PATH: Final = re.compile(r"args((?:\.[A-Za-z_][A-Za-z0-9_-]*)+)")
_DAY: Final = re.compile(r"(\d{4}-\d{2}-\d{2})(?:[T ]\d{2}:\d{2}.*)?")


@dataclass(frozen=True, slots=True)
class Placeholder:
    """A fact of the call, and how it is written.

    Attributes:
        source: As it stands in the template, with its braces.
        name: ``requester``, ``agent``, ``app`` or ``tool``; "" for an argument.
        path: The keys that lead to the argument.
        form: ``money``, ``number``, ``date``, or "" for as it is.
        currency: For money: a code of three letters, or the path of the argument that has it.
    """

    source: str
    name: str = ""
    path: tuple[str, ...] = ()
    form: str = ""
    currency: str | tuple[str, ...] = ""


@lru_cache(maxsize=1024)
def parse_title(template: str) -> tuple[str | Placeholder, ...]:
    """Return a template as its texts and placeholders, in their order.

    Raises:
        ValueError: It is none; the message names the placeholder.
    """
    if len(template) > _LONGEST_TEMPLATE:
        raise ValueError(f"a title has at most {_LONGEST_TEMPLATE} characters")
    if visible(template) != template or "\n" in template or "\t" in template:
        raise ValueError("a title is one line of text that prints")
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
                f"the {text!r} at character {found.start() + 1} has no other half: a placeholder "
                "is written {args.amount}, and a brace is written twice"
            )
        else:
            parts.append(_placeholder(text))
    parts.append(template[done:])
    return tuple(one for one in parts if one)


def read_currency(text: str) -> str | tuple[str, ...]:
    """Return the code of a currency, or the path of the argument that has it.

    Raises:
        ValueError: It is neither.
    """
    if path := _PATH.fullmatch(text):
        return tuple(path[1][1:].split("."))
    if is_currency(text):
        return text.upper()
    raise ValueError(
        f"{text!r} is no currency: write its code, EUR, or the argument that has it, args.currency"
    )


def check_title(template: str, hide: Sequence[str] = ()) -> None:
    """Refuse a title that can never be written, or that shows what is hidden.

    Raises:
        ValueError: It is one; the message names the placeholder.
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
    """Return the title of a call: one line, with nothing hidden in it, of at most `LONGEST_TITLE`.

    Never raises for what a call has: an argument that is missing, empty or hidden is shown as "…",
    and one that its format does not fit is shown as it is.

    Args:
        template: As in the settings.
        args: The arguments, without what is hidden.
        names: What the other placeholders stand for; see `NAMES`.
        in_use: The scripts of the request; see `signoff.core.base.lookalikes.scripts_in_use`.

    Returns:
        The title, "" where there is no template, or nothing that it names is there.
    """
    try:
        parts = parse_title(template)
    except ValueError:
        # Of a record that another release has written.
        return ""
    texts = [one if isinstance(one, str) else _written(one, args, names, in_use) for one in parts]
    written = [text for one, text in zip(parts, texts, strict=True) if isinstance(one, Placeholder)]
    if written and all(text == MISSING for text in written):
        return ""
    # Once more as a whole: letters of two parts may make up a word that pretends to be another.
    return shortened_line(unbroken(shown("".join(texts), in_use)), LONGEST_TITLE)


def shortened_line(text: str, most: int) -> str:
    """Return a line of at most so many characters; what was cut ends in an ellipsis."""
    return text if len(text) <= most else f"{text[: most - 1].rstrip()}…"


def literals(template: str) -> tuple[str, ...]:
    """Return the texts of a template between its placeholders; none where it cannot be read."""
    try:
        return tuple(one for one in parse_title(template) if isinstance(one, str))
    except ValueError:
        return ()


def _placeholder(source: str) -> Placeholder:
    name, colon, form = source[1:-1].partition(":")
    path = _PATH.fullmatch(name)
    if path is None and name not in NAMES:
        raise ValueError(
            f"{source} names nothing of a call. There are args.NAME, {', '.join(NAMES)}, as in "
            f"{_EXAMPLE}"
        )
    kind, _, currency = form.partition(" ")
    if colon and kind not in {"money", "number", "date"}:
        raise ValueError(f"{source} has no such format: there are money EUR, number and date")
    if kind != "money" and currency:
        raise ValueError(f"{source}: {kind} takes nothing behind it")
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
    whole = written if isinstance(written, str) else json_text(written)
    text = unbroken(shown(whole[:_LOOKED_AT], in_use))
    return shortened_line(text, _LONGEST_VALUE) or MISSING


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
    """Write a number with its thousands grouped: 12,500.5."""
    units, point, decimals = number_text(value).partition(".")
    sign, digits = units[: units.startswith("-")], units.removeprefix("-")
    return f"{sign}{int(digits):,}{point}{decimals}" if digits.isdigit() else number_text(value)


def currency_of(currency: str | tuple[str, ...], args: Mapping[str, JsonValue]) -> str:
    """Return the code of a currency; "" where the argument that should have it has none."""
    if isinstance(currency, str):
        return currency
    value = value_at(args, currency)
    return value.upper() if isinstance(value, str) and is_currency(value) else ""


def value_at(args: Mapping[str, JsonValue], path: Sequence[str]) -> JsonValue:
    """Return the argument at a path, None where there is none."""
    found: JsonValue = dict(args)
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


Title = Annotated[str, held_to(parse_title)]
Money = dict[Name, Annotated[str, held_to(read_currency)]]
"""The arguments that are amounts, by name or path, each with its currency."""
