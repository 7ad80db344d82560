"""A tool that passes the model's text to the approver as its payload template."""

import json
from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from siblings.agent import journal

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def lookup(city: str) -> dict[str, str]:
    """Look up the weather."""
    journal({"tool": "lookup", "city": city})
    return {"weather": "fine"}


def update_record(
    record: str, role: str, details: dict[str, Any], tool_context: ToolContext
) -> dict[str, str]:
    """Change somebody's role; `details` are shown to the approver."""
    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(hint="May this record be changed?", payload=details)
        return {"status": "Manager approval is required."}
    if not answer.confirmed:
        return {"status": "rejected"}
    journal({"tool": "update_record", "record": record, "role": role})
    return {"status": "ok"}


def script(turn: Turn) -> Reply:
    """Make the calls that the user names in JSON, and repeat the result."""
    if not turn.tool_results:
        return [ToolCall(name, args) for name, args in json.loads(turn.user_text)]
    return "; ".join(json.dumps(dict(result.response)) for result in turn.tool_results)


def make(name: str) -> Agent:
    """Build it."""
    return Agent(
        name=name,
        model=ScriptedModel(script=script),
        tools=[FunctionTool(lookup, require_confirmation=True), update_record],
    )


root_agent = make("records")
