"""Faulty tools: one raises after its effect, and one asks twice."""

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from siblings.agent import journal

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def raises(to: str) -> dict[str, str]:
    """Pay somebody, and fail right after."""
    journal({"paid": to})
    raise ValueError("the bank hung up")


def asks_twice(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Ask, and when approved ask for a second answer before paying."""
    answer = tool_context.tool_confirmation
    stage = tool_context.state.get("stage", 0)
    if answer is None or stage < 2:
        tool_context.state["stage"] = stage + 1
        tool_context.request_confirmation(hint=f"question {stage + 1}", payload={"code": ""})
        return {"status": "pending"}
    journal({"paid": to, "code": (answer.payload or {})["code"]})
    return {"status": "ok"}


def script(turn: Turn) -> Reply:
    """Call the tool that the message names, and then repeat the result."""
    if not turn.tool_results:
        return ToolCall(turn.user_text.split()[0], {"to": "A"})
    return str(dict(turn.tool_results[-1].response))


root_agent = Agent(
    name="careless",
    model=ScriptedModel(script=script),
    tools=[FunctionTool(raises, require_confirmation=True), asks_twice],
)
