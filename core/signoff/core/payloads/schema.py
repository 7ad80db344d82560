"""The parts of JSON Schema (https://json-schema.org, draft 2020-12) that a form needs.

Schemas come from Python models, dictionaries and language models, so this module reads what they
have in common. A schema that cannot be read allows any answer.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue
from pydantic_core import SchemaError, SchemaValidator, core_schema
from pydantic_core import ValidationError as PydanticError

if TYPE_CHECKING:
    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    Keyword = Callable[[Validator, Any, Any, Any], Iterable[ValidationError] | None]

Schema = dict[str, JsonValue]

_STARTS: Final[Mapping[str, JsonValue]] = {
    "string": "",
    "integer": 0,
    "number": 0.0,
    "boolean": False,
    "array": [],
    "object": {},
}
_VALUES: Final = frozenset({"default", "enum", "const", "examples", "example"})
_BESIDE: Final = frozenset({"default", "description", "title"})
_DEEPEST: Final = 32
_MOST_REFERENCES: Final = 16
_MOST_STEPS: Final = 20_000
_BY_PATTERN: Final = ("patternProperties", "additionalProperties", "unevaluatedProperties")
_UNEVALUATED: Final = ("unevaluatedProperties", "unevaluatedItems")


def usable(schema: JsonValue) -> Schema:
    """Return a schema with the standard names of types, ``{}`` if it is not a valid schema."""
    lowered = _lowered(schema, 0)
    if not isinstance(lowered, dict):
        return {}
    try:
        text = json.dumps(lowered)
        return lowered if _is_valid(text) else {}
    except (RecursionError, ValueError):  # nested too deeply, or a number of thousands of digits
        return {}


# Checking a schema takes milliseconds, and each page and message about a request reads its schema.
@lru_cache(maxsize=32)
def _is_valid(schema: str) -> bool:
    """Say whether a schema, as JSON text, is a valid schema."""
    from jsonschema import Draft202012Validator  # noqa: PLC0415 -- most calls have no schema
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415

    try:
        Draft202012Validator.check_schema(json.loads(schema))
    except SchemaError:
        return False
    return True


def misfit(schema: Schema, answer: JsonValue) -> ValidationError | None:
    """Return the most relevant error of an answer, None if it matches the schema.

    Nothing is fetched. If a reference cannot be resolved, or the check would take long, the answer
    counts as valid: schemas may come from a model, and must not keep a process busy.
    """
    from jsonschema.exceptions import best_match  # noqa: PLC0415 -- as above
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    # The registry is empty, so that references to other documents are not followed.
    validator = _bounded(schema)(schema, registry=Registry())
    try:
        worst: ValidationError | None = best_match(validator.iter_errors(answer))
    except (Unresolvable, RecursionError, OverflowError, _TooLong):
        return None
    return worst


class _TooLong(Exception):
    """A check takes more steps than a form ever needs."""


def _bounded(schema: Schema) -> type[Validator]:
    """Return a validator that takes at most `_MOST_STEPS` steps, and linear time for a pattern.

    References can repeat a part of a schema two, four, eight … times.
    """
    from jsonschema import Draft202012Validator  # noqa: PLC0415 -- as above
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415
    from jsonschema.validators import extend  # noqa: PLC0415

    steps = count()

    def counted(keyword: Keyword) -> Keyword:
        def check(one: Validator, value: Any, answer: Any, part: Any) -> Iterable[ValidationError]:  # noqa: ANN401 -- as jsonschema has it
            if next(steps) >= _MOST_STEPS:
                raise _TooLong
            return keyword(one, value, answer, part) or ()

        return check

    def pattern(
        one: Validator, value: str, answer: JsonValue, part: Schema
    ) -> Iterator[ValidationError]:
        del one, part
        if isinstance(answer, str) and not _matches(value, answer):
            yield ValidationError(f"{answer!r} does not match {value!r}")

    text = json.dumps(schema)
    # These would search with Python's regular expressions, or count no steps.
    patterns = {*_BY_PATTERN} if '"patternProperties"' in text else set()
    skipped = patterns | ({*_UNEVALUATED} if 'Ref"' in text or '"$ref"' in text else set())
    keywords = {**Draft202012Validator.VALIDATORS, "pattern": pattern}
    made: type[Validator] = extend(  # type: ignore[no-untyped-call] # jsonschema has no types here
        Draft202012Validator,
        {name: counted(_skip if name in skipped else one) for name, one in keywords.items()},
    )
    return made


def _skip(*_: object) -> None:
    """Check nothing."""


def _matches(pattern: str, text: str) -> bool:
    """Say whether a text has a part that matches; a pattern with look-around matches any text."""
    try:
        _searcher(pattern).validate_python(text)
    except SchemaError:
        return True
    except PydanticError:
        return False
    return True


@lru_cache(maxsize=32)
def _searcher(pattern: str) -> SchemaValidator:
    # In linear time: Python's own regular expressions can take forever on a short text.
    return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex"))


def plain(part: JsonValue, root: Schema) -> Schema:
    """Return a part of a schema with its references resolved and without a "null" alternative."""
    for _ in range(_MOST_REFERENCES):
        if not isinstance(part, dict):
            return {}
        reference = part.get("$ref")
        if isinstance(reference, str):
            part = _referred(reference, root)
            continue
        choices = next((part[key] for key in ("anyOf", "oneOf", "allOf") if key in part), None)
        if not isinstance(choices, list) or "type" in part:
            return part
        real = [one for one in choices if not (isinstance(one, dict) and type_of(one) == "null")]
        if len(real) != 1:
            return part
        inner = real[0]
        beside = {key: item for key, item in part.items() if key in _BESIDE}
        part = {**inner, **beside} if isinstance(inner, dict) else inner
    return {}


def type_of(schema: Schema) -> str:
    """Return the only type besides null, "" if there is no type or more than one."""
    kind = schema.get("type")
    if isinstance(kind, list):
        real = [one for one in kind if one != "null"]
        kind = real[0] if len(real) == 1 else None
    if kind is None and isinstance(schema.get("properties"), dict):
        return "object"
    return kind if isinstance(kind, str) else ""


def start_of(schema: Schema) -> JsonValue:
    """Return the initial value of this field for a payload template; None allows any type."""
    kind, choices = type_of(schema), schema.get("enum")
    if not kind and isinstance(choices, list) and choices:
        return "" if all(isinstance(one, str) for one in choices) else None
    start = _STARTS.get(kind)
    return start.copy() if isinstance(start, list | dict) else start


def default_of(schema: Schema) -> JsonValue:
    """Return the default of a property, None if the schema has no default."""
    default = schema.get("default")
    if isinstance(default, int) and not isinstance(default, bool) and type_of(schema) == "number":
        # A larger one would lose digits, and there are none above the largest double.
        return float(default) if abs(default) < 2**53 else default
    return default


def suggestions(schema: Schema) -> Iterator[JsonValue]:
    """Yield values that the schema itself mentions."""
    for key in ("examples", "enum"):
        listed = schema.get(key)
        if isinstance(listed, list):
            yield from listed[:1]
    for key in ("const", "default", "minimum"):
        if schema.get(key) is not None:
            yield schema[key]


def _lowered(schema: JsonValue, depth: int) -> JsonValue:
    """Write type names such as ``STRING`` (from models and Google's schemas) as ``string``."""
    if depth > _DEEPEST:
        return schema
    if isinstance(schema, list):
        return [_lowered(item, depth + 1) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: item
        if key in _VALUES and not isinstance(item, dict)
        else _type_name(item)
        if key == "type" and not isinstance(item, dict)
        else _lowered(item, depth + 1)
        for key, item in schema.items()
    }


def _type_name(item: JsonValue) -> JsonValue:
    if isinstance(item, list):
        return [one.lower() if isinstance(one, str) else one for one in item]
    return item.lower() if isinstance(item, str) else item


def _referred(reference: str, root: Schema) -> JsonValue:
    if not reference.startswith("#"):
        return None
    found: JsonValue = root
    for step in reference.removeprefix("#").split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        found = found.get(name) if isinstance(found, dict) else None
    return found
