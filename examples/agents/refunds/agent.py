"""An agent whose tool is code of CX Agent Studio: it stops at each refund that needs a manager."""

import json
import os
import re
from pathlib import Path
from typing import Any

from google.adk.agents import Agent

from signoff.testing import model_or_script
from signoff.testing.model import Reply, ToolCall, Turn
from signoff.worker.ces.rules import Rules
from signoff.worker.ces.toolset import CesToolset

RULES = Rules(needs_approval=('tool == "refund" && args.amount > 100',))


def refund(order: str, amount: float) -> dict[str, Any]:
    """Refund an order."""
    if journal := os.environ.get("SIGNOFF_EXAMPLE_JOURNAL"):
        with Path(journal).open("a", encoding="utf-8") as lines:
            lines.write(json.dumps({"tool": "refund", "order": order, "amount": amount}) + "\n")
    return {"refunded": order}


def script(turn: Turn) -> Reply:
    """Play the model: "refund 50, 200, b7: 300" becomes one call with the orders o1, o2 and b7."""
    if not turn.tool_results:
        said = re.findall(r"(?:([\w-]+): *)?\b(\d+)\b", turn.user_text)
        orders = [
            {"id": name or f"o{place}", "amount": float(amount)}
            for place, (name, amount) in enumerate(said, 1)
        ]
        return ToolCall("refund_orders", {"orders": orders})
    return f"Done: {json.dumps(dict(turn.tool_results[-1].response))}"


root_agent = Agent(
    name="refunds",
    model=model_or_script(script),
    description="Refunds orders.",
    instruction="Call `refund_orders` with the user's orders, and report the result.",
    tools=[CesToolset(Path(__file__).parent / "tools", RULES), refund],
)
