"""Answers to a request for input without a schema."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from signoff.core.replies.free import read_free_reply
from signoff.core.replies.refusals import says_no
from signoff.core.replies.reply import Approve, Ask, Claim, Reject, Unclear
from signoff.core.replies.text import Names, ReplyContext

CONTEXT = ReplyContext(fields={"value": None}, author=Names(["Mara Lind"]))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"approved": true}', {"approved": True}),
        ("Hello,\n\n{“approved”: true}\n\nBest,\nMara", {"approved": True}),
        ("A-17", "A-17"),
        ("42", 42),
        ("true", True),
        ("Hi,\n\nThe second one.\nAnd a spare.\n\nBest regards,\nMara", None),
        ("value: I would not do that", "I would not do that"),
        ("value: which one?", "which one?"),
    ],
)
def test_text_and_json_are_the_answer(text: str, value: JsonValue) -> None:
    """The greeting and the signature do not belong to the answer."""
    reply = read_free_reply(text, CONTEXT)
    assert isinstance(reply, Approve), reply
    assert reply.values == {"value": value or "The second one.\nAnd a spare."}


@pytest.mark.parametrize(
    "text",
    [
        "no",
        "reject: too late",
        "nein",
        "false",
        "value: no",
        '{"approved": false}',
        '{"approved": "no"}',
        '{"decision": "denied"}',
        '{"rejected": true}',
    ],
)
def test_a_no_is_never_an_approval(text: str) -> None:
    """A rejection in any form is never read as an approval."""
    assert isinstance(read_free_reply(text, CONTEXT), Reject)


@pytest.mark.parametrize(
    "text",
    [
        "Which one?",
        "I would not take any of these",
        "yes, the blue one",
        '{"approved": tru',
        "",
        "away next week",
    ],
)
def test_ambiguous_free_reply_gets_a_question_back(text: str) -> None:
    """A question, a mixed answer, broken JSON or half a command gets a question back."""
    reply = read_free_reply(text, CONTEXT)
    assert isinstance(reply, Unclear)
    assert reply.problem


def test_bare_yes_has_no_value_and_commands_stay_commands() -> None:
    """A bare yes has no value until the settings give it one; commands stay commands."""
    yes = read_free_reply("approve", CONTEXT)
    assert isinstance(yes, Approve)
    assert yes.values is None
    assert isinstance(read_free_reply("claim", CONTEXT), Claim)
    assert isinstance(read_free_reply("ask: which one", CONTEXT), Ask)


@given(st.dictionaries(st.sampled_from(["approved", "ok", "city"]), st.booleans(), min_size=1))
def test_json_object_rejects_only_if_a_verdict_field_is_false(value: dict[str, bool]) -> None:
    """An object is an approval if and only if none of its verdict fields is false."""
    no = any(not yes for name, yes in value.items() if name != "city")
    reply = read_free_reply(json.dumps(value), CONTEXT)
    assert isinstance(reply, Reject if no else Approve)
    assert says_no(dict(value)) is no
