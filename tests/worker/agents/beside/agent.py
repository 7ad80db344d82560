"""A workflow that asks for input while one of its agents wants to make a gated call."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.events.request_input import RequestInput
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import JoinNode, Workflow
from siblings.agent import journal, pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


async def ask(ctx: Any) -> AsyncGenerator[RequestInput, None]:
    """Ask for a number."""
    yield RequestInput(message="Which account?", response_schema={"type": "integer"})


def script(turn: Turn) -> Reply:
    """Pay A, and then repeat the result."""
    if not turn.tool_results:
        return ToolCall("pay", {"to": "A"})
    return json.dumps(dict(turn.tool_results[-1].response))


def done(node_input: Any) -> str:
    """Report the results of both."""
    journal({"done": True})
    return json.dumps(node_input, default=str)


def workflow() -> Workflow:
    """Build it."""
    payer = Agent(
        name="payer",
        model=ScriptedModel(script=script),
        tools=[FunctionTool(pay, require_confirmation=True)],
    )
    both = JoinNode(name="both")
    return Workflow(name="beside", edges=[("START", (ask, payer), both, done)])


root_agent = workflow()
