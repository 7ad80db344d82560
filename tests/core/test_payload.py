"""The values that a person may fill into a payload template, and those that are refused."""

import math
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from signoff.core.base.errors import PayloadError
from signoff.core.payloads.payload import (
    LARGEST_NUMBER,
    LONGEST_TEXT,
    check_payload,
    example_value,
    fill,
    find_field,
    missing_fields,
    parse_values,
)

EXPENSE: JsonValue = {
    "amount": 0,
    "rate": 0.0,
    "urgent": False,
    "note": "",
    "any": None,
    "tags": ["x"],
}

scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=30)
json_values = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.parametrize(
    ("field", "text", "value"),
    [
        ("amount", "900", 900),
        ("amount", " +900 ", 900),
        ("amount", "-3", -3),
        ("amount", "−3", -3),
        ("amount", "９００", 900),
        ("amount", "1,000,000", 1_000_000),
        ("amount", "1.000.000", 1_000_000),
        ("rate", "3", 3.0),
        ("rate", "3.5", 3.5),
        ("rate", "3,5", 3.5),
        ("rate", "0.125", 0.125),
        ("rate", "1,234.56", 1234.56),
        ("rate", "1.234,56", 1234.56),
        ("amount", "1 234", 1234),
        ("amount", "1\N{NARROW NO-BREAK SPACE}234\N{NO-BREAK SPACE}567", 1_234_567),
        ("amount", "1'234", 1234),
        ("amount", "1’234", 1234),
        ("rate", "1 234,5", 1234.5),
        ("rate", "1'234.50", 1234.5),
        ("rate", "-12 345.25", -12345.25),
        ("urgent", "Yes", True),
        ("urgent", "nein", False),
        ("urgent", "FALSE", False),
        ("note", "  fine by me ", "fine by me"),
        ("note", '"quoted"', "quoted"),
        ("note", "be\x00ll\u202e", "bell\u202e"),
        ("any", "3", 3),
        ("any", '{"a": [1, true]}', {"a": [1, True]}),
        ("any", "just text", "just text"),
        ("tags", '["a", "b"]', ["a", "b"]),
    ],
)
def test_text_is_parsed_to_the_type_of_the_template(
    field: str, text: str, value: JsonValue
) -> None:
    """Unambiguous text becomes a value of the type of the field's start value."""
    read = parse_values(EXPENSE, {field: text})[field]
    assert read == value
    assert type(read) is type(value)


@pytest.mark.parametrize(
    ("field", "text"),
    [
        ("amount", "3.5"),
        ("amount", "1,000"),
        ("amount", "1.000"),
        ("amount", "true"),
        ("amount", "nine"),
        ("amount", ""),
        ("amount", "-"),
        ("amount", "1e3"),
        ("amount", "0x10"),
        ("amount", "1_000"),
        ("amount", "900 EUR"),
        ("amount", "1,00,000"),
        ("amount", "٣"),
        ("amount", str(LARGEST_NUMBER + 1)),
        ("amount", "9" * 5_000),
        ("rate", "NaN"),
        ("rate", "inf"),
        ("rate", "1.000"),
        ("rate", "1e400"),
        ("rate", "3."),
        ("rate", "9" * 40),
        ("urgent", "maybe"),
        ("note", "x" * (LONGEST_TEXT + 1)),
        ("any", "NaN"),
        ("any", "[Infinity]"),
        ("any", "[" * 1_000),
        ("any", "[" * 30 + "]" * 30),
        ("any", '{"a": 1, "a": 2}'),
        ("any", "[1e999]"),
        ("any", '"\\ud800"'),
        ("any", "x" * (LONGEST_TEXT + 1)),
        ("tags", "a, b"),
        ("tags", "[1]"),
        ("tags", '{"a": 1}'),
    ],
)
def test_text_that_is_not_of_the_kind_is_refused(field: str, text: str) -> None:
    """A refusal names the field, what was read, and an example."""
    with pytest.raises(PayloadError) as refusal:
        parse_values(EXPENSE, {field: text})
    error = refusal.value
    assert error.key.startswith(field)
    assert error.example.startswith(field)
    assert field in str(error)
    assert error.read in str(error)
    assert error.example in str(error)
    assert len(str(error)) < 600


def test_field_names_ignore_case_spaces_hyphens_and_underscores() -> None:
    """Case, spaces, hyphens and underscores in a name do not matter if exactly one field fits."""
    assert find_field({"approved_days": 0}, "Approved days") == "approved_days"
    assert find_field({"approved_days": 0}, "days") is None
    assert find_field({"a_b": 0, "a-b": 0}, "A B") is None
    assert find_field({"a_b": 0, "a-b": 0}, "a-b") == "a-b"
    assert parse_values({"approved_days": 0}, {"APPROVED-DAYS": "3"}) == {"approved_days": 3}


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    """A person who mistypes a field learns what the fields are called."""
    with pytest.raises(PayloadError, match='"amount", "note"'):
        parse_values({"amount": 0, "note": ""}, {"sum": "3"})
    with pytest.raises(PayloadError, match="none"):
        parse_values({}, {"sum": "3"})


def test_a_field_given_twice_is_refused() -> None:
    """Two spellings of one field do not silently overwrite each other."""
    with pytest.raises(PayloadError, match="twice"):
        parse_values({"amount": 0}, {"amount": "3", "Amount": "4"})


def test_a_template_that_is_no_object_has_one_field() -> None:
    """The name "value" fills a bare template, and the result is bare again."""
    assert parse_values(0, {"value": "3"}) == {"value": 3}
    assert fill(0, {"value": 3}) == 3
    assert missing_fields(0, None) == ["value"]
    assert missing_fields(5, None) == []


def test_payload_without_a_template_is_json_or_text() -> None:
    """Without a template, valid JSON is read as JSON and other text as text."""
    assert parse_values(None, {"a": "3", "b": "x"}) == {"a": 3, "b": "x"}
    assert fill(None, {"a": 3}) == {"a": 3}
    assert fill(None, None) is None
    assert missing_fields(None, None) == []


def test_blank_field_is_missing_until_a_person_fills_it() -> None:
    """Nobody chose zero, empty text or None; False, [] and {} are values."""
    template: JsonValue = {
        "n": 0,
        "r": 0.0,
        "s": "",
        "x": None,
        "b": False,
        "l": [],
        "o": {},
        "d": 5,
        "t": "x",
    }
    assert missing_fields(template, None) == ["n", "r", "s", "x"]
    assert missing_fields(template, {"n": 0, "s": ""}) == ["r", "x"]


def test_a_payload_is_laid_over_its_template() -> None:
    """A field that the form omits keeps the template's value, at every depth."""
    template: JsonValue = {"amount": 5, "who": {"name": "Ada", "age": 30}, "free": {}, "list": []}
    assert check_payload(template, {"who": {"age": 31}, "free": {"k": [1]}, "list": [1, "a"]}) == {
        "amount": 5,
        "who": {"name": "Ada", "age": 31},
        "free": {"k": [1]},
        "list": [1, "a"],
    }
    filled = fill(template, {"amount": 6})
    assert isinstance(filled, dict)
    assert filled["amount"] == 6
    assert check_payload({"rate": 0.5}, {"rate": 2}) == {"rate": 2.0}
    assert check_payload(None, {"a": [None, True, "x"]}) == {"a": [None, True, "x"]}
    assert check_payload({}, {}) == {}


@pytest.mark.parametrize(
    ("template", "payload", "key"),
    [
        ({"n": 0}, {"n": True}, "n"),
        ({"n": 0}, {"n": 3.0}, "n"),
        ({"n": 0}, {"n": "3"}, "n"),
        ({"n": 0}, {"n": None}, "n"),
        ({"n": 0}, {"m": 3}, "m"),
        ({"n": 0}, [3], "payload"),
        ({"n": 0}, {"n": 2**53}, "n"),
        ({"n": 0}, {"n": 10**5_000}, "n"),
        ({"b": False}, {"b": 0}, "b"),
        ({"s": ""}, {"s": "x" * (LONGEST_TEXT + 1)}, "s"),
        ({"s": ""}, {"s": "\ud800"}, "s"),
        ({"r": 0.5}, {"r": math.nan}, "r"),
        ({"r": 0.5}, {"r": math.inf}, "r"),
        ({"r": 0.5}, {"r": 10**400}, "r"),
        ({"o": {"a": 1}}, {"o": {"b": 1}}, "o.b"),
        ({"o": {"a": 1}}, {"o": 1}, "o"),
        ({"l": [1]}, {"l": ["x"]}, "l"),
        ({"l": [1]}, {"l": 1}, "l"),
        ({}, {"a": 1}, "a"),
        ({}, 3, "value"),
        (0, "3", "value"),
        (None, math.nan, "payload"),
        (None, {"a": object()}, "a"),
    ],
)
def test_a_payload_of_another_shape_is_refused(
    template: JsonValue, payload: JsonValue, key: str
) -> None:
    """A structured payload has the template's keys and types; a boolean is not a number."""
    with pytest.raises(PayloadError) as refusal:
        check_payload(template, payload)
    assert refusal.value.key == key


def test_bottomless_payloads_are_refused() -> None:
    """Nesting is limited, so that checking it cannot exhaust the stack."""
    deep: JsonValue = 1
    for _ in range(100):
        deep = [deep]
    with pytest.raises(PayloadError):
        check_payload({"x": None}, {"x": deep})


@given(json_values, st.dictionaries(st.text(max_size=8), st.text(max_size=60), max_size=4))
def test_parsing_raises_only_payload_errors(template: JsonValue, entries: dict[str, str]) -> None:
    """For any template and text, the result is values or a PayloadError."""
    try:
        values = parse_values(template, entries)
    except PayloadError:
        return
    assert len(values) == len(entries)


@pytest.mark.parametrize(
    "template",
    [["a", 1], [1, None], [{"item": "desk"}, {"item": "lamp", "note": "blue"}], [[1], ["a"]]],
)
def test_a_list_of_different_elements_can_be_approved_as_it_is(template: JsonValue) -> None:
    """Its first element does not describe the others, so that they may be anything."""
    assert fill(template, None) == template
    assert fill({"rows": template}, {"rows": template}) == {"rows": template}


def test_a_list_of_equal_elements_takes_only_such() -> None:
    """Its first element describes all of them."""
    with pytest.raises(PayloadError):
        fill({"rows": ["a", "b"]}, {"rows": ["a", 1]})


@given(json_values, json_values)
def test_checking_raises_only_payload_errors(template: JsonValue, payload: JsonValue) -> None:
    """For any template and payload, the result is a payload or a PayloadError."""
    try:
        checked = check_payload(template, payload)
    except PayloadError:
        return
    assert isinstance(checked, dict) == isinstance(payload, dict)


@given(st.integers(-LARGEST_NUMBER, LARGEST_NUMBER))
def test_every_whole_number_survives_being_typed(number: int) -> None:
    """Typed plain digits become that number."""
    assert parse_values({"n": 0}, {"n": str(number)}) == {"n": number}
    assert parse_values({"n": 0}, {"n": example_value(number)}) == {"n": number or 3}


@given(
    scalars.filter(lambda value: value is None or not isinstance(value, int) or abs(value) < 2**53)
)
def test_examples_are_accepted(start: JsonValue) -> None:
    """A field accepts the example that is shown for it."""
    assert set(parse_values({"field": start}, {"field": example_value(start)})) == {"field"}


@pytest.mark.parametrize(
    "text",
    [
        *(
            "2026-11-21",
            "2026/11/21",
            "2026.11.21",
            "2026年11月21日",
            "2026년 11월 21일",
            "2026. 11. 21.",
        ),
        *(
            "21.11.2026",
            "21. 11. 2026",
            "21/11/2026",
            "11/21/2026",
            "21-11-2026",
            "２１．１１．２０２６",
        ),
        *("Nov 21, 2026", "21 Nov 2026", "November 21st, 2026", "the 21st of November 2026"),
        *("21. November 2026", "21 novembre 2026", "21 de noviembre de 2026", '"21 Nov 2026"'),
        *("21 de novembro de 2026", "21 nov. 2026", "21 NOV 2026", "2026 November 21"),
    ],
)
def test_date_field_accepts_every_unambiguous_form(text: str) -> None:
    """A field with a start date accepts every form that means exactly one day."""
    assert parse_values({"day": "2026-01-01"}, {"day": text}) == {"day": "2026-11-21"}


@pytest.mark.parametrize(
    "text",
    [
        *("03/04/2026", "Nov 21", "21.11.", "21.11.26", "31.02.2026", "tomorrow", "", "2026", "0"),
        *("13/13/2026", "Nov 31, 2026", "Nov Dec 2026", "21 Nov 2026 or later", "2026-11-21T10:00"),
        *("21 21 2026", "1 Nov 21 2026", "9" * 50, "21_11_2026", "-21.11.2026x"),
    ],
)
def test_date_field_refuses_invalid_and_ambiguous_days(text: str) -> None:
    """The error says what was read and shows a day that would be accepted."""
    with pytest.raises(PayloadError) as caught:
        parse_values({"day": "2026-01-01"}, {"day": text})
    assert caught.value.key == "day"
    assert caught.value.example == "day: 2026-01-01"
    assert f'"{text[:20]}' in str(caught.value)


@given(st.dates(), st.sampled_from(["%Y-%m-%d", "%d.%m.%Y", "%d %B %Y", "%b %d, %Y", "%Y/%m/%d"]))
def test_every_day_is_read_back(day: date, form: str) -> None:
    """An unambiguous form reads back as that day."""
    year = f"{day.year:04}"
    text = day.strftime(form.replace("%Y", "YYYY")).replace("YYYY", year)
    expected = {"day": day.isoformat()}
    if day.year > 1000:
        assert parse_values({"day": "2026-01-01"}, {"day": text}) == expected


@given(st.text(max_size=30))
def test_any_text_is_a_day_or_is_refused(text: str) -> None:
    """The result is a day, or the text is refused."""
    try:
        value = parse_values({"day": "2026-01-01"}, {"day": text})["day"]
    except PayloadError:
        return
    assert isinstance(value, str)
    assert len(value) == 10


@pytest.mark.parametrize(
    "text", ["1 23", "12 34 567", "1 234 56", "1 234.", "1'23'4", " ' ", "1 2 3"]
)
def test_numbers_grouped_wrongly_are_refused(text: str) -> None:
    """A space either groups three digits or separates two numbers."""
    with pytest.raises(PayloadError):
        parse_values(EXPENSE, {"rate": text})
