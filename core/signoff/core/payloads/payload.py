"""The payload template of a request, and the values that a person enters.

A tool may ask for more than yes or no: ``request_confirmation(payload={"approved_days": 0})``. This
JSON is a template. Its keys name the fields, and its values are the initial values, which also
determine the types.

- A field with the initial value ``0``, ``0.0``, ``""`` or ``None`` is empty and must be filled in.
- A field with a date as initial value (``"2026-11-21"``) takes a date in any clear notation.
- ``{}`` or ``[]`` inside a template allows any contents. A template that is itself ``{}`` asks for
  nothing.
- A template that is not an object has one field, called ``value``.

Numbers stay within the integers that every JSON reader keeps exactly (RFC 7493 section 2.2),
because the payload crosses languages.
"""

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from pydantic import JsonValue

from signoff.core.base.dates import is_iso_date, read_date
from signoff.core.base.errors import PayloadError
from signoff.core.base.numbers import json_text, number_text
from signoff.core.base.numerals import is_ambiguous, split_number
from signoff.core.base.text import brief, clean_text, plain_line

LONGEST_TEXT: Final = 2_000
LARGEST_NUMBER: Final = 2**53 - 1
DEEPEST_JSON: Final = 20
LONE_FIELD: Final = "value"
_LONGEST_NUMBER: Final = 40


def fields_of(template: JsonValue) -> dict[str, JsonValue]:
    """Return the fields of a template: the initial value of each, by name.

    Args:
        template: The tool's template, or None if the tool asks for no payload.

    Returns:
        The object itself, ``{"value": template}`` for any other JSON, and ``{}`` for None.
    """
    if template is None:
        return {}
    return template if isinstance(template, dict) else {LONE_FIELD: template}


def find_field(template: JsonValue, name: str) -> str | None:
    """Return the field that a person means by a name, or None.

    Case, spaces, hyphens and underscores are ignored if only one field then has this name.
    """
    fields = fields_of(template)
    if name in fields:
        return name
    wanted = _folded(name)
    found = [field for field in fields if _folded(field) == wanted]
    return found[0] if len(found) == 1 and wanted else None


def parse_values(
    template: JsonValue,
    entries: Mapping[str, str],
    currencies: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, JsonValue]:
    """Convert the texts that a person typed into values of the template's types.

    Thousands separators are allowed only if they are unambiguous ("1,000,000"). "1,000" and "1.000"
    mean one thousand to some people and one to others, and are refused.

    Args:
        template: The tool's template. None allows any name and any value.
        entries: The typed texts, by name.
        currencies: The currencies of the fields that are amounts of money. A number may be written
            with its currency, but not with another one.

    Returns:
        The values by the template's field names, without fields that the person did not name.

    Raises:
        PayloadError: A name is not a field or occurs twice, or a text does not have the type of
            its field.
    """
    values: dict[str, JsonValue] = {}
    for name, text in entries.items():
        if template is None:
            values[name] = _read_any(name, text)
            continue
        field = find_field(template, name)
        if field is None:
            raise _unknown(template, name)
        if field in values:
            message = f'"{field}" was given twice; give it once'
            raise PayloadError(message, key=field, read=brief(text), example=f"{field}: …")
        start = fields_of(template)[field]
        amount = field in currencies and isinstance(start, int | float)
        number = _without_currency(text, currencies[field]) if amount else text
        values[field] = _read_as(field, start, number)
    return values


def _without_currency(text: str, currency: str) -> str:
    """Return the number in an amount with a currency: "2,500.00" for "2,500.00 EUR"."""
    plain = plain_line(text)
    for part in (plain.upper().removesuffix(currency), plain.upper().removeprefix(currency)):
        if len(part) < len(plain) and part.strip() and not part.strip()[-1].isalpha():
            return part.strip()
    return text


def check_payload(template: JsonValue, payload: JsonValue) -> JsonValue:
    """Check a structured payload against its template.

    A whole number is allowed for a decimal number, but not the other way round. A boolean is not
    allowed for a number.

    Args:
        template: The tool's template. None allows any JSON within the limits on numbers and text.
        payload: The payload from a form, a button or a program.

    Returns:
        The payload; missing fields get the initial values of the template.

    Raises:
        PayloadError: The template does not have a key, or a value has another type.
    """
    if template == {} and payload != {}:
        first = next(iter(payload)) if isinstance(payload, dict) and payload else LONE_FIELD
        raise _unknown(template, first)
    named = template is None or isinstance(template, dict)
    return _check("" if named else LONE_FIELD, template, payload)


def fill(template: JsonValue, values: Mapping[str, JsonValue] | None) -> JsonValue:
    """Return the payload for the tool: the template, updated with the values.

    Raises:
        PayloadError: As ``check_payload``.
    """
    if template is None:
        return dict(values) if values else None
    if isinstance(template, dict):
        return check_payload(template, dict(values or {}))
    return check_payload(template, (values or {}).get(LONE_FIELD, template))


def missing_fields(template: JsonValue, values: Mapping[str, JsonValue] | None) -> list[str]:
    """Return the fields that a person still has to fill in, in the template's order.

    If an empty field could be approved, the tool would run with a zero that nobody chose. ``0``,
    ``0.0``, ``""`` and ``None`` are empty; ``False`` and empty objects and lists are not.
    """
    given = values or {}
    return [
        name for name, start in fields_of(template).items() if _blank(start) and name not in given
    ]


def example_value(start: JsonValue) -> str:
    """Return an example text for a field with this initial value, for help and error messages."""
    if isinstance(start, bool):
        return "yes" if start else "no"
    if isinstance(start, str):
        return " ".join(start.split()) or "text"
    if start is None:
        return "text"
    if isinstance(start, int):
        return str(start or 3) if abs(start) <= LARGEST_NUMBER else "3"
    if isinstance(start, float):
        return _decimal_example(start)
    return json_text(start)


def _blank(start: JsonValue) -> bool:
    return start is None or (not isinstance(start, bool | list | dict) and not start)


def _decimal_example(start: float) -> str:
    text = number_text(start or 2.5)
    # "1.125" is refused as ambiguous, and so are numbers with too many digits.
    try:
        _read_number(LONE_FIELD, 0.0, text)
    except PayloadError:
        return "2.5"
    return text


def _read_as(field: str, start: JsonValue, text: str) -> JsonValue:
    """Read text as the type of the field's initial value."""
    if len(text) > LONGEST_TEXT:
        raise _wrong(field, start, text, f"at most {LONGEST_TEXT:,} characters")
    if isinstance(start, bool):
        return _read_bool(field, start, text)
    if isinstance(start, int | float):
        return _read_number(field, start, text)
    if isinstance(start, str):
        return _read_date(field, start, text) if is_iso_date(start) else _read_text(text)
    if start is None:
        return _read_any(field, text)
    kind = _kind(start)
    try:
        value = _read_json(field, start, text)
    except ValueError:
        raise _wrong(field, start, text, kind) from None
    return _check(field, start, value)


def _read_bool(field: str, start: JsonValue, text: str) -> bool:
    # Imported here because most users of templates read no replies.
    from signoff.core.lexicon.languages import is_false, is_true  # noqa: PLC0415

    word = plain_line(text).casefold().rstrip(".!")
    if is_true(word):
        return True
    if is_false(word):
        return False
    raise _wrong(field, start, text, "yes or no")


def _read_number(field: str, start: float, text: str) -> int | float:
    """Read digits with an optional sign, thousands separators and a decimal mark."""
    whole = isinstance(start, int)
    kind = _kind(start)
    plain = plain_line(text)
    sign = -1 if plain.startswith(("-", "\N{MINUS SIGN}")) else 1
    digits = plain[1:] if plain.startswith(("-", "+", "\N{MINUS SIGN}")) else plain
    if not digits or len(digits) > _LONGEST_NUMBER or not digits.isascii():
        raise _wrong(field, start, text, kind)
    units, decimals = split_number(digits) or ("", "")
    if not units or (whole and decimals):
        reading = "a number written without thousands separators" if is_ambiguous(digits) else kind
        raise _wrong(field, start, text, reading)
    number = int(units) * sign if whole else float(f"{units}.{decimals or '0'}") * sign
    if abs(number) > LARGEST_NUMBER:
        raise _wrong(field, start, text, f"{kind} no larger than {LARGEST_NUMBER:,}")
    return number


def _read_date(field: str, start: str, text: str) -> str:
    """Read a date, for a field with a date as initial value: 2026-11-21."""
    day = read_date(plain_line(_read_text(text)).rstrip("."))
    if day is None:
        raise _wrong(field, start, text, "a day with its year, that can be read in one way only")
    return day.isoformat()


def _read_text(text: str) -> str:
    plain = clean_text(text).strip()
    quoted = len(plain) >= 2 and plain[0] == plain[-1] == '"' and plain.count('"') == 2
    return plain[1:-1] if quoted else plain


def _read_any(field: str, text: str) -> JsonValue:
    """Read JSON if the text is JSON, and otherwise the text itself."""
    if len(text) > LONGEST_TEXT:
        raise _wrong(field, None, text, f"at most {LONGEST_TEXT:,} characters")
    try:
        value = _read_json(field, None, text)
    except ValueError:
        return _read_text(text)
    return _check(field, None, value)


def _read_json(field: str, start: JsonValue, text: str) -> JsonValue:
    """Read strict JSON, without NaN, repeated keys and deep nesting.

    Raises:
        ValueError: The text is not JSON.
        PayloadError: The JSON is not strict.
    """

    def constant(name: str) -> JsonValue:
        raise _wrong(field, start, name, "a finite number")

    def object_of(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        if len(dict(pairs)) < len(pairs):
            raise _wrong(field, start, text, "an object that names each key once")
        return dict(pairs)

    if text.count("[") + text.count("{") > DEEPEST_JSON * DEEPEST_JSON:
        raise _wrong(field, start, text, "less deeply nested JSON")
    # json.loads is typed as Any; with these hooks it returns JSON.
    value: JsonValue = json.loads(text, parse_constant=constant, object_pairs_hook=object_of)
    return value


def _check(where: str, start: JsonValue, value: JsonValue, depth: int = 0) -> JsonValue:
    """Check one value against the initial value at the same place in the template."""
    if depth > DEEPEST_JSON:
        raise _wrong(where, start, "…", f"JSON nested at most {DEEPEST_JSON} deep")
    if isinstance(start, dict):
        if not isinstance(value, dict):
            raise _wrong(where, start, value, _kind(start))
        return _check_object(where, start, value, depth)
    if isinstance(start, list):
        if not isinstance(value, list):
            raise _wrong(where, start, value, _kind(start))
        element = _element(start, depth)
        return [_check(where, element, item, depth + 1) for item in value]
    if start is None:
        return _check_free(where, value, depth)
    return _check_scalar(where, start, value)


def _element(start: list[JsonValue], depth: int) -> JsonValue:
    """Return the first element of a list template, which describes all elements.

    If the template's own elements differ from it, any JSON is allowed: None.
    """
    first = start[0] if start else None
    try:
        for item in start[1:]:
            _check("", first, item, depth + 1)
    except PayloadError:
        return None
    return first


def _check_object(
    where: str, start: dict[str, JsonValue], value: dict[str, JsonValue], depth: int
) -> dict[str, JsonValue]:
    prefix = f"{where}." if where else ""
    checked = dict(start)
    for key, item in value.items():
        if start and key not in start:
            raise _unknown(start, f"{prefix}{key}")
        checked[_sound(where, key)] = _check(f"{prefix}{key}", start.get(key), item, depth + 1)
    return checked


def _check_free(where: str, value: JsonValue, depth: int) -> JsonValue:
    if isinstance(value, dict):
        return _check_object(where, {}, value, depth)
    if isinstance(value, list):
        return [_check(where, None, item, depth + 1) for item in value]
    if value is None:
        return None
    if not isinstance(value, bool | int | float | str):
        raise _wrong(where, None, value, "JSON")
    return _check_scalar(where, value, value)


def _check_scalar(where: str, start: JsonValue, value: JsonValue) -> JsonValue:
    decimal = isinstance(start, float) and type(value) is int
    same = type(value) is type(start) or decimal
    if not same or not isinstance(value, bool | int | float | str):
        raise _wrong(where, start, value, _kind(start))
    if isinstance(value, str):
        return _sound(where, value)
    if isinstance(value, bool):
        return value
    # The comparison with NaN is false too.
    if not abs(value) <= LARGEST_NUMBER:
        raise _wrong(where, start, value, f"a finite number no larger than {LARGEST_NUMBER:,}")
    return float(value) if decimal else value


def _sound(where: str, text: str) -> str:
    """Refuse text that is too long or cannot be encoded in UTF-8."""
    if len(text) > LONGEST_TEXT:
        raise _wrong(where, "", text, f"at most {LONGEST_TEXT:,} characters")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise _wrong(where, "", "a lone surrogate", "Unicode text")
    return text


def _kind(start: JsonValue) -> str:
    """Return the name of a type for the person who has to enter a value."""
    if isinstance(start, bool):
        return "yes or no"
    names: dict[type, str] = {
        int: "a whole number",
        float: "a number",
        str: "text",
        list: "a JSON list",
        dict: "a JSON object",
    }
    return names.get(type(start), "a value")


def _wrong(key: str, start: JsonValue, read: object, wanted: str) -> PayloadError:
    key = key or "payload"
    example = f"{key}: {example_value(start)}"
    shown = _shown(read)
    message = f'"{key}" should be {wanted}, but I read "{shown}"; for example: {example}'
    return PayloadError(message, key=key, read=shown, example=example)


def _shown(read: object) -> str:
    # Python refuses to convert integers of many thousand digits to text.
    if isinstance(read, int | float) and not isinstance(read, bool):
        return "a huge number" if abs(read) > 10**60 else number_text(read)
    return brief(str(read))


def _unknown(template: JsonValue, name: str) -> PayloadError:
    fields = fields_of(template)
    known = ", ".join(f'"{field}"' for field in fields) or "none"
    example = next(
        (f"{field}: {example_value(start)}" for field, start in fields.items()), "approve"
    )
    shown = brief(name)
    message = (
        f'"{shown}" is not a field of this request; its fields: {known}; for example: {example}'
    )
    return PayloadError(message, key=shown, read=shown, example=example)


def _folded(name: str) -> str:
    return "".join(mark for mark in plain_line(name).casefold() if mark not in " -_")
