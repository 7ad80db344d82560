"""The form of an approval in a modal: turns fields into inputs, and inputs into values.

Slack's inputs: https://docs.slack.dev/reference/block-kit/block-elements.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
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

from signoff.channels.form_fields import (
    MOST_FIELDS,
    NO,
    YES,
    Field,
    Input,
    chosen,
    emptied,
    field_id,
    place_of,
    plain_lines,
    read_each,
    read_json,
    value_text,
)
from signoff.channels.slack.text import BUTTON, LABEL, clip, plain, units
from signoff.core.base.dates import is_iso_date
from signoff.core.base.errors import PayloadError
from signoff.core.cards.card import one_line
from signoff.core.payloads.payload import parse_values

VALUE: Final = "value"
"""The action id of every input."""

_LONGEST_INITIAL: Final = 3_000
_LONGEST_NUMBER: Final = 40
_HINT: Final = 2_000
_ROOM: Final = 40_000
"""The most bytes of the fields; Slack accepts modals of 250 kB, most of them for the call."""


def inputs(wanted: Sequence[Field]) -> list[InputBlock]:
    """Return an input block for each field; the block id identifies the field."""
    return [
        InputBlock(
            block_id=field_id(at),
            label=plain(one_line(field.name), LABEL),
            hint=plain(field.note, _HINT) if field.note else None,
            optional=not field.required,
            element=_element(field),
        )
        for at, field in enumerate(wanted[:MOST_FIELDS])
    ]


def fits(wanted: Sequence[Field]) -> bool:
    """Return whether a modal can show all fields: names, notes, choices and initial values."""
    texts = [(one.name, one.note, value_text(one.first)) for one in wanted]
    return (
        len(wanted) <= MOST_FIELDS
        and len(json.dumps(texts)) <= _ROOM
        and all(
            units(one_line(field.name)) <= LABEL
            and units(field.note) <= _HINT
            and all(units(one_line(value_text(one))) <= BUTTON for one in field.choices)
            and (field.first is None or units(value_text(field.first)) <= _LONGEST_INITIAL)
            for field in wanted
        )
    )


def read_values(wanted: Sequence[Field], state: Mapping[str, Any]) -> dict[str, JsonValue]:
    """Return the values that a person entered in ``view.state.values``, by field.

    Unchanged inputs are left out, so that these fields keep exactly their initial values.

    Raises:
        PayloadErrors: The errors by field. Nothing else is raised, whatever was sent.
    """
    return read_each(wanted, lambda field, name: _read(field, _at(_at(state, name), VALUE)))


def _element(field: Field) -> InputInteractiveElement:
    start = field.first
    match field.input:
        case Input.INTEGER | Input.NUMBER:
            return NumberInputElement(
                action_id=VALUE,
                is_decimal_allowed=field.input is Input.NUMBER,
                initial_value=None if start is None else value_text(start),
            )
        case Input.BOOLEAN:
            yes, no = _option(YES, "Yes"), _option(NO, "No")
            first = None if start is None else (yes if start else no)
            return RadioButtonsElement(action_id=VALUE, options=[yes, no], initial_option=first)
        case Input.CHOICE:
            options = [_option(str(at), value_text(one)) for at, one in enumerate(field.choices)]
            at = place_of(start, field.choices) if start is not None else None
            return StaticSelectElement(
                action_id=VALUE,
                options=options,
                initial_option=None if at is None else options[at],
            )
        case Input.DATE:
            day = start if isinstance(start, str) and is_iso_date(start) else None
            return DatePickerElement(action_id=VALUE, initial_date=day)
        case _:
            return _text_input(field, start)


def _text_input(field: Field, start: JsonValue) -> PlainTextInputElement:
    text = "" if start is None else value_text(start)
    fits = units(text) <= _LONGEST_INITIAL
    return PlainTextInputElement(
        action_id=VALUE,
        multiline=field.input is Input.JSON or "\n" in text,
        initial_value=text if text and fits else None,
    )


def _option(value: str, text: str) -> Option:
    return Option(value=value, text=plain(clip(one_line(text), BUTTON) or " "))


def _at(value: Any, key: str) -> Mapping[str, Any]:  # noqa: ANN401 -- unchecked JSON from a request
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, Mapping) else {}


def _read(field: Field, element: Mapping[str, Any]) -> tuple[JsonValue] | None:
    """Return the value of an input, in a tuple; None if it is unchanged, or left empty.

    Raises:
        PayloadError: The value does not have the type of the field.
    """
    if not element:
        return None  # the modal has no such input
    picks, text = field.input in {Input.BOOLEAN, Input.CHOICE}, _entered(field, element)
    if not picks and field.first is not None and text == plain_lines(value_text(field.first)):
        return None
    if not text.strip():
        return emptied(field)
    found: JsonValue
    match field.input:
        case Input.BOOLEAN | Input.CHOICE:
            found = chosen(field, text)
        case Input.DATE:
            found = text
        case Input.JSON:
            found = read_json(field, text)
        case Input.INTEGER | Input.NUMBER:
            found = _number(field, text.strip())
        case _:
            found = parse_values({field.name: field.start}, {field.name: text})[field.name]
    return (found,)


def _entered(field: Field, element: Mapping[str, Any]) -> str:
    """Return the text of an input, or the value of the chosen option; "" if it is empty."""
    match field.input:
        case Input.BOOLEAN | Input.CHOICE:
            value = _at(element, "selected_option").get("value")
        case Input.DATE:
            value = element.get("selected_date")
        case _:
            value = element.get("value")
    return plain_lines(value) if isinstance(value, str) else ""


def _number(field: Field, text: str) -> JsonValue:
    # Slack writes numbers with a decimal point, so "1.000" means one here, in every locale.
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
