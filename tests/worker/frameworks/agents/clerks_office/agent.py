"""An agent of the OpenAI Agents SDK, with tools of one name, an MCP server, and a clerk.

The clerk's model uses its ids again each time that it is asked, and pays small amounts without an
approval.
"""

import os
import sys
from pathlib import Path
from typing import Any

from agents import Agent, RunContextWrapper, function_tool, tool_namespace
from agents.mcp import MCPServerStdio

from worker.frameworks import script
from worker.frameworks.agents.openai_office.agent import Follower, paying


class Repeating(Follower):
    """A model that numbers its calls from 0 in each conversation."""

    def call_id(self, message: str, done: int, number: int) -> str:
        """Return the id of a call."""
        return f"call_{done}_{number}"


async def is_large(context: RunContextWrapper[Any], args: dict[str, Any], call_id: str) -> bool:
    """Return whether a payment needs an approval."""
    amount = args["amount"]
    return isinstance(amount, int | float) and amount > 10


def by_bank(to: str, amount: float, why: str = "") -> str:
    """Pay somebody through the bank."""
    script.write({"by bank": to})
    return f"{to} got {amount} from the bank{why}"


def by_shop(to: str, amount: float) -> str:
    """Pay somebody."""
    script.write({"by shop": to})
    return f"{to} got {amount} from the shop"


def tool(function: Any, needs: Any = True) -> Any:
    """Return a tool named `pay`."""
    return function_tool(function, name_override="pay", needs_approval=needs)


letters = MCPServerStdio(
    name="letters",
    params={
        "command": sys.executable,
        "args": [str(Path(__file__).parents[3] / "agents" / "mcp_gate" / "server.py")],
        "env": dict(os.environ),
    },
    require_approval="always",
    client_session_timeout_seconds=60,
)
clerk = Agent(name="clerk", model=Repeating(), tools=[tool(paying, is_large)])
writer = Agent(name="writer", model=Follower(), mcp_servers=[letters])
agent = Agent(
    name="office",
    model=Follower(),
    tools=[
        clerk.as_tool("ask_clerk", "Asks the clerk."),
        writer.as_tool("ask_writer", "Asks the writer."),
        *tool_namespace(name="crm", description="Of the CRM.", tools=[tool(paying)]),
        *tool_namespace(name="bank", description="Of the bank.", tools=[tool(by_bank)]),
        *tool_namespace(name="shop", description="Of the shop.", tools=[tool(by_shop)]),
    ],
)
