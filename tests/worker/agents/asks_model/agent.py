"""An agent whose model asks for input, with ADK's tool for that."""

import json

from google.adk.agents import Agent
from google.adk.tools._request_input_tool import request_input

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn

SCHEMA = {
    "type": "OBJECT",
    "properties": {"approved": {"type": "BOOLEAN"}, "comment": {"type": "STRING"}},
    "required": ["approved"],
}


def script(turn: Turn) -> Reply:
    """Ask, and then repeat the answer."""
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    return ToolCall("adk_request_input", {"message": "May I?", "response_schema": SCHEMA})


root_agent = Agent(name="asks_model", model=ScriptedModel(script=script), tools=[request_input])
