"""An agent that repeats its instructions, and makes the call that they name."""

import json
import os
import re
from pathlib import Path

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def pay(amount: int) -> dict[str, int]:
    """Pay an amount."""
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(json.dumps({"paid": amount}) + "\n")
    return {"paid": amount}


def script(turn: Turn) -> Reply:
    """Pay 1000; if that is refused, report it, or pay the allowed amount."""
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    if proposal := re.search(r"\{.*\}", turn.user_text):
        return ToolCall("pay", json.loads(proposal[0])["args"])
    if "not approved" in turn.user_text:
        return f"I was told: {turn.user_text}"
    return ToolCall("pay", {"amount": 1000})


def agent(name: str) -> Agent:
    """Build it."""
    return Agent(
        name=name,
        model=ScriptedModel(script=script),
        tools=[FunctionTool(pay, require_confirmation=True)],
    )


root_agent = agent("heeds")
