"""The form of an approval on its page: its inputs, and back into values."""

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
    field_id,
    place_of,
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
    """One input of the form, as the page draws it.

    Attributes:
        id: Its id and its name.
        label: What it is called.
        input: Of what kind it is.
        text: What it holds.
        required: Whether it has to be filled.
        note: What is to be known about it, "" for nothing.
        options: What can be chosen: the value, and what is shown.
        problem: What is wrong with what it holds, "" for nothing.
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
        """Whether it takes more than one line."""
        return self.input is Input.JSON or len(self.text) > _LONG or "\n" in self.text


def controls(
    wanted: Sequence[Field], sent: Mapping[str, str], problems: Mapping[str, str]
) -> tuple[Control, ...]:
    """Return the inputs.

    Args:
        wanted: The fields.
        sent: What was sent before, and is shown again; empty where nothing was.
        problems: What is wrong with it, by the names of the fields.
    """
    return tuple(
        Control(
            id=field_id(at),
            label=one_line(field.name),
            input=field.input,
            text=_plain(sent[field_id(at)]) if field_id(at) in sent else _first(field),
            required=field.required,
            note=field.note,
            options=_options(field),
            problem=problems.get(field.name, ""),
        )
        for at, field in enumerate(wanted[:MOST_FIELDS])
    )


def read_values(wanted: Sequence[Field], sent: Mapping[str, str]) -> dict[str, JsonValue]:
    """Return what a person filled in, by field.

    What nobody has touched is left out: it then is exactly what the field started as, however that
    would read.

    Args:
        wanted: The fields, as the form was made from.
        sent: The form.

    Raises:
        PayloadErrors: By field, what is wrong; nothing else is raised, whatever was sent.
    """
    return read_each(wanted, lambda field, name: _read(field, _plain(sent.get(name, ""))))


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
    """Return what a field means in which nothing stands.

    Raises:
        PayloadError: It has to be filled, or had something that was taken away.
    """
    if field.required:
        raise _wanted(field, "has to be filled in", "")
    if field.first is None or field.input in _PICKED:
        return None
    if field.input is Input.TEXT and isinstance(field.first, str):
        return ("",)
    # To leave it out would bring back what was taken away.
    raise _wanted(field, f"was {_first(field)[:40]}; write what it shall be", "")


def _wanted(field: Field, what: str, text: str) -> PayloadError:
    message = f'"{one_line(field.name)}" {what}.'
    return PayloadError(message, key=field.name, read=text[:40], example="")


def _first(field: Field) -> str:
    """Return what an input holds before anybody has touched it."""
    if field.first is None:
        return ""
    match field.input:
        case Input.BOOLEAN:
            return YES if field.first is True else NO
        case Input.CHOICE:
            at = place_of(field.first, field.choices)
            return "" if at is None else str(at)
    return _plain(value_text(field.first))


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
    # What starts as nothing can go back to nothing.
    none = [] if field.required or field.first is not None else [("", "(no answer)")]
    return (*none, *found)


def _plain(text: str) -> str:
    """Return text with the line ends that browsers send as one kind."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
