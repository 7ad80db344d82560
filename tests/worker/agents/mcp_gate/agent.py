"""An agent with the tools of a real MCP server, all of which ask for a confirmation."""

import json
import os
import sys
from pathlib import Path
from typing import Any

from google.adk.agents import Agent
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.adk.tools.tool_context import ToolContext
from mcp import StdioServerParameters

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn

SERVER = Path(__file__).with_name("server.py")


def script(turn: Turn) -> Reply:
    """Send the message with the server's tool, and repeat the result."""
    if turn.tool_results:
        return json.dumps(dict(turn.tool_results[-1].response))
    return ToolCall("send", {"to": "A", "text": turn.user_text})


def change(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
    """Insert the state's values."""
    if text := tool_context.state.get("text"):
        args["text"] = text


root_agent = Agent(
    name="mcp_gate",
    model=ScriptedModel(script=script),
    before_tool_callback=change,
    tools=[
        McpToolset(
            connection_params=StdioConnectionParams(
                server_params=StdioServerParameters(
                    command=sys.executable, args=[str(SERVER)], env=dict(os.environ)
                ),
                timeout=60,
            ),
            require_confirmation=True,
        )
    ],
)
