"""An agent that writes a draft into its artifacts, and sends it after an approval."""

from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


async def draft(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Write a draft."""
    part = types.Part.from_bytes(data=text.encode(), mime_type="text/plain")
    return {"version": await tool_context.save_artifact("letters/draft.txt", part)}


async def send(tool_context: ToolContext) -> dict[str, Any]:
    """Send the draft."""
    part = await tool_context.load_artifact("letters/draft.txt")
    data = part.inline_data.data if part is not None and part.inline_data else b""
    return {"sent": (data or b"").decode()}


def script(turn: Turn) -> Reply:
    """Draft, send, and repeat the sent text."""
    names = [result.name for result in turn.tool_results]
    if not names:
        return ToolCall("draft", {"text": turn.user_text})
    if names == ["draft"]:
        return ToolCall("send", {})
    return str(turn.tool_results[-1].response)


root_agent = Agent(
    name="keeps",
    model=ScriptedModel(script=script),
    tools=[draft, FunctionTool(send, require_confirmation=True)],
)
