"""A gate in a sub-agent, to which the root agent transfers."""

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool
from siblings.agent import pay

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn


def root_script(turn: Turn) -> Reply:
    """Pass everything to the cashier."""
    return ToolCall("transfer_to_agent", {"agent_name": "cashier"})


def cashier_script(turn: Turn) -> Reply:
    """Pay, and then repeat the result."""
    paid = [result for result in turn.tool_results if result.name == "pay"]
    return str(dict(paid[-1].response)) if paid else ToolCall("pay", {"to": "A"})


root_agent = Agent(
    name="desk",
    model=ScriptedModel(script=root_script),
    sub_agents=[
        Agent(
            name="cashier",
            model=ScriptedModel(script=cashier_script),
            tools=[FunctionTool(pay, require_confirmation=True)],
        )
    ],
)
