"""A custom root around an agent with a gate: it cannot continue from its session."""

import json
from collections.abc import AsyncGenerator

from google.adk.agents import Agent, BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.tools.function_tool import FunctionTool
from siblings.agent import pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def script(turn: Turn) -> Reply:
    """Pay, and then repeat the result."""
    if turn.tool_results:
        return f"I paid: {json.dumps(dict(turn.tool_results[-1].response))}"
    return ToolCall("pay", {"to": "A"})


class Relay(BaseAgent):
    """Runs its only agent."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        async for event in self.sub_agents[0].run_async(ctx):
            yield event


payer = Agent(
    name="payer",
    model=ScriptedModel(script=script),
    tools=[FunctionTool(pay, require_confirmation=True)],
)
root_agent = Relay(name="relay", sub_agents=[payer])
