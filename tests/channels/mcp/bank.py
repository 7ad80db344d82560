"""A small MCP server on standard streams or streamable HTTP that records its actions."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, RequestStateSecurity, Resolve
from pydantic import BaseModel

# Its questions can be answered after a restart, for ten days.
server = MCPServer(
    "bank", request_state_security=RequestStateSecurity(keys=["k" * 32], ttl=10 * 86400)
)


class Target(BaseModel):
    """The receiver of the money.

    Attributes:
        account: The account.
    """

    account: str


def which() -> Elicit[Target]:
    """Ask for the account."""
    return Elicit("Which account?", Target)


def note(text: str) -> None:
    """Add a line to the journal."""
    with Path(os.environ["JOURNAL"]).open("a", encoding="utf-8") as journal:
        journal.write(f"{text}\n")


def wait_for(file: Path) -> None:
    """Wait until the test has made a file."""
    while not file.exists():
        time.sleep(0.02)


@server.tool()
async def refund(amount: float, ctx: Context) -> str:
    """Refund money."""
    note(f"refund {amount}")
    await ctx.report_progress(1, 2, "half")
    if slow := os.environ.get("SLOW"):
        await asyncio.to_thread(wait_for, Path(slow))
    return f"refunded {amount} with {os.environ.get('BANK_TOKEN', 'nothing')}"


@server.tool()
def pay(amount: float, target: Annotated[Target, Resolve(which)]) -> str:
    """Pay money to an account, which the tool asks for."""
    note(f"pay {amount} to {target.account}")
    return f"paid {amount} to {target.account}"


@server.tool()
def read_rates() -> str:
    """Read the rates."""
    return "3 %"


@server.resource("bank://rates")
def rates() -> str:
    """Return the rates."""
    return "3 %"


@server.prompt()
def remind(name: str) -> str:
    """Remind somebody."""
    return f"Remind {name}."


if __name__ == "__main__":
    server.run("stdio")
