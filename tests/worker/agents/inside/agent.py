"""Gates in an agent that is called as a tool in its own session."""

import json

from google.adk.agents import Agent
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from siblings.agent import pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def look(at: str) -> dict[str, str]:
    """Look at something, which needs no approval."""
    return {"seen": at}


def give(to: str, tool_context: ToolContext) -> dict[str, str]:
    """Give something, and ask in its own code."""
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(hint=f"A gift for {to}.")
        return {"status": "waits"}
    return pay(to) if tool_context.tool_confirmation.confirmed else {"status": "refused"}


def root_script(turn: Turn) -> Reply:
    """Pass everything to the clerk and report the result."""
    if turn.tool_results:
        return json.dumps([dict(one.response) for one in turn.tool_results])
    return ToolCall("clerk", {"request": turn.user_text})


def clerk_script(turn: Turn) -> Reply:
    """Make the calls of the message one after the other, and repeat the results."""
    calls = [ToolCall(name, args) for name, args in json.loads(turn.user_text)]
    done = len(turn.tool_results)
    if done < len(calls):
        return calls[done]
    return json.dumps([dict(one.response) for one in turn.tool_results])


clerk = Agent(
    name="clerk",
    description="Does it.",
    model=ScriptedModel(script=clerk_script),
    tools=[look, FunctionTool(pay, require_confirmation=True), give],
)

root_agent = Agent(name="desk", model=ScriptedModel(script=root_script), tools=[AgentTool(clerk)])
