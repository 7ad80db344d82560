"""A tiny MCP server on its standard streams, with one tool that records its effects."""

import json
import os
from pathlib import Path

from mcp.server import MCPServer

server = MCPServer("letters")


@server.tool()
def send(to: str, text: str) -> str:
    """Send a letter."""
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(json.dumps({"sent": to, "text": text}) + "\n")
    return f"sent to {to}"


if __name__ == "__main__":
    server.run("stdio")
