"""Requests for input: from a schema to a form, and from a person's words to a value."""

from __future__ import annotations

import contextlib
from datetime import timedelta
from typing import Any, Literal

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field, JsonValue, TypeAdapter

from builders import MARA, NOON, asked_approval, make_approval, make_call, make_origin, people
from signoff.core.approvals.answers import example_of_yes
from signoff.core.approvals.approval import Approval, Kind, State, ToolCall
from signoff.core.approvals.input.form import (
    Form,
    GivenAnswer,
    read_form,
)
from signoff.core.approvals.parts import INPUT, approval_id
from signoff.core.base.errors import PayloadError
from signoff.core.replies.reading import read_reply
from signoff.core.replies.reply import Approve, Reject, Unclear
from signoff.core.replies.text import ReplyContext


class Address(BaseModel):
    """A postal address."""

    street: str
    floor: int = 0
    country: Literal["NO", "SE"]
    note: str | None = None


class Review(BaseModel):
    """A reviewer's verdict."""

    approved: bool
    comment: str = Field(description="What should be better")


def asked(
    schema: JsonValue = None, message: str = "Where to?", payload: JsonValue = None
) -> ToolCall:
    """Return a request for input."""
    args = {"message": message, "payload": payload, "response_schema": schema}
    return ToolCall(id="i-1", name=INPUT, args=args)


def question(schema: JsonValue = None) -> Approval:
    """Return an approval that asks Mara for input."""
    approval, _ = Approval.open(
        make_origin(), asked(schema), hint="", template=None, now=NOON, kind=Kind.INPUT
    )
    return asked_approval(origin=approval.origin).model_copy(
        update={
            "kind": Kind.INPUT,
            "call": approval.call,
            "digest": approval.digest,
            "template": approval.template,
        }
    )


def say(approval: Approval, text: str) -> Approval:
    """Let Mara answer in her own words."""
    reply = read_reply(text, ReplyContext(fields=approval.template))
    assert isinstance(reply, Approve | Reject), reply
    act: Any = approval.approve if isinstance(reply, Approve) else approval.reject
    more = {"values": reply.values} if isinstance(reply, Approve) else {}
    reason = reply.note if isinstance(reply, Approve) else reply.reason
    after: Approval
    after, _ = act(
        MARA, people(), channel="email", now=NOON + timedelta(1 / 24), reason=reason, **more
    )
    return after


ANSWERS: dict[str, tuple[JsonValue, str, JsonValue]] = {
    "an object": (
        Address.model_json_schema(),
        "approve\nstreet: Storgata 1\ncountry: NO",
        {"street": "Storgata 1", "floor": 0, "country": "NO"},
    ),
    "an object with what may be left out": (
        Address.model_json_schema(),
        "approve\nstreet: x\nfloor: 4\ncountry: SE\nnote: ring twice",
        {"street": "x", "floor": 4, "country": "SE", "note": "ring twice"},
    ),
    "a boolean": ({"type": "boolean"}, "yes\nnote: go on", True),
    "a whole number": ({"type": "integer"}, "approve 7", 7),
    "a number": ({"type": "number"}, "approve 2.5", 2.5),
    "a text": ({"type": "string"}, "approve\nvalue: 0042", "0042"),
    "a list": (TypeAdapter(list[int]).json_schema(), "approve\nvalue: [1, 2]", [1, 2]),
    "a free object": ({"type": "object"}, 'approve\nvalue: {"a": 1}', {"a": 1}),
    "anything, in words": (None, "approve\nvalue: the blue one", "the blue one"),
    "anything, in JSON": (None, "approve\nvalue: 12", 12),
    "Google's names of types": ({"type": "INTEGER"}, "approve 3", 3),
    "a schema that is none": ({"type": "whatever"}, "approve\nvalue: x", "x"),
    "nothing": ({"type": "null"}, "approve", None),
    "a choice": ({"enum": ["a", "b"]}, "approve\nvalue: b", "b"),
    "a choice as people write it": ({"enum": ["Norway", "Sweden"]}, "yes\nvalue: norway", "Norway"),
    "a number or nothing": (
        {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "approve 3",
        3,
    ),
    "a referred object": (
        {"$ref": "#/$defs/A", "$defs": {"A": Address.model_json_schema()}},
        "approve\nstreet: x\ncountry: NO",
        {"street": "x", "floor": 0, "country": "NO"},
    ),
    "a review": (
        Review.model_json_schema(),
        "approve\nnote: well done",
        {"approved": True, "comment": "well done"},
    ),
    "a review by fields": (
        Review.model_json_schema(),
        "approve\ncomment: well done",
        {"approved": True, "comment": "well done"},
    ),
}


@pytest.mark.parametrize("case", ANSWERS)
def test_answer_text_becomes_a_value_of_the_schemas_type(case: str) -> None:
    """The workflow gets the value of the mail with the right type."""
    schema, text, wanted = ANSWERS[case]
    after = say(question(schema), text)
    assert after.state is State.APPROVED
    assert after.decision is not None
    assert after.decision.payload == wanted
    assert type(after.decision.payload) is type(wanted)


MISTAKES: dict[str, tuple[JsonValue, str, str, str, str]] = {
    "left out": (Address.model_json_schema(), "approve\nstreet: x", "country", "", "country: NO"),
    "no such choice": (
        Address.model_json_schema(),
        "approve\nstreet: x\ncountry: DE",
        "country",
        "DE",
        "country: NO",
    ),
    "too large": ({"type": "integer", "maximum": 5}, "approve 6", "value", "6", "value: 3"),
    "nothing said": ({"type": "string"}, "approve", "value", "", "value: text"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_error_for_a_wrong_value_names_field_value_and_example(case: str) -> None:
    """The error names the field and what was read, and shows a value that would be accepted."""
    schema, text, key, read, example = MISTAKES[case]
    with pytest.raises(PayloadError) as raised:
        say(question(schema), text)
    assert (raised.value.key, raised.value.read) == (key, read)
    assert raised.value.example.startswith(example)


def test_a_yes_with_a_no_in_a_field_is_neither() -> None:
    """A reply is asked back and names the field; an approval with such a value is an error."""
    asked = question(Review.model_json_schema())
    reply = read_reply("approve\napproved: no", ReplyContext(fields=asked.template))
    assert isinstance(reply, Unclear)
    assert 'You approve, but "approved" says no.' in reply.problem
    with pytest.raises(PayloadError) as raised:
        asked.approve(MARA, people(), channel="email", now=NOON, values={"approved": False})
    assert (raised.value.key, raised.value.read) == ("approved", "no")


@pytest.mark.parametrize(
    ("schema", "wanted"),
    [
        ({"type": "boolean"}, GivenAnswer(value=False)),
        (Review.model_json_schema(), GivenAnswer({"approved": False, "comment": "too long"})),
        (Address.model_json_schema(), None),
        ({"type": "string"}, None),
        (None, GivenAnswer(None)),
    ],
)
def test_rejection_payload_is_the_schemas_answer_for_no(
    schema: JsonValue, wanted: GivenAnswer | None
) -> None:
    """The rejection is always recorded; its payload is the schema's answer for "no"."""
    assert read_form(schema).refuse("too long") == wanted
    after = say(question(schema), "reject: too long")
    assert after.state is State.REJECTED
    assert after.decision is not None
    assert after.decision.payload == (wanted.value if wanted else None)


OBJECT = Review.model_json_schema()


@pytest.mark.parametrize(
    ("schema", "answer", "wanted"),
    [
        ({"type": "boolean"}, True, (True, None)),
        ({"type": "boolean"}, False, (False, None)),
        ({"type": "boolean"}, "true", "true or false"),
        ({"type": "boolean"}, None, "true or false"),
        ({"type": "boolean"}, 1, "true or false"),
        (None, "no", (False, {"value": "no"})),
        (None, False, (False, {"value": False})),
        (None, "Oslo", (True, {"value": "Oslo"})),
        # The schema has a type, so that "no" is a value.
        ({"type": "string"}, "no", (True, {"value": "no"})),
        (OBJECT, {"approved": True, "comment": "a"}, (True, {"approved": True, "comment": "a"})),
        (OBJECT, {"approved": False, "comment": "a"}, (False, {"approved": False, "comment": "a"})),
        (OBJECT, {"comment": "a"}, '"approved" should be true or false'),
        (OBJECT, {"approved": "false", "comment": "a"}, '"approved" should be true or false'),
        (OBJECT, {"approved": 0, "comment": "a"}, '"approved" should be true or false'),
        (OBJECT, [True], "an object"),
        (OBJECT, True, "an object"),
        (Address.model_json_schema(), {"street": "a"}, (True, {"street": "a"})),
        (Address.model_json_schema(), "yes", "an object"),
    ],
)
def test_answer_of_a_program_approves_only_if_it_says_so(
    schema: JsonValue, answer: JsonValue, wanted: tuple[bool, dict[str, JsonValue] | None] | str
) -> None:
    """A value of another type than true or false is not a verdict."""
    form = read_form(schema)
    if isinstance(wanted, str):
        with pytest.raises(PayloadError, match=wanted):
            form.read(answer)
    else:
        verdict, values = form.read(answer)
        assert (verdict, values) == wanted
        assert isinstance(verdict, bool)


@pytest.mark.parametrize("value", ["no", "No.", False])
def test_an_approval_whose_free_answer_says_no_is_refused(value: JsonValue) -> None:
    """Such an answer contradicts itself, so it is asked back."""
    with pytest.raises(PayloadError, match="Choose one of the two"):
        read_form(None).accept({"value": value})


def test_a_verdict_that_needs_more_than_a_reason_has_no_no() -> None:
    """A rejection without a remark lacks a field that the schema requires."""
    form = read_form(Review.model_json_schema())
    assert form.refuse("") is None
    assert form.refuse("why") is not None


def test_external_schema_reference_is_never_fetched() -> None:
    """Such a schema is not looked up, so it cannot refuse an answer either."""
    form = read_form({"type": "object", "properties": {"a": {"$ref": "http://localhost:1/x"}}})
    assert form.accept({"a": "anything"}) == {"a": "anything"}


def test_each_request_under_a_reused_interrupt_id_opens_one_approval() -> None:
    """The nodes of a workflow ask under the same id in every run."""
    origins = [make_origin().model_copy(update={"nth": nth}) for nth in (0, 1, 2)]
    assert len({approval_id(one) for one in origins}) == 3
    assert approval_id(origins[0]) == approval_id(make_origin())


def test_digest_of_a_question_covers_message_payload_and_schema() -> None:
    """Message, payload and schema are in the digest: the shown question is the answered one."""
    digests = {
        make_approval(call=call).digest
        for call in (
            asked(),
            asked(message="Where from?"),
            asked(payload={"order": 17}),
            asked({"type": "string"}),
            make_call(),
        )
    }
    assert len(digests) == 5


DOUBLING: dict[str, JsonValue] = {
    f"d{at}": {"allOf": [{"$ref": f"#/$defs/d{at + 1}"}] * 2} for at in range(60)
}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}},
        {
            "type": "object",
            "properties": {"x": {"type": "string"}},
            "patternProperties": {"^(x+)+$": {"type": "string"}},
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/d0"}},
            "$defs": {**DOUBLING, "d60": {"type": "string"}},
        },
        {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/d0", "unevaluatedProperties": False}},
            "$defs": {**DOUBLING, "d60": {"type": "string"}},
        },
    ],
    ids=["pattern", "names", "references", "unevaluated"],
)
def test_a_schema_of_a_model_keeps_no_process_busy(schema: JsonValue) -> None:
    """The check of an answer ends soon, whatever the schema wants; a wrong one may pass."""
    form = read_form(schema)
    for answer in ({"x": f"{'a' * 60}!"}, {f"{'x' * 60}!": "y"}):
        with contextlib.suppress(PayloadError):
            form.accept({**answer})


def test_a_pattern_is_checked() -> None:
    """It may match a part of the answer, as JSON Schema says; look-around is not checked."""
    part: dict[str, JsonValue] = {"type": "string", "pattern": r"^[A-Z]{2}\d+"}
    form = read_form({"type": "object", "properties": {"iban": part}})
    assert form.accept({"iban": "DE89 3704"}) == {"iban": "DE89 3704"}
    with pytest.raises(PayloadError, match="does not fit"):
        form.accept({"iban": "89 DE"})
    around = {**part, "pattern": r"^(?!DE)[A-Z]"}
    either = read_form({"type": "object", "properties": {"iban": around}})
    assert either.accept({"iban": "DE"}) == {"iban": "DE"}


@pytest.mark.parametrize("default", [2**53 + 1, 10**400])
def test_a_default_keeps_its_digits(default: int) -> None:
    """A whole number that no double can be is the answer if nobody fills the field in."""
    schema: JsonValue = {
        "type": "object",
        "properties": {"n": {"type": "number", "default": default}},
    }
    assert read_form(schema).accept({}) == {"n": default}


# --- properties -----------------------------------------------------------------------------------

names = st.text("abcdefghij_", min_size=1, max_size=8).filter(lambda name: name.strip("_"))
texts = st.text(st.characters(categories=["L", "Nd"], max_codepoint=0x24F), min_size=1, max_size=20)
parts: st.SearchStrategy[dict[str, JsonValue]] = st.one_of(
    st.just({"type": "string"}),
    st.just({"type": "integer"}),
    st.just({"type": "number"}),
    st.just({"type": "boolean"}),
    st.just({"type": "array", "items": {"type": "integer"}}),
    st.integers(-9, 9).map(lambda low: {"type": "integer", "minimum": low}),
    st.lists(texts, min_size=1, max_size=3, unique=True).map(
        lambda few: {"type": "string", "enum": few}
    ),
    st.integers(-999, 999).map(lambda one: {"type": "integer", "default": one}),
    texts.map(lambda one: {"type": "string", "default": one}),
    st.just({"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, JsonValue]:
    """Draw schemas of objects in which some properties are required."""
    properties: dict[str, JsonValue] = draw(st.dictionaries(names, parts, min_size=1, max_size=5))
    required: list[JsonValue] = [name for name in properties if draw(st.booleans())]
    return {"type": "object", "properties": properties, "required": required}


@given(st.one_of(objects(), parts))
def test_form_example_fits_the_schema(schema: dict[str, JsonValue]) -> None:
    """The example of the help text can be sent unchanged and fits the schema."""
    form = read_form(schema)
    assume(len({name.replace("_", "") for name in form.fields}) == len(form.fields))
    reply = read_reply(form.example(), ReplyContext(fields=form.template))
    assert isinstance(reply, Approve), reply
    answer = form.accept(reply.values, reply.note)
    Draft202012Validator(schema).validate(answer)


@given(objects())
def test_unchanged_card_form_is_a_valid_answer(schema: dict[str, JsonValue]) -> None:
    """Fields with a start value may stay; required fields have to be filled."""
    form = read_form(schema)
    assume(len({name.replace("_", "") for name in form.fields}) == len(form.fields))
    values = {name: form.fields[name] for name in form.shown if name not in form.required}
    for name in form.required:
        text = form.example_of(name)
        reply = read_reply(f"approve\n{name}: {text}", ReplyContext(fields=form.template))
        assert isinstance(reply, Approve), reply
        assert reply.values is not None
        values |= reply.values
    Draft202012Validator(schema).validate(form.accept(values))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


@given(json_values, st.dictionaries(names, json_values, max_size=3))
def test_no_schema_breaks_the_form(schema: JsonValue, values: dict[str, JsonValue]) -> None:
    """Any schema gives a form; an answer either fits it or is refused."""
    form = read_form(schema)
    assert isinstance(form, Form)
    assert form.example().startswith("approve")
    with contextlib.suppress(PayloadError):
        form.accept(values)


@given(objects(), st.dictionaries(names, json_values, max_size=4))
def test_recorded_answer_always_fits_the_schema(
    schema: dict[str, JsonValue], values: dict[str, JsonValue]
) -> None:
    """An answer that the schema refuses is never recorded."""
    try:
        answer = read_form(schema).accept(values)
    except PayloadError:
        return
    Draft202012Validator(schema).validate(answer)


def test_help_text_example_is_a_valid_answer() -> None:
    """The example in a "not understood" mail is an answer that works."""
    call = asked(Address.model_json_schema())
    assert example_of_yes(Kind.INPUT, call, None) == "approve\nstreet: text\ncountry: NO"


def test_a_schema_is_checked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check takes milliseconds, and every page and message about a request reads its form."""
    checked: list[object] = []
    check = Draft202012Validator.check_schema

    def counted(schema: dict[str, JsonValue]) -> None:
        checked.append(schema)
        check(schema)

    monkeypatch.setattr(Draft202012Validator, "check_schema", counted)
    properties: JsonValue = {"street_of_this_test": {"type": "STRING"}}
    schema: dict[str, JsonValue] = {"type": "OBJECT", "properties": properties}
    forms = [read_form(schema) for _ in range(3)]
    assert len(checked) == 1
    assert all(form.template == {"street_of_this_test": ""} for form in forms)
    refused: JsonValue = {**schema, "required": 7}
    assert [read_form(refused).free for _ in range(2)] == [True, True]
    assert len(checked) == 2


def test_schema_with_a_number_of_thousands_of_digits_allows_any_answer() -> None:
    """Such a number cannot be written as text, so the schema cannot be read."""
    assert read_form({"type": "integer", "maximum": 10**5_000}).free
