"""The scripted model and the example agents that play it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from signoff.testing import (
    ScriptedModel,
    ToolCall,
    ToolResult,
    Turn,
    finance_script,
    model_or_script,
    time_off_script,
)
from signoff.testing.model import read_turn

AGENTS = Path(__file__).parents[2] / "examples" / "agents"


def call(name: str, **args: object) -> types.Content:
    """Return a model's tool call in ADK's form, without ADK's own id."""
    part = types.Part(function_call=types.FunctionCall(name=name, args=args))
    return types.Content(role="model", parts=[part])


def answer(name: str, **response: object) -> types.Content:
    """Return a tool's answer."""
    part = types.Part(function_response=types.FunctionResponse(name=name, response=response))
    return types.Content(role="user", parts=[part])


def said(text: str) -> types.Content:
    """Return a user's message."""
    return types.Content(role="user", parts=[types.Part(text=text)])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Please reimburse $2500 for a laptop.", [(2500.0, "a laptop")]),
        ("2,500 EUR for a conference", [(2500.0, "a conference")]),
        ("1.50 for the coffee", [(1.5, "the coffee")]),
        ("2 nights, $300 for the hotel", [(300.0, "the hotel")]),
        ("$40 for lunch and $1,200.50 for a flight", [(40.0, "lunch"), (1200.5, "a flight")]),
        ("Reimburse $7", [(7.0, "Reimburse $7")]),
    ],
)
def test_amounts_are_read_from_the_message(text: str, expected: list[tuple[float, str]]) -> None:
    """The finance script calls the tool once for each amount of money in the message."""
    assert finance_script(Turn(text)) == [
        ToolCall("reimburse", {"amount": amount, "purpose": purpose})
        for amount, purpose in expected
    ]


def test_a_message_without_a_number_gets_a_question() -> None:
    """Both scripts ask back if the message does not say what to call a tool with."""
    assert finance_script(Turn("hello")) == "How much shall I reimburse, and what for?"
    assert time_off_script(Turn("hello")) == "How many days would you like to take off?"


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"status": "reimbursed", "amount": 5.0}, "I have reimbursed 5.00."),
        ({"error": "over budget"}, "The reimbursement of 5.00 was not made: over budget"),
        (
            {"error": "This tool call is rejected.", "reason": "no receipt"},
            "The reimbursement of 5.00 was not made: no receipt",
        ),
        (
            {"error": "This tool call requires confirmation, please approve or reject."},
            "The reimbursement of 5.00 is waiting for approval.",
        ),
    ],
)
def test_finance_script_describes_the_payment_result(
    response: dict[str, object], expected: str
) -> None:
    """The finance script distinguishes paid, refused (with the reason) and waiting."""
    assert (
        finance_script(Turn("", (ToolResult("reimburse", response, {"amount": 5.0}),))) == expected
    )


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ({"status": "ok", "approved_days": 2}, "You may take 2 days off."),
        (
            {"status": "Manager approval is required."},
            "Your request for time off is waiting for approval.",
        ),
        (
            {"status": "The time off request is rejected.", "approved_days": 0},
            "You cannot take this time off: The time off request is rejected.",
        ),
    ],
)
def test_time_off_script_describes_the_request_result(
    response: dict[str, object], expected: str
) -> None:
    """The time-off script distinguishes granted, refused and waiting."""
    turn = Turn("", (ToolResult("request_time_off", response, {"days": 3}),))
    assert time_off_script(turn) == expected


def test_script_sees_only_events_since_the_last_user_text() -> None:
    """A script does not see earlier turns or the work of other agents."""
    contents = [
        said("first"),
        call("pay", amount=1),
        answer("pay", paid=1),
        said("second"),
        said("For context: below is a transcript of what another agent did"),
        call("pay", amount=2),
        call("pay", amount=3),
        answer("pay", paid=2),
        answer("pay", paid=3),
    ]
    assert read_turn(LlmRequest(contents=contents)) == Turn(
        "second",
        (
            ToolResult("pay", {"paid": 2}, {"amount": 2}),
            ToolResult("pay", {"paid": 3}, {"amount": 3}),
        ),
    )


def test_script_sees_the_latest_response_to_each_call() -> None:
    """A script sees the latest response to each call."""
    contents = [said("x"), call("pay"), answer("pay", status="pending"), answer("pay", status="ok")]
    assert read_turn(LlmRequest(contents=contents)).tool_results == (
        ToolResult("pay", {"status": "ok"}),
    )


def test_without_a_key_the_script_plays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The key and `SIGNOFF_MODEL` decide which model an example gets."""
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("SIGNOFF_MODEL", raising=False)
    assert isinstance(model_or_script(finance_script), ScriptedModel)
    monkeypatch.setenv("GOOGLE_API_KEY", "key")
    assert model_or_script(finance_script) == "gemini-flash-latest"
    monkeypatch.setenv("SIGNOFF_MODEL", "gemini-pro-latest")
    assert model_or_script(finance_script) == "gemini-pro-latest"


@pytest.mark.parametrize("name", ["finance", "finance_strict", "time_off"])
def test_example_agents_load_with_adks_loader(name: str) -> None:
    """Each folder of examples/agents loads under its own name with ADK's own loader."""
    from google.adk.cli.utils.agent_loader import AgentLoader

    loaded = AgentLoader(str(AGENTS)).load_agent(name)
    assert loaded.name == name
