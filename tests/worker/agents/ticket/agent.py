"""An agent with long-running tools: one opens a ticket, and one returns nothing at first."""

import json
from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from siblings.agent import journal, pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def ask_for_approval(amount: float) -> dict[str, Any]:
    """Ask for an approval."""
    journal({"ticket": amount})
    if amount < 10:
        return {"status": "approved", "ticket": "none"}
    return {"status": "pending", "ticket": "t-17"}


def wait_for_it(amount: float) -> None:
    """Ask for an approval, and return nothing yet."""
    journal({"ticket": amount})


def script(turn: Turn) -> Reply:
    """Call the tools that the message names ("ask:50 pay:A"), and repeat their results."""
    if turn.tool_results:
        return "; ".join(json.dumps(dict(result.response)) for result in turn.tool_results)
    calls = []
    for word in turn.user_text.split():
        name, _, value = word.partition(":")
        if name == "pay":
            calls.append(ToolCall("pay", {"to": value}))
        else:
            tool = "ask_for_approval" if name == "ask" else "wait_for_it"
            calls.append(ToolCall(tool, {"amount": float(value)}))
    return calls


def agent() -> Agent:
    """Build it."""
    return Agent(
        name="ticket",
        model=ScriptedModel(script=script),
        tools=[
            LongRunningFunctionTool(ask_for_approval),
            LongRunningFunctionTool(wait_for_it),
            FunctionTool(pay, require_confirmation=True),
        ],
    )


root_agent = agent()
