"""An agent whose tool is CX Agent Studio code, signed with a key that its worker may have."""

import json
from pathlib import Path

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from siblings.agent import pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.toolset import CesToolset

KEY = "the key of the agents of the tests"


def script(turn: Turn) -> Reply:
    """Call the code, and repeat the result."""
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    return ToolCall("pays", {"who": "A"})


root_agent = Agent(
    name="coded",
    model=ScriptedModel(script=script),
    tools=[
        CesToolset(Path(__file__).parent / "tools", Rules(key=KEY)),
        FunctionTool(pay, require_confirmation=True),
    ],
)
