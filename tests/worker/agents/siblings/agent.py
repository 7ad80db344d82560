"""Two gated calls and one that is not, all in one step of the model."""

import json
import os
from pathlib import Path

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def _journal(line: dict[str, object]) -> None:
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(line) + "\n")


def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    _journal({"paid": to})
    return {"status": "ok", "paid": to}


def look(at: str) -> dict[str, str]:
    """Look something up."""
    return {"found": at}


def script(turn: Turn) -> Reply:
    """Pay A and B at once, and then tell the result."""
    if not turn.tool_results:
        return [
            ToolCall("pay", {"to": "A"}),
            ToolCall("pay", {"to": "B"}),
            ToolCall("look", {"at": "C"}),
        ]
    return "; ".join(json.dumps(dict(result.response)) for result in turn.tool_results)


root_agent = Agent(
    name="siblings",
    model=ScriptedModel(script=script),
    tools=[FunctionTool(pay, require_confirmation=True), look],
)
