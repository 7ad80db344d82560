"""The same as `patient`, with two payments at once, as a resumable app."""

import json

from google.adk.agents import Agent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.function_tool import FunctionTool
from patient.agent import pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def script(turn: Turn) -> Reply:
    """Pay A and B, and then tell the result."""
    if turn.tool_results:
        return "; ".join(json.dumps(dict(one.response)) for one in turn.tool_results)
    return [ToolCall("pay", {"to": "A"}), ToolCall("pay", {"to": "B"})]


app = App(
    name="patient_pair",
    root_agent=Agent(
        name="pair",
        model=ScriptedModel(script=script),
        tools=[FunctionTool(pay, require_confirmation=True)],
    ),
    resumability_config=ResumabilityConfig(is_resumable=True),
)
