"""The form of an approval in a modal: one input for each field, and back into values.

Slack's inputs: https://docs.slack.dev/reference/block-kit/block-elements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue
from slack_sdk.models.blocks import (
    DatePickerElement,
    InputBlock,
    InputInteractiveElement,
    NumberInputElement,
    Option,
    PlainTextInputElement,
    RadioButtonsElement,
    StaticSelectElement,
)

from signoff.channels.slack.text import BUTTON, LABEL, clip, plain, units
from signoff.core.answering import form_of
from signoff.core.approval import Approval, Kind
from signoff.core.card import one_line
from signoff.core.errors import PayloadError
from signoff.core.inputs import Form
from signoff.core.payload import LARGEST_NUMBER, fields_of, missing_fields, parse_values

VALUE: Final = "value"
"""The action id of every input."""

MOST_FIELDS: Final = 90
"""A modal holds 100 blocks; some are ours."""

_MOST_CHOICES: Final = 100
_LONGEST_INITIAL: Final = 3_000
_LONGEST_NUMBER: Final = 40
_HINT: Final = 300
_FALSE: Final = "no"
_TRUE: Final = "yes"


class Input(StrEnum):
    """The inputs we use."""

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
        start: What it starts as; of no meaning where it is required.
        required: Whether it has to be filled.
        note: What is to be known about it.
        choices: The values to choose from.
    """

    name: str
    input: Input
    start: JsonValue
    required: bool
    note: str = ""
    choices: tuple[JsonValue, ...] = ()


def fields(approval: Approval) -> tuple[Field, ...]:
    """Return what a person fills in to approve, in the order in which it is shown."""
    if approval.kind is Kind.INPUT:
        return _of_form(form_of(approval.call))
    must = missing_fields(approval.template, None)
    return tuple(
        Field(name, _input_for(start), start, required=name in must)
        for name, start in fields_of(approval.template).items()
    )


def inputs(wanted: Sequence[Field]) -> list[InputBlock]:
    """Return an input block for each field; its block id says which field it is."""
    return [
        InputBlock(
            block_id=block_id(at),
            label=plain(one_line(field.name), LABEL),
            hint=plain(field.note, _HINT) if field.note else None,
            optional=not field.required,
            element=_element(field),
        )
        for at, field in enumerate(wanted[:MOST_FIELDS])
    ]


def block_id(at: int) -> str:
    """Return the id of the input block of the field at this place."""
    return f"field.{at}"


def read_values(wanted: Sequence[Field], state: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return what a person filled in, by field; fields that were left empty are left out.

    Args:
        wanted: The fields, as the modal was made from.
        state: ``view.state.values`` of the submission.

    Raises:
        PayloadErrors: By field, what is wrong; nothing else is raised, whatever was sent.
    """
    values: dict[str, JsonValue] = {}
    problems: dict[str, PayloadError] = {}
    for at, field in enumerate(wanted[:MOST_FIELDS]):
        element = _at(_at(state, block_id(at)), VALUE)
        try:
            given = _read(field, element)
        except PayloadError as error:
            problems[field.name] = error
            continue
        if given is not None:
            values[field.name] = given[0]
    if problems:
        raise PayloadErrors(problems)
    return values


class PayloadErrors(Exception):
    """Some fields do not hold what is asked for: ``problems`` has them by name."""

    def __init__(self, problems: Mapping[str, PayloadError]) -> None:
        super().__init__("; ".join(str(problem) for problem in problems.values()))
        self.problems = dict(problems)


def _of_form(form: Form) -> tuple[Field, ...]:
    found = []
    for name in (*form.shown, *form.optional):
        part = form.parts.get(name, {})
        start = form.fields[name]
        enum = part.get("enum")
        choices = tuple(enum) if isinstance(enum, list) and 0 < len(enum) <= _MOST_CHOICES else ()
        kind = Input.CHOICE if choices else _input_for(start)
        if kind is Input.TEXT and part.get("format") == "date":
            kind = Input.DATE
        required = name in form.required
        found.append(Field(name, kind, start, required, form.note(name), choices))
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
    return Input.TEXT


def _element(field: Field) -> InputInteractiveElement:
    # What a required field starts as is a zero that nobody chose: the input stays empty.
    start = None if field.required else field.start
    match field.input:
        case Input.INTEGER | Input.NUMBER:
            return NumberInputElement(
                action_id=VALUE,
                is_decimal_allowed=field.input is Input.NUMBER,
                initial_value=None if start is None else json.dumps(start),
            )
        case Input.BOOLEAN:
            yes, no = _option(_TRUE, "Yes"), _option(_FALSE, "No")
            first = None if start is None else (yes if start else no)
            return RadioButtonsElement(action_id=VALUE, options=[yes, no], initial_option=first)
        case Input.CHOICE:
            options = [_option(str(at), _shown(one)) for at, one in enumerate(field.choices)]
            at = _place(start, field.choices) if start is not None else None
            return StaticSelectElement(
                action_id=VALUE,
                options=options,
                initial_option=None if at is None else options[at],
            )
        case Input.DATE:
            chosen = start if isinstance(start, str) and _is_date(start) else None
            return DatePickerElement(action_id=VALUE, initial_date=chosen)
        case _:
            return _text_input(field, start)


def _text_input(field: Field, start: JsonValue) -> PlainTextInputElement:
    text = "" if start is None else _shown(start)
    fits = units(text) <= _LONGEST_INITIAL
    return PlainTextInputElement(
        action_id=VALUE,
        multiline=field.input is Input.JSON or "\n" in text,
        initial_value=text if text and fits else None,
    )


def _option(value: str, text: str) -> Option:
    return Option(value=value, text=plain(clip(one_line(text), BUTTON) or " "))


def _shown(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _place(value: JsonValue, choices: Sequence[JsonValue]) -> int | None:
    return next(
        (at for at, one in enumerate(choices) if type(one) is type(value) and one == value), None
    )


def _is_date(text: str) -> bool:
    parts = text.split("-")
    return [len(part) for part in parts] == [4, 2, 2] and all(part.isdigit() for part in parts)


def _at(value: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 -- whatever Slack, or somebody else, sent
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _read(field: Field, element: Mapping[str, Any]) -> tuple[JsonValue] | None:
    """Return what an input holds; None where it was left empty.

    Raises:
        PayloadError: It is not of the field's kind.
    """
    match field.input:
        case Input.BOOLEAN | Input.CHOICE:
            chosen = _at(element, "selected_option").get("value")
            return None if chosen is None else _chosen(field, str(chosen))
        case Input.DATE:
            day = element.get("selected_date")
            return (day,) if isinstance(day, str) and day else None
    text = element.get("value")
    if not isinstance(text, str) or not text.strip():
        return None
    if field.input is Input.JSON:
        return (_json(field, text),)
    if field.input in {Input.INTEGER, Input.NUMBER}:
        return (_number(field, text.strip()),)
    return (parse_values({field.name: field.start}, {field.name: text})[field.name],)


def _chosen(field: Field, value: str) -> tuple[JsonValue]:
    if field.input is Input.BOOLEAN and value in {_TRUE, _FALSE}:
        return (value == _TRUE,)
    if (
        value.isdecimal()
        and value.isascii()
        and len(value) <= 3
        and int(value) < len(field.choices)
    ):
        return (field.choices[int(value)],)
    message = f'"{one_line(field.name)}" has no such choice; choose one of those that are listed.'
    raise PayloadError(message, key=field.name, read=value[:40], example="")


def _number(field: Field, text: str) -> JsonValue:
    # Slack writes every number with a decimal point, so "1.000" is one here, for all readers.
    whole = field.input is Input.INTEGER
    value = _number_of(text, whole=whole)
    if value is None:
        kind = "a whole number" if whole else "a number"
        message = f'"{one_line(field.name)}" takes {kind}, such as {"3" if whole else "2.5"}.'
        raise PayloadError(message, key=field.name, read=text[:40], example="3")
    return value


def _number_of(text: str, *, whole: bool) -> int | float | None:
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        value = int(text) if whole else float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _json(field: Field, text: str) -> JsonValue:
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
