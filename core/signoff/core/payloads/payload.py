"""The payload template of a request, and the values a person fills it with.

A tool may ask for more than yes or no: ``request_confirmation(payload={"approved_days": 0})``. That
JSON is a template: its keys name the fields, its values say of what kind each field is and what it
starts as.

- A field that starts as ``0``, ``0.0``, ``""`` or ``None`` is empty and has to be filled.
- A field that starts as a day (``"2026-11-21"``) takes a day, however people write it.
- ``{}`` or ``[]`` inside a template says nothing about its contents, so any contents are taken. A
  template that is itself ``{}`` asks for nothing.
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
from signoff.core.lexicon.languages import is_false, is_true

LONGEST_TEXT: Final = 2_000
LARGEST_NUMBER: Final = 2**53 - 1
DEEPEST_JSON: Final = 20
LONE_FIELD: Final = "value"
_LONGEST_NUMBER: Final = 40


def fields_of(template: JsonValue) -> dict[str, JsonValue]:
    """Return the fields of a template, by name, with what each starts as.

    Args:
        template: The tool's template, or None when it asked for no payload.

    Returns:
        The object itself, ``{"value": template}`` for any other JSON, and nothing for None.
    """
    if template is None:
        return {}
    return template if isinstance(template, dict) else {LONE_FIELD: template}


def find_field(template: JsonValue, name: str) -> str | None:
    """Return the field a person means by a name, or None.

    Case, spaces, hyphens and underscores are taken alike, as long as only one field fits.
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
    """Convert what a person typed into the kinds the template asks for.

    A number may be grouped ("1,000,000") only where the grouping can mean nothing else: "1,000" and
    "1.000" are one thousand to some and one to others, and are refused.

    Args:
        template: The tool's template. None takes any name and any value.
        entries: Names and the raw text beside them.
        currencies: Of the fields that are amounts of money: it may stand beside the number, and no
            other one may.

    Returns:
        The values by the template's own field names; fields not named are left out.

    Raises:
        PayloadError: A name that is no field, a name given twice, or text that is not of the
            field's kind.
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
    """Return the number of an amount in a currency: "2,500.00" of "2,500.00 EUR"."""
    plain = plain_line(text)
    for part in (plain.upper().removesuffix(currency), plain.upper().removeprefix(currency)):
        if len(part) < len(plain) and part.strip() and not part.strip()[-1].isalpha():
            return part.strip()
    return text


def check_payload(template: JsonValue, payload: JsonValue) -> JsonValue:
    """Hold a payload that is already structured to its template.

    A whole number is taken where a decimal number is asked for, never the other way round, and a
    boolean is never a number.

    Args:
        template: The tool's template. None takes any JSON within the limits on numbers and text.
        payload: What a form, a button or a programme sent.

    Returns:
        The payload with the fields it left out as they start in the template.

    Raises:
        PayloadError: A key the template does not have, or a value of another kind.
    """
    if template == {} and payload != {}:
        first = next(iter(payload)) if isinstance(payload, dict) and payload else LONE_FIELD
        raise _unknown(template, first)
    named = template is None or isinstance(template, dict)
    return _check("" if named else LONE_FIELD, template, payload)


def fill(template: JsonValue, values: Mapping[str, JsonValue] | None) -> JsonValue:
    """Return the payload the tool gets: the template with the values put over it.

    Raises:
        PayloadError: As ``check_payload``.
    """
    if template is None:
        return dict(values) if values else None
    if isinstance(template, dict):
        return check_payload(template, dict(values or {}))
    return check_payload(template, (values or {}).get(LONE_FIELD, template))


def missing_fields(template: JsonValue, values: Mapping[str, JsonValue] | None) -> list[str]:
    """Return the fields a person still has to fill, in the template's order.

    Approving an empty field would let the tool run on a zero that nobody chose. ``False`` and empty
    objects and lists are choices; ``0``, ``0.0``, ``""`` and ``None`` are blanks.
    """
    given = values or {}
    return [
        name for name, start in fields_of(template).items() if _blank(start) and name not in given
    ]


def example_value(start: JsonValue) -> str:
    """Return text that a field which starts like this would take, for help and error messages."""
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
    # "1.125" is refused as ambiguous, and so is what has too many digits.
    try:
        _read_number(LONE_FIELD, 0.0, text)
    except PayloadError:
        return "2.5"
    return text


def _read_as(field: str, start: JsonValue, text: str) -> JsonValue:
    """Read text as the kind that the field starts with."""
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
    word = plain_line(text).casefold().rstrip(".!")
    if is_true(word):
        return True
    if is_false(word):
        return False
    raise _wrong(field, start, text, "yes or no")


def _read_number(field: str, start: float, text: str) -> int | float:
    """Read digits with an optional sign, grouping and decimal mark, and nothing else."""
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
    """Read a day, for a field that starts as one: 2026-11-21."""
    day = read_date(plain_line(_read_text(text)).rstrip("."))
    if day is None:
        raise _wrong(field, start, text, "a day with its year, that can be read in one way only")
    return day.isoformat()


def _read_text(text: str) -> str:
    plain = clean_text(text).strip()
    quoted = len(plain) >= 2 and plain[0] == plain[-1] == '"' and plain.count('"') == 2
    return plain[1:-1] if quoted else plain


def _read_any(field: str, text: str) -> JsonValue:
    """Read JSON where the text is JSON, and text where it is not."""
    if len(text) > LONGEST_TEXT:
        raise _wrong(field, None, text, f"at most {LONGEST_TEXT:,} characters")
    try:
        value = _read_json(field, None, text)
    except ValueError:
        return _read_text(text)
    return _check(field, None, value)


def _read_json(field: str, start: JsonValue, text: str) -> JsonValue:
    """Read strict JSON: no NaN, no repeated keys, no bottomless nesting; else ValueError."""

    def constant(name: str) -> JsonValue:
        raise _wrong(field, start, name, "a finite number")

    def object_of(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
        if len(dict(pairs)) < len(pairs):
            raise _wrong(field, start, text, "an object that names each key once")
        return dict(pairs)

    if text.count("[") + text.count("{") > DEEPEST_JSON * DEEPEST_JSON:
        raise _wrong(field, start, text, "less deeply nested JSON")
    # json.loads is typed as Any; what it returns with these hooks is JSON.
    value: JsonValue = json.loads(text, parse_constant=constant, object_pairs_hook=object_of)
    return value


def _check(where: str, start: JsonValue, value: JsonValue, depth: int = 0) -> JsonValue:
    """Check one value against what stands in its place in the template."""
    if depth > DEEPEST_JSON:
        raise _wrong(where, start, "…", f"JSON nested at most {DEEPEST_JSON} deep")
    if isinstance(start, dict):
        if not isinstance(value, dict):
            raise _wrong(where, start, value, _kind(start))
        return _check_object(where, start, value, depth)
    if isinstance(start, list):
        if not isinstance(value, list):
            raise _wrong(where, start, value, _kind(start))
        # A list template shows one element; a longer one says nothing more about those that follow.
        return [_check(where, start[0] if start else None, item, depth + 1) for item in value]
    if start is None:
        return _check_free(where, value, depth)
    return _check_scalar(where, start, value)


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
    # NaN is not below anything either.
    if not abs(value) <= LARGEST_NUMBER:
        raise _wrong(where, start, value, f"a finite number no larger than {LARGEST_NUMBER:,}")
    return float(value) if decimal else value


def _sound(where: str, text: str) -> str:
    """Refuse text that is too long or that UTF-8 cannot carry."""
    if len(text) > LONGEST_TEXT:
        raise _wrong(where, "", text, f"at most {LONGEST_TEXT:,} characters")
    if any("\ud800" <= mark <= "\udfff" for mark in text):
        raise _wrong(where, "", "a lone surrogate", "Unicode text")
    return text


def _kind(start: JsonValue) -> str:
    """Name a kind in words for the person who has to write one."""
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
    # Python refuses to spell out integers of many thousand digits.
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
