"""The fields that a person fills in to approve, for every channel that has a form.

How a field looks, and what comes back of it, is the channel's; what it asks for, what it starts as
and what may be chosen stands here.
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
"""So many fields a form has at most: a modal of Slack holds 100 blocks, and some are ours."""

YES: Final = "yes"
NO: Final = "no"
"""What a boolean is chosen by."""

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
        input: The input that takes it.
        start: A value of its kind, which says what is to be read as what.
        required: Whether it has to be filled.
        first: What the input holds before anybody has touched it, None for nothing: a zero that
            nobody chose is not to be sent.
        note: What is to be known about it.
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
    """Some fields do not hold what is asked for: ``problems`` has them by name."""

    def __init__(self, problems: Mapping[str, PayloadError]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems.values()))
        self.problems = dict(problems)

    @property
    def first(self) -> PayloadError:
        """The first of them, which the audit notes."""
        return next(iter(self.problems.values()))


def fields(approval: Approval) -> tuple[Field, ...]:
    """Return what a person fills in to approve, in the order in which it is shown.

    What starts hidden stays as it is.
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
    """Return the id of the input of the field at this place."""
    return f"field.{at}"


def value_text(value: JsonValue) -> str:
    """Write a value as it stands in an input."""
    return value if isinstance(value, str) else json_text(value)


def place_of(value: JsonValue, choices: Sequence[JsonValue]) -> int | None:
    """Return at which place a value stands among choices, None where it does not."""
    return next(
        (at for at, one in enumerate(choices) if type(one) is type(value) and one == value), None
    )


def chosen(field: Field, value: str) -> JsonValue:
    """Return what was chosen: of a boolean by `YES` and `NO`, of choices by their places.

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


def read_json(field: Field, text: str) -> JsonValue:
    """Return the object or list that a text is.

    Raises:
        PayloadError: It is none.
    """
    wanted = list if isinstance(field.start, list) else dict
    example = "[]" if wanted is list else "{}"
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = error.msg if isinstance(error, json.JSONDecodeError) else "too deep or too large"
        message = f'"{one_line(field.name)}" takes JSON, and this is none: {why}.'
        raise PayloadError(message, key=field.name, read=text[:40], example=example) from error
    if not isinstance(value, wanted):
        message = f'"{one_line(field.name)}" takes a JSON {"list" if wanted is list else "object"}.'
        raise PayloadError(message, key=field.name, read=text[:40], example=example)
    return value


def read_each(
    wanted: Sequence[Field], read: Callable[[Field, str], tuple[JsonValue] | None]
) -> dict[str, JsonValue]:
    """Return what a person filled in, by field; what was left out is left out.

    Args:
        wanted: The fields, as the form was made from.
        read: Returns what the input with an id holds, None where that is nothing.

    Raises:
        PayloadErrors: By field, what is wrong.
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
