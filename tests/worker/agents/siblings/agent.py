"""Two gated calls and one without a gate, all in one step of the model."""

import json
import os
from pathlib import Path

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def journal(line: dict[str, object]) -> None:
    """Append a line to the journal of what the tools did."""
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    journal({"paid": to})
    return {"status": "ok", "paid": to}


def look(at: str) -> dict[str, str]:
    """Look something up."""
    return {"found": at}


def script(turn: Turn) -> Reply:
    """Pay A and B in one step, and then repeat the result."""
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
