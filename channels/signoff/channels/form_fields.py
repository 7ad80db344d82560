"""The fields that a person fills in to approve, for every channel that has a form.

This module has the name, start value and choices of each field. The channel renders the fields and
reads what is sent back.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pydantic import JsonValue

from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval, Kind
from signoff.core.approvals.input.form import Form
from signoff.core.base.dates import is_iso_date
from signoff.core.base.errors import PayloadError
from signoff.core.base.numbers import json_text
from signoff.core.cards.card import one_line
from signoff.core.payloads.payload import LARGEST_NUMBER, fields_of, missing_fields

MOST_FIELDS: Final = 90
"""The most fields of a form: a modal of Slack holds 100 blocks, and Signoff needs some."""

YES: Final = "yes"
NO: Final = "no"
"""The choices of a boolean."""

_MOST_CHOICES: Final = 100


class Input(StrEnum):
    """The kinds of inputs."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    CHOICE = "choice"
    DATE = "date"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Field:
    """One field to fill.

    Attributes:
        name: Its name in the payload.
        input: The kind of its input.
        start: A value of the field's type, by which the input is read.
        required: Whether a person must fill it in.
        first: The initial value of the input, None for an empty input. A required field starts
            empty, because nobody has chosen a default such as 0.
        note: A note for the person.
        choices: The values to choose from.
    """

    name: str
    input: Input
    start: JsonValue
    required: bool
    first: JsonValue = None
    note: str = ""
    choices: tuple[JsonValue, ...] = ()


class PayloadErrors(Exception):
    """Some fields have invalid values: ``problems`` has the errors by name."""

    def __init__(self, problems: Mapping[str, PayloadError]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems.values()))
        self.problems = dict(problems)

    @property
    def first(self) -> PayloadError:
        """The first error, which the audit notes."""
        return next(iter(self.problems.values()))


def fields(approval: Approval) -> tuple[Field, ...]:
    """Return the fields that a person fills in to approve, in the order of the form.

    Fields with hidden values are left out and keep their values.
    """
    fixed = approval.fixed
    if approval.kind is Kind.INPUT:
        return tuple(one for one in _of_form(form_of(approval.call)) if one.name not in fixed)
    must = missing_fields(approval.template, None)
    return tuple(
        Field(
            name,
            _input_for(start),
            start,
            required=name in must,
            first=None if name in must else start,
        )
        for name, start in fields_of(approval.template).items()
        if name not in fixed
    )


def field_id(at: int) -> str:
    """Return the id of the input of the field at this position."""
    return f"field.{at}"


def value_text(value: JsonValue) -> str:
    """Return the text of a value in an input."""
    return value if isinstance(value, str) else json_text(value)


def plain_lines(text: str) -> str:
    """Return a text with uniform line ends; browsers send CRLF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def place_of(value: JsonValue, choices: Sequence[JsonValue]) -> int | None:
    """Return the position of a value among choices, None if it is not there."""
    return next(
        (at for at, one in enumerate(choices) if type(one) is type(value) and one == value), None
    )


def chosen(field: Field, value: str) -> JsonValue:
    """Return the chosen value: booleans by `YES` and `NO`, other choices by their position.

    Raises:
        PayloadError: There is no such choice.
    """
    if field.input is Input.BOOLEAN and value in {YES, NO}:
        return value == YES
    if (
        field.input is Input.CHOICE
        and value.isdecimal()
        and value.isascii()
        and len(value) <= 3
        and int(value) < len(field.choices)
    ):
        return field.choices[int(value)]
    message = f'"{one_line(field.name)}" has no such choice; choose one of those that are listed.'
    raise PayloadError(message, key=field.name, read=value[:40], example="")


def emptied(field: Field) -> tuple[JsonValue] | None:
    """Return the value of an optional input that a person left empty or emptied, in a tuple.

    None leaves the field out.

    Raises:
        PayloadError: The initial value was deleted, and the field cannot be empty.
    """
    if field.first is None:
        return None
    if field.input is Input.TEXT and isinstance(field.first, str):
        return ("",)
    # Leaving it out would restore the deleted value.
    message = f'"{one_line(field.name)}" was {value_text(field.first)[:40]}; enter a new value.'
    raise PayloadError(message, key=field.name, read="", example="")


def read_json(field: Field, text: str) -> JsonValue:
    """Return the object or list in a text.

    Raises:
        PayloadError: The text is not one.
    """
    wanted = list if isinstance(field.start, list) else dict
    example = "[]" if wanted is list else "{}"
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too large"
        message = f'"{one_line(field.name)}" takes JSON, and this is not JSON: {why}.'
        raise PayloadError(message, key=field.name, read=text[:40], example=example) from error
    if not isinstance(value, wanted):
        message = f'"{one_line(field.name)}" takes a JSON {"list" if wanted is list else "object"}.'
        raise PayloadError(message, key=field.name, read=text[:40], example=example)
    return value


def read_each(
    wanted: Sequence[Field], read: Callable[[Field, str], tuple[JsonValue] | None]
) -> dict[str, JsonValue]:
    """Return the values that a person filled in, by field; empty inputs are left out.

    `read` returns the value of the input with this id, None if it is empty.

    Raises:
        PayloadErrors: Some fields have invalid values.
    """
    values: dict[str, JsonValue] = {}
    problems: dict[str, PayloadError] = {}
    for at, field in enumerate(wanted[:MOST_FIELDS]):
        try:
            given = read(field, field_id(at))
        except PayloadError as error:
            problems[field.name] = error
            continue
        if given is not None:
            values[field.name] = given[0]
    if problems:
        raise PayloadErrors(problems)
    return values


def _of_form(form: Form) -> tuple[Field, ...]:
    found = []
    for name in (*form.shown, *form.optional):
        part = form.parts.get(name, {})
        start, first = form.fields[name], form.defaults.get(name)
        enum = part.get("enum")
        choices = tuple(enum) if isinstance(enum, list) and 0 < len(enum) <= _MOST_CHOICES else ()
        kind = Input.CHOICE if choices else _input_for(start)
        if kind is Input.TEXT and part.get("format") == "date":
            kind = Input.DATE
        required = name in form.required
        found.append(
            Field(
                name, kind, start, required, None if required else first, form.note(name), choices
            )
        )
    return tuple(found)


def _input_for(start: JsonValue) -> Input:
    match start:
        case bool():
            return Input.BOOLEAN
        case int() if abs(start) <= LARGEST_NUMBER:
            return Input.INTEGER
        case float():
            return Input.NUMBER
        case dict() | list():
            return Input.JSON
        case str() if is_iso_date(start):
            return Input.DATE
    return Input.TEXT
