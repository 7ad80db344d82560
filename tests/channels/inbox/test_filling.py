"""The form on the page: from a template or a schema to inputs, and back to values."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from functools import partial
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from browser import Browser, forms_of
from builders import MARA, make_approval, make_call, present
from channels.conftest import Channels
from channels.inbox.crowd import PLAIN, enter, send
from signoff.channels.form_fields import Field, Input, PayloadErrors, fields
from signoff.channels.inbox.pages.fields import Control, controls, read_values
from signoff.channels.inbox.settings import page_of
from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval, Kind, State
from signoff.core.approvals.parts import INPUT
from signoff.core.payloads.payload import missing_fields

_NAMES = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs")), min_size=1, max_size=8
)
_TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00\r"), max_size=100)
_NUMBERS = st.one_of(
    st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
_PLAIN = st.one_of(st.none(), st.booleans(), _NUMBERS, _TEXTS, st.just("2026-11-21"))
_JSON = st.recursive(
    st.one_of(st.booleans(), st.integers(-99, 99), st.text(max_size=5)),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


def _same_kind(start: JsonValue, made: JsonValue) -> bool:
    return type(made) is type(start)


TEMPLATES = st.dictionaries(
    _NAMES,
    _PLAIN | st.lists(_JSON, max_size=3) | st.dictionaries(_NAMES, _JSON, max_size=3),
    max_size=8,
)
SCHEMA: JsonValue = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "seats": {"type": "integer", "minimum": 1},
        "price": {"type": "number", "default": 2.5},
        "plan": {"type": "string", "enum": ["small", "large"]},
        "level": {"enum": [1, 2, 3], "default": 2},
        "start": {"type": "string", "format": "date"},
        "remote": {"type": "boolean"},
        "notes": {"type": "string", "description": "For the file"},
        "more": {"type": "object", "default": {"a": [1]}},
        "spare": {"type": "integer"},
    },
    "required": ["seats", "plan", "start", "remote"],
}


def of_schema(schema: JsonValue) -> Approval:
    """Return a request for input with a schema."""
    call = make_call(INPUT, message="?", payload=None, response_schema=schema)
    return Approval.open(
        make_approval().origin,
        call,
        hint="",
        template=None,
        now=make_approval().opened_at,
        kind=Kind.INPUT,
    )[0]


def read(wanted: Sequence[Field], sent: Mapping[str, str]) -> tuple[dict[str, JsonValue], set[str]]:
    """Return the values of a form, or the names of its invalid fields."""
    try:
        return read_values(wanted, sent), set()
    except PayloadErrors as error:
        return {}, set(error.problems)


def untouched(made: tuple[Control, ...]) -> dict[str, str]:
    """Return a browser's data for an untouched form, with the browser's line ends."""
    sent = {one.id: one.text.replace("\n", "\r\n") for one in made}
    return {
        one.id: sent[one.id]
        for one in made
        if one.input is not Input.BOOLEAN or one.text  # an unselected radio button is not sent
    }


@given(template=TEMPLATES)
def test_an_untouched_form_changes_no_value(template: dict[str, JsonValue]) -> None:
    """Showing a template and sending it back changes no value and refuses none."""
    approval = make_approval(template=template)
    wanted = fields(approval)
    made = controls(wanted, {}, {})
    lacking = missing_fields(template, None)
    assert [one.label for one in made if one.required] == [
        one.label for one, field in zip(made, wanted, strict=True) if field.name in lacking
    ]
    values, problems = read(wanted, untouched(made))
    assert problems == set(lacking)
    assert values == {}


@given(template=TEMPLATES, other=st.data())
def test_changed_inputs_are_read_back(template: dict[str, JsonValue], other: st.DataObject) -> None:
    """Other values of the same kinds are read back from the displayed inputs."""
    approval = make_approval(template={**template, "note": "x"})
    wanted = fields(approval)
    sent: dict[str, str] = {}
    meant: dict[str, JsonValue] = {}
    for field, one in zip(wanted, controls(wanted, {}, {}), strict=True):
        match field.input:
            case Input.BOOLEAN:
                meant[field.name] = yes = other.draw(st.booleans())
                sent[one.id] = "yes" if yes else "no"
            case Input.INTEGER:
                meant[field.name] = number = other.draw(st.integers(-999, 999))
                sent[one.id] = str(number)
            case Input.DATE:
                meant[field.name] = sent[one.id] = other.draw(st.dates()).isoformat()
            case Input.JSON:
                like = partial(_same_kind, field.start)
                meant[field.name] = value = other.draw(_JSON.filter(like))
                sent[one.id] = json.dumps(value)
    sent |= {
        one.id: "words" if field.input is Input.TEXT else "1.5"
        for field, one in zip(wanted, controls(wanted, {}, {}), strict=True)
        if field.input in {Input.TEXT, Input.NUMBER}
    }
    values = read_values(wanted, sent)
    # An unchanged choice is left out, and so stays the same.
    kept = {field.name: field.first for field in wanted} | values
    assert {name: kept[name] for name in meant} == meant


@given(
    sent=st.dictionaries(st.sampled_from([f"field.{n}" for n in range(12)]), st.text(max_size=30))
)
def test_whatever_is_sent_is_read_or_refused_at_its_field(sent: dict[str, str]) -> None:
    """No text raises another error, and a read value always fits its kind."""
    approval = of_schema(SCHEMA)
    wanted = fields(approval)
    names = {field.name for field in wanted}
    values, problems = read(wanted, sent)
    assert problems | set(values) <= names
    shown = controls(wanted, sent, dict.fromkeys(problems, "wrong"))
    assert {one.label for one in shown if one.problem} == problems


def test_the_inputs_of_a_schema() -> None:
    """Each kind has its input; without a default it is empty, and zero is not sent."""
    made = {one.label: one for one in controls(fields(of_schema(SCHEMA)), {}, {})}
    kinds = {name: one.input for name, one in made.items()}
    assert kinds == {
        "seats": Input.INTEGER,
        "price": Input.NUMBER,
        "plan": Input.CHOICE,
        "level": Input.CHOICE,
        "start": Input.DATE,
        "remote": Input.BOOLEAN,
        "notes": Input.TEXT,
        "more": Input.JSON,
        "spare": Input.INTEGER,
    }
    assert {name for name, one in made.items() if one.required} == {
        *("seats", "plan", "start", "remote"),
    }
    assert (made["price"].text, made["level"].text, made["spare"].text) == ("2.5", "1", "")
    assert made["notes"].note == "For the file"
    assert json.loads(made["more"].text) == {"a": [1]}


def test_a_schema_filled_in() -> None:
    """The entered values give the answer that the schema wants, defaults included."""
    approval = of_schema(SCHEMA)
    made = {one.label: one.id for one in controls(fields(approval), {}, {})}
    sent = untouched(controls(fields(approval), {}, {})) | {
        made["seats"]: "3",
        made["plan"]: "1",
        made["start"]: "21 Nov 2026",
        made["remote"]: "no",
        made["more"]: '{"b": 2}',
    }
    values = read_values(fields(approval), sent)
    assert form_of(approval.call).accept(values) == {
        "approved": True,
        "seats": 3,
        "price": 2.5,
        "plan": "large",
        "level": 2,
        "start": "2026-11-21",
        "remote": False,
        "more": {"b": 2},
    }


@pytest.mark.parametrize(
    ("template", "text", "says"),
    [
        ({"days": 0}, "many", "should be a whole number"),
        ({"days": 0}, "", "has to be filled in"),
        ({"sum": 2.5}, "1,000", "1,000"),
        ({"sum": 2.5}, "", "was 2.5"),
        ({"day": "2026-11-21"}, "03/04/2026", "takes a day"),
        ({"sure": True}, "maybe", "no such choice"),
        ({"list": [1]}, "{}", "takes a JSON list"),
        ({"list": [1]}, "[1", "takes JSON"),
        ({"map": {"a": 1}}, "[" * 1_000_000, "too deep"),
    ],
)
def test_an_invalid_input_has_its_error_beside_it(
    template: JsonValue, text: str, says: str
) -> None:
    """The error is shown beside the input."""
    wanted = fields(make_approval(template=template))
    with pytest.raises(PayloadErrors) as error:
        read_values(wanted, {"field.0": text})
    (problem,) = error.value.problems.values()
    assert says in str(problem)


async def test_all_errors_appear_beside_their_inputs(browser: Browser, office: Channels) -> None:
    """All errors appear together; correct input stays, and the alert has the focus."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask(template={"days": 0, "note": "", "sure": False})
    await enter(browser, MARA)
    page = await send(
        browser, approval, "approve", **{"field.0": "x", "field.1": "kept", "field.2": "yes"}
    )
    assert page.status_code == 422
    assert 'role="alert" id="alert" tabindex="-1" autofocus' in page.text
    assert '<a href="#field-0">' in page.text
    assert 'id="field-0-problem"' in page.text
    assert 'aria-describedby="field-0-problem" aria-invalid="true"' in page.text
    assert 'id="field-1-problem"' not in page.text
    form = forms_of(page)[f"{page_of(approval.id)}/approve"]
    assert (form["field.0"], form["field.1"], form["field.2"]) == ("x", "kept", "yes")
    await send(
        browser, approval, "approve", **{"field.0": "3", "field.1": "kept", "field.2": "yes"}
    )
    after = await office.ledger.approval(approval.id)
    assert (after.state, present(after.decision).payload) == (
        State.APPROVED,
        {"days": 3, "note": "kept", "sure": True},
    )


@pytest.mark.parametrize("button", ["approve", "reject"])
@pytest.mark.parametrize("draft", ["字" * 30_000, "Дата " * 20_000, "x " * 200_000])
async def test_a_form_with_long_initial_values_is_accepted(
    browser: Browser, office: Channels, draft: str, button: str
) -> None:
    """Browsers send initial values too, with up to twelve bytes for each character."""
    office.policies = (PLAIN,)
    approval, _ = await office.ask(template={"draft": draft, "copies": 1})
    await enter(browser, MARA)
    answer = await send(browser, approval, button, **{"field.1": "2"})
    assert answer.status_code == 303
    after = present((await office.ledger.approval(approval.id)).decision)
    payload = {"draft": draft, "copies": 2} if button == "approve" else None
    assert after.payload == payload


async def test_a_form_without_a_session_is_small(browser: Browser) -> None:
    """Nobody who has not signed in can make the gateway hold a long form."""
    form = {"address": MARA.email, "code": "1" * 70_000}
    assert (await browser.post("/inbox/sign-in", form)).status_code == 413
    assert (await browser.post("/inbox/away", form)).status_code == 303


async def test_a_question_is_answered(browser: Browser, office: Channels) -> None:
    """The request's schema becomes the form, and the sent values become the answer."""
    office.policies = (PLAIN,)
    asked = {"message": "Which plan?", "payload": {"order": 17}, "response_schema": SCHEMA}
    approval, _ = await office.ask(tool=INPUT, kind=Kind.INPUT, **asked)
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    for words in ("asks: Which plan?", "Details", "For the file", "Choose…"):
        assert words in page.text
    missing = await send(browser, approval, "approve")
    assert missing.status_code == 422
    assert missing.text.count('class="problem"') == 4
    names = {field.name: f"field.{at}" for at, field in enumerate(fields(approval))}
    given = {"seats": "2", "plan": "0", "start": "2026-12-01", "remote": "yes", "spare": ""}
    sent = {names[name]: text for name, text in given.items()}
    none = await send(browser, approval, "approve", **sent | {names["seats"]: "0"})
    assert none.status_code == 422
    assert 'id="field-0-problem"' in none.text
    assert (await send(browser, approval, "approve", **sent)).status_code == 303
    after = await office.ledger.approval(approval.id)
    assert present(after.decision).payload == {
        "approved": True,
        "seats": 2,
        "price": 2.5,
        "plan": "small",
        "level": 2,
        "start": "2026-12-01",
        "remote": True,
        "more": {"a": [1]},
    }


class _Texts(HTMLParser):
    """Reads the textareas of a page as a browser does, without their first line end."""

    def __init__(self) -> None:
        super().__init__()
        self.found: dict[str, str] = {}
        self._name = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start a field."""
        if tag == "textarea":
            self._name = dict(attrs)["name"] or ""
            self.found[self._name] = ""

    def handle_endtag(self, tag: str) -> None:
        """End the field."""
        self._name = ""

    def handle_data(self, data: str) -> None:
        """Add to its text."""
        if self._name:
            self.found[self._name] = data.removeprefix("\n")


async def test_text_of_several_lines_survives_the_page(browser: Browser, office: Channels) -> None:
    """Leading line ends are kept, and markup stays text."""
    office.policies = (PLAIN,)
    text = "\n\nfirst </textarea><script>\n last"
    approval, _ = await office.ask(template={"body": text})
    await enter(browser, MARA)
    page = await browser.get(page_of(approval.id))
    assert html.escape("</textarea><script>", quote=False) in page.text
    parser = _Texts()
    parser.feed(page.text)
    assert parser.found["field.0"] == text
