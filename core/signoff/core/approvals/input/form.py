"""The form of a request for input: the JSON schema of its answer, for people to fill in a mail.

A workflow asks with ``RequestInput(message=…, response_schema=…)``. The fields of the form are a
payload template (see `signoff.core.payloads.payload`), so people fill both in the same way. The
answer is validated against the whole schema before it counts.

- An object has a field for each property; anything else has one field, called ``value``.
- A boolean has no field: to approve is true, to reject is false. An object with a property such as
  ``approved: boolean`` is answered in the same way, and its ``reason`` takes the person's reason.
- Without a schema, or with one that cannot be used, any text or JSON is an answer. A plain yes or
  no is one too; `signoff.core.approvals.input.rules` says what the agent gets for it.
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
from signoff.core.replies.refusals import VERDICT_NAMES, says_no

REASON_NAMES: Final = frozenset({"reason", "comment", "comments", "feedback", "note", "notes"})
"""Text fields with these names take the person's reason if they are not filled in."""

_MOST_CHOICES: Final = 12


class GivenAnswer(NamedTuple):
    """An answer. Its value is None for null, or for a plain yes or no without a schema."""

    value: JsonValue


@dataclass(frozen=True, slots=True)
class Form:
    """The form that a person fills in to answer a request for input.

    Attributes:
        schema: The schema of the answer, ``{}`` if any answer is valid.
        parts: The schema of each field, by name.
        fields: The initial value of each field, by name: a payload template.
        required: The fields that must be filled in.
        defaults: The values of fields that are not filled in.
        shown: The fields that a card shows, in their order. The others can be filled in as well.
        lone: Whether the answer is the value of the single field, and not an object.
        verdict: The field that the person's yes or no fills, "" if there is none.
        reason: The field that the person's reason fills, "" if there is none.
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
        """The fields as a payload template, None if there is nothing to fill in."""
        return dict(self.fields) or None

    @property
    def free(self) -> bool:
        """Whether any text or JSON is an answer."""
        return self.lone and not self.schema

    @property
    def optional(self) -> tuple[str, ...]:
        """The optional fields that a card only names."""
        return tuple(one for one in self.fields if one not in {*self.shown, self.verdict})

    def accept(self, values: Mapping[str, JsonValue] | None, reason: str = "") -> JsonValue:
        """Return the answer of a person who approves.

        Args:
            values: The values of the person, by field.
            reason: The person's reason.

        Raises:
            PayloadError: A field is unknown, or a value is missing or does not match the schema.
        """
        given = self._checked(values or {})
        if not self.fields:
            return True
        if self.free:
            return self._free(given)
        if self.verdict and given.setdefault(self.verdict, True) is not True:
            raise PayloadError(
                f'You approve, but "{self.verdict}" below it is no. Choose one of the two.',
                key=self.verdict,
                read="no",
                example="reject: the reason",
            )
        return self._fitting(self._with_reason(given, reason))

    def read(self, answer: JsonValue) -> tuple[bool, dict[str, JsonValue] | None]:
        """Return whether a complete answer from a program approves, and its values.

        Raises:
            PayloadError: The answer has the wrong type, or lacks the required yes or no.
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
        """Return the answer of a person who rejects, None if the schema cannot express it.

        Args:
            reason: The person's reason.
            values: The other fields, if a complete answer was given.

        Raises:
            PayloadError: The values do not match the schema.
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
        """Return an example of an answer that approves, with the required values."""
        names = [name for name in self.required if name != self.verdict]
        return "\n".join(["approve", *(f"{name}: {self.example_of(name)}" for name in names)])

    def example_of(self, name: str) -> str:
        """Return an example value for a field, as a person would write it."""
        start = self.fields.get(name)
        for value in suggestions(self.parts.get(name, {})):
            text = value if isinstance(value, str) else example_value(value)
            if _reads_as(start, text, value):
                return text
        return "yes" if isinstance(start, bool) else example_value(start)

    def note(self, name: str) -> str:
        """Return a note about a field: its choices, and the description in the schema."""
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
        """Return the answer if there is no schema, None for a plain yes.

        Raises:
            PayloadError: It says no.
        """
        value = given.get(LONE_FIELD)
        if says_no(value):
            read = brief(value if isinstance(value, str) else json.dumps(value))
            raise PayloadError(
                f'You approve, but your answer "{read}" says no. Choose one of the two.',
                key=LONE_FIELD,
                read=read,
                example="reject: the reason",
            )
        return value

    def _checked(self, values: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
        """Check each value against its field; missing values are not filled in."""
        checked: dict[str, JsonValue] = {}
        for name, value in values.items():
            if value is None and name in self.fields:
                checked[name] = None  # the schema decides whether this is allowed
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
        """Return the answer with these values.

        Raises:
            PayloadError: A value is missing, or they do not match the schema.
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
        schema: The JSON schema, None if the request has none.
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
    """Return the first property with this type and one of these names, "" if there is none."""
    return next(
        (
            name
            for name, part in parts.items()
            if name.casefold() in names and type_of(part) == kind and "enum" not in part
        ),
        "",
    )


def _is_shown(form: Form, name: str) -> bool:
    """Whether a card shows a field: it is required, or has a default that can be shown."""
    if name in form.required:
        return True
    default = form.defaults.get(name)
    if default is None or default == "" or isinstance(default, list | dict):
        return False
    # A value that is shown and not edited must be read as exactly the default.
    text = default if isinstance(default, str) else json_text(default)
    return "\n" not in text and _reads_as(form.fields[name], text, default)


def _choice(part: Schema, value: JsonValue) -> JsonValue:
    """Return the choice that a text means: "se" means "SE" if no other choice matches."""
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
