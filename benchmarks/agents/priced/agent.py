"""One refund in four ways; the message selects the way."""

from pathlib import Path
from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing.model import Reply, ScriptedModel, ToolCall, Turn
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.toolset import CesToolset

SMALL, LARGE = 50.0, 200.0
RULES = Rules(key="k" * 32, needs_approval=(f'tool == "refund" && args.amount >= {LARGE}',))
CALLS = {
    "call": ToolCall("refund", {"amount": SMALL}),
    "gate": ToolCall("refund_asked", {"amount": LARGE}),
    "sandbox": ToolCall("refund_code", {"amount": SMALL}),
    "code": ToolCall("refund_code", {"amount": LARGE}),
}


def refund(amount: float) -> dict[str, Any]:
    """Refund an order."""
    return {"refunded": amount}


def refund_asked(amount: float) -> dict[str, Any]:
    """Refund an order after an approval."""
    return refund(amount)


def script(turn: Turn) -> Reply:
    """Make the call that the message names, and report the result."""
    return str(dict(turn.tool_results[-1].response)) if turn.tool_results else CALLS[turn.user_text]


root_agent = Agent(
    name="priced",
    model=ScriptedModel(script=script),
    tools=[
        CesToolset(Path(__file__).parent / "tools", RULES),
        refund,
        FunctionTool(refund_asked, require_confirmation=True),
    ],
)
