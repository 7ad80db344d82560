"""An agent whose callbacks raise; the message says which one."""

from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def act(where: str) -> dict[str, Any]:
    """Do it."""
    return {"done": where}


def script(turn: Turn) -> Reply:
    """Act, and tell."""
    if turn.tool_results:
        return f"I have seen: {dict(turn.tool_results[-1].response)}"
    return ToolCall("act", {"where": turn.user_text})


def before_agent(callback_context: Any) -> None:
    """Raise at once."""
    if "before_agent" in str(callback_context.user_content):
        raise RuntimeError("the callback before the agent broke")


def before_tool(tool: Any, args: dict[str, Any], tool_context: Any) -> None:
    """Raise before the tool."""
    if args.get("where") == "before_tool" and tool_context.tool_confirmation:
        raise RuntimeError("the callback before the tool broke")


def after_tool(tool: Any, args: dict[str, Any], tool_context: Any, tool_response: Any) -> None:
    """Raise after the tool."""
    if args.get("where") == "after_tool" and "done" in tool_response:
        raise RuntimeError("the callback after the tool broke")


root_agent = Agent(
    name="shaky",
    model=ScriptedModel(script=script),
    tools=[FunctionTool(act, require_confirmation=True)],
    before_agent_callback=before_agent,
    before_tool_callback=before_tool,
    after_tool_callback=after_tool,
)
