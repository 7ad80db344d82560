"""A request for input: the JSON schema of its answer, as a form that a person can fill in a mail.

A workflow asks with ``RequestInput(message=…, response_schema=…)``. The form gives the fields the
shape of a payload template (see `signoff.core.payloads.payload`), so that the same words fill both,
and holds the answer to the whole schema before it counts.

- An object has a field for each property; anything else has one field, called ``value``.
- A boolean has no field: to approve is true, to reject is false. An object with a property such as
  ``approved: boolean`` is answered in the same way, and its ``reason`` takes the person's reason.
- Where no schema is given, or one that cannot be used, any text or JSON is an answer. A yes or a
  no alone is one too; `signoff.core.approvals.input.rules` says what the agent gets for it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.base.errors import PayloadError
from signoff.core.base.numbers import json_text
from signoff.core.base.shown_text import one_line
from signoff.core.base.text import brief, plain_line
from signoff.core.payloads.payload import LONE_FIELD, check_payload, example_value, parse_values
from signoff.core.payloads.schema import (
    Schema,
    default_of,
    misfit,
    plain,
    start_of,
    suggestions,
    type_of,
    usable,
)
from signoff.core.replies.free import VERDICT_NAMES, says_no

REASON_NAMES: Final = frozenset({"reason", "comment", "comments", "feedback", "note", "notes"})
"""Texts of these names take the person's reason where they are not given."""

_MOST_CHOICES: Final = 12


class GivenAnswer(NamedTuple):
    """An answer; `None` is one too, where the schema takes it or a yes or a no alone was said."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Form:
    """What a person fills in to answer a request for input.

    Attributes:
        schema: The schema the answer has to fit, ``{}`` where everything does.
        parts: The schema of each field, by name.
        fields: What each field starts as, by name: a payload template.
        required: The fields that have to be given.
        defaults: What fields have that are not given.
        shown: The fields that a card puts before a person, in their order. The others may be
            given as well.
        lone: Whether the answer is the value of the one field rather than an object.
        verdict: The field that the person's yes or no fills, "" where there is none.
        reason: The field that the person's reason fills, "" where there is none.
    """

    schema: Schema
    parts: dict[str, Schema] = field(default_factory=dict)
    fields: dict[str, JsonValue] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    defaults: dict[str, JsonValue] = field(default_factory=dict)
    shown: tuple[str, ...] = ()
    lone: bool = False
    verdict: str = ""
    reason: str = ""

    @property
    def template(self) -> JsonValue:
        """The fields as a payload template, None where there is nothing to fill."""
        return dict(self.fields) or None

    @property
    def free(self) -> bool:
        """Whether any text or JSON is an answer."""
        return self.lone and not self.schema

    @property
    def optional(self) -> tuple[str, ...]:
        """The fields that may be given and that a card only names."""
        return tuple(one for one in self.fields if one not in {*self.shown, self.verdict})

    def accept(self, values: Mapping[str, JsonValue] | None, reason: str = "") -> JsonValue:
        """Return the answer of a person who says yes.

        Args:
            values: What the person gave, by field.
            reason: The person's reason.

        Raises:
            PayloadError: A name is no field, a value is missing or does not fit the schema.
        """
        given = self._checked(values or {})
        if not self.fields:
            return True
        if self.free:
            return self._free(given)
        if self.verdict and given.setdefault(self.verdict, True) is not True:
            raise PayloadError(
                f'You approve, and below it "{self.verdict}" is no. Say one of the two.',
                key=self.verdict,
                read="no",
                example="reject: the reason",
            )
        return self._fitting(self._with_reason(given, reason))

    def read(self, answer: JsonValue) -> tuple[bool, dict[str, JsonValue] | None]:
        """Return whether a whole answer, as a programme sends it, is a yes, and its values.

        Raises:
            PayloadError: It has another form, or does not say yes or no where that is asked.
        """
        if not self.fields:
            if not isinstance(answer, bool):
                raise _not_of_kind(LONE_FIELD, answer, "true or false", "true")
            return answer, None
        if self.lone:
            return not (self.free and says_no(answer)), {LONE_FIELD: answer}
        if not isinstance(answer, dict):
            raise _not_of_kind(LONE_FIELD, answer, "an object", json.dumps(self.fields))
        if not self.verdict:
            return True, dict(answer)
        said = answer.get(self.verdict)
        if not isinstance(said, bool):
            raise _not_of_kind(self.verdict, said, "true or false", f'"{self.verdict}": true')
        return said, dict(answer)

    def refuse(
        self, reason: str = "", values: Mapping[str, JsonValue] | None = None
    ) -> GivenAnswer | None:
        """Return the answer of a person who says no; None where the schema has no way to say it.

        Args:
            reason: The person's reason.
            values: The other fields of the answer, where a whole one was given.

        Raises:
            PayloadError: The values that were given do not fit.
        """
        if not self.fields:
            return GivenAnswer(value=False)
        if self.free:
            return GivenAnswer(self._checked(values or {}).get(LONE_FIELD))
        if not self.verdict:
            return None
        if values is not None:
            return GivenAnswer(self._fitting(self._with_reason(self._checked(values), reason)))
        try:
            return GivenAnswer(self._fitting(self._with_reason({self.verdict: False}, reason)))
        except PayloadError:
            return None

    def example(self) -> str:
        """Return an answer that says yes, with the values that have to be given."""
        names = [name for name in self.required if name != self.verdict]
        return "\n".join(["approve", *(f"{name}: {self.example_of(name)}" for name in names)])

    def example_of(self, name: str) -> str:
        """Return a value for a field, as a person would write it."""
        start = self.fields.get(name)
        for value in suggestions(self.parts.get(name, {})):
            text = value if isinstance(value, str) else example_value(value)
            if _reads_as(start, text, value):
                return text
        return "yes" if isinstance(start, bool) else example_value(start)

    def note(self, name: str) -> str:
        """Return what is to be known about a field: its choices, and the schema's own words."""
        part, notes = self.parts.get(name, {}), []
        choices = part.get("enum")
        if isinstance(choices, list) and choices:
            words = [one if isinstance(one, str) else json.dumps(one) for one in choices]
            more = ", …" if len(words) > _MOST_CHOICES else ""
            notes.append(brief(f"one of {', '.join(words[:_MOST_CHOICES])}{more}"))
        elif isinstance(self.fields.get(name), bool):
            notes.append("yes or no")
        description = part.get("description")
        if isinstance(description, str) and description.strip():
            notes.append(one_line(description))
        return "; ".join(notes)

    def _free(self, given: Mapping[str, JsonValue]) -> JsonValue:
        """Return the answer where any is one, None where a yes alone was said.

        Raises:
            PayloadError: It says no.
        """
        value = given.get(LONE_FIELD)
        if says_no(value):
            read = brief(value if isinstance(value, str) else json.dumps(value))
            raise PayloadError(
                f'You approve, and your answer "{read}" says no. Say one of the two.',
                key=LONE_FIELD,
                read=read,
                example="reject: the reason",
            )
        return value

    def _checked(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Hold values to the fields, each separately; what is not given is not filled in."""
        checked: dict[str, JsonValue] = {}
        for name, value in values.items():
            if value is None and name in self.fields:
                checked[name] = None  # the schema says whether it may be
                continue
            start = {name: self.fields[name]} if name in self.fields else dict(self.fields)
            held = check_payload(start, {name: value})
            read = held[name] if isinstance(held, dict) else held
            checked[name] = _choice(self.parts.get(name, {}), read)
        return checked

    def _with_reason(self, given: dict[str, JsonValue], reason: str) -> dict[str, JsonValue]:
        wanted = bool(reason) and bool(self.reason) and self.reason not in given
        return {**given, self.reason: reason} if wanted else given

    def _fitting(self, given: dict[str, JsonValue]) -> JsonValue:
        """Return the answer that these values are.

        Raises:
            PayloadError: One is missing, or they do not fit the schema.
        """
        if lacking := [name for name in self.required if name not in given]:
            names = ", ".join(f'"{name}"' for name in lacking)
            raise PayloadError(
                f"The answer needs a value for {names}.",
                key=lacking[0],
                read="",
                example=f"{lacking[0]}: {self.example_of(lacking[0])}",
            )
        whole: dict[str, JsonValue] = {**self.defaults, **given}
        answer: JsonValue = whole[LONE_FIELD] if self.lone else whole
        problem = misfit(self.schema, answer)
        if problem is None:
            return answer
        path = [str(step) for step in problem.absolute_path]
        key = LONE_FIELD if self.lone else (path[0] if path else next(iter(given), ""))
        value = given.get(key)
        read = brief(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        example = f"{key}: {self.example_of(key)}" if key in self.fields else "approve"
        raise PayloadError(
            f'"{key}" does not fit what is asked for: {brief(problem.message)}; I read "{read}"; '
            f"for example: {example}",
            key=key,
            read=read,
            example=example,
        )


def read_form(schema: JsonValue) -> Form:
    """Return the form of a response schema.

    Args:
        schema: The JSON schema, None where the request has none.
    """
    root = usable(schema)
    whole = plain(root, root)
    properties = whole.get("properties")
    match type_of(whole):
        case "boolean" if "enum" not in whole and "const" not in whole:
            return Form(root)
        case "object" if isinstance(properties, dict) and properties:
            return _object_form(root, whole, properties)
        case "null":
            nothing: dict[str, JsonValue] = {LONE_FIELD: None}
            return Form(root, {LONE_FIELD: whole}, nothing, defaults=nothing, lone=True)
    start: dict[str, JsonValue] = {LONE_FIELD: start_of(whole)}
    return Form(root, {LONE_FIELD: whole}, start, (LONE_FIELD,), {}, (LONE_FIELD,), lone=True)


def _object_form(root: Schema, whole: Schema, properties: dict[str, JsonValue]) -> Form:
    named = whole.get("required")
    must = named if isinstance(named, list) else []
    parts = {name: plain(part, root) for name, part in properties.items()}
    defaults = {name: default_of(part) for name, part in parts.items()}
    form = Form(
        root,
        parts,
        {name: start_of(part) for name, part in parts.items()},
        tuple(name for name in parts if name in must and defaults[name] is None),
        {name: default for name, default in defaults.items() if default is not None},
        verdict=_called(parts, "boolean", VERDICT_NAMES),
        reason=_called(parts, "string", REASON_NAMES),
    )
    shown = tuple(name for name in parts if name != form.verdict and _is_shown(form, name))
    starts = {name: form.defaults[name] for name in shown if name in form.defaults}
    return replace(form, shown=shown, fields={**form.fields, **starts})


def _not_of_kind(key: str, answer: JsonValue, wanted: str, example: str) -> PayloadError:
    read = brief(json.dumps(answer, ensure_ascii=False))
    message = f'"{key}" should be {wanted}, but I read {read}; for example: {example}'
    return PayloadError(message, key=key, read=read, example=example)


def _called(parts: Mapping[str, Schema], kind: str, names: frozenset[str]) -> str:
    """Return the first property of this kind and one of these names, "" where there is none."""
    return next(
        (
            name
            for name, part in parts.items()
            if name.casefold() in names and type_of(part) == kind and "enum" not in part
        ),
        "",
    )


def _is_shown(form: Form, name: str) -> bool:
    """Whether a card puts a field before a person: it is required, or starts as it may stay."""
    if name in form.required:
        return True
    default = form.defaults.get(name)
    if default is None or default == "" or isinstance(default, list | dict):
        return False
    # What is shown and left untouched must be read as the very default.
    text = default if isinstance(default, str) else json_text(default)
    return "\n" not in text and _reads_as(form.fields[name], text, default)


def _choice(part: Schema, value: JsonValue) -> JsonValue:
    """Return the one choice that a person means by a text: "se" is "SE" where nothing else is."""
    choices = part.get("enum")
    if not isinstance(value, str) or not isinstance(choices, list) or value in choices:
        return value
    wanted = plain_line(value).casefold()
    same = [one for one in choices if isinstance(one, str) and plain_line(one).casefold() == wanted]
    return same[0] if len(same) == 1 else value


def _reads_as(start: JsonValue, text: str, value: JsonValue) -> bool:
    try:
        read = parse_values({LONE_FIELD: start}, {LONE_FIELD: text})[LONE_FIELD]
    except PayloadError:
        return False
    if isinstance(read, bool) or isinstance(value, bool):
        return read is value
    return read == value
