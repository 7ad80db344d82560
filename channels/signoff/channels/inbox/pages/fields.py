"""The form of an approval on its page: turns fields into inputs, and inputs into values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

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
from signoff.core.base.dates import read_date
from signoff.core.base.errors import PayloadError
from signoff.core.cards.card import one_line
from signoff.core.payloads.payload import parse_values

_LONG: Final = 80
_PICKED: Final = frozenset({Input.BOOLEAN, Input.CHOICE})


@dataclass(frozen=True, slots=True)
class Control:
    """One input of the form.

    Attributes:
        id: Its id and its name.
        label: Its label.
        input: Its kind.
        text: Its value.
        required: Whether a person must fill it in.
        note: A note for the person, "" for none.
        options: The choices: the value, and the text to show.
        problem: The error of its value, "" for none.
    """

    id: str
    label: str
    input: Input
    text: str
    required: bool
    note: str
    options: tuple[tuple[str, str], ...] = ()
    problem: str = ""

    @property
    def lines(self) -> bool:
        """Whether it needs several lines."""
        return self.input is Input.JSON or len(self.text) > _LONG or "\n" in self.text


def controls(
    wanted: Sequence[Field], sent: Mapping[str, str], problems: Mapping[str, str]
) -> tuple[Control, ...]:
    """Return the inputs of a form.

    Args:
        wanted: The fields.
        sent: The values of a refused form, which are shown again; empty for a new form.
        problems: The errors of the refused form, by field.
    """
    return tuple(
        Control(
            id=field_id(at),
            label=one_line(field.name),
            input=field.input,
            text=plain_lines(sent[field_id(at)]) if field_id(at) in sent else _first(field),
            required=field.required,
            note=field.note,
            options=_options(field),
            problem=problems.get(field.name, ""),
        )
        for at, field in enumerate(wanted[:MOST_FIELDS])
    )


def read_values(wanted: Sequence[Field], sent: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return the values that a person entered, by field.

    Unchanged inputs are left out, so that these fields keep exactly their initial values.

    Raises:
        PayloadErrors: The errors by field. Nothing else is raised, whatever was sent.
    """
    return read_each(wanted, lambda field, name: _read(field, plain_lines(sent.get(name, ""))))


def _read(field: Field, text: str) -> tuple[JsonValue] | None:
    if field.first is not None and text == _first(field):
        return None
    if not text.strip():
        return _empty(field)
    match field.input:
        case Input.BOOLEAN | Input.CHOICE:
            return (chosen(field, text),)
        case Input.JSON:
            return (read_json(field, text),)
        case Input.DATE:
            if (day := read_date(text)) is None:
                raise _wanted(field, "takes a day, such as 2026-11-21", text)
            return (day.isoformat(),)
    return (parse_values({field.name: field.start}, {field.name: text})[field.name],)


def _empty(field: Field) -> tuple[JsonValue] | None:
    """Return the value of an empty input, in a tuple; None if the field is left out.

    Raises:
        PayloadError: The field is required, or its initial value was deleted.
    """
    if field.required:
        raise _wanted(field, "has to be filled in", "")
    return None if field.input in _PICKED else emptied(field)


def _wanted(field: Field, what: str, text: str) -> PayloadError:
    message = f'"{one_line(field.name)}" {what}.'
    return PayloadError(message, key=field.name, read=text[:40], example="")


def _first(field: Field) -> str:
    """Return the initial value of an input."""
    if field.first is None:
        return ""
    match field.input:
        case Input.BOOLEAN:
            return YES if field.first is True else NO
        case Input.CHOICE:
            at = place_of(field.first, field.choices)
            return "" if at is None else str(at)
    return plain_lines(value_text(field.first))


def _options(field: Field) -> tuple[tuple[str, str], ...]:
    match field.input:
        case Input.BOOLEAN:
            found = [(YES, "Yes"), (NO, "No")]
        case Input.CHOICE:
            found = [
                (str(at), one_line(value_text(one)) or "(empty)")
                for at, one in enumerate(field.choices)
            ]
        case _:
            return ()
    # A field without an initial value can be left empty again.
    none = [] if field.required or field.first is not None else [("", "(no answer)")]
    return (*none, *found)
