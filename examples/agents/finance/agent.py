"""An agent that pays small expenses itself and needs a manager for large ones."""

import json
import os
from typing import Any

from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import finance_script, model_or_script

LIMIT = 1000
"""The amount that the agent may pay without an approval."""


def reimburse(amount: float, purpose: str) -> dict[str, Any]:
    """Reimburse an employee for an expense.

    Args:
        amount: How much to pay back.
        purpose: What the money was spent on.
    """
    write_in_ledger({"amount": amount, "purpose": purpose})
    return {"status": "reimbursed", "amount": amount, "purpose": purpose}


def write_in_ledger(entry: dict[str, Any]) -> None:
    """Add a line to the ledger of the finance department, if it keeps one."""
    if path := os.environ.get("SIGNOFF_EXAMPLE_JOURNAL"):
        with open(path, "ab", buffering=0) as ledger:  # noqa: PTH123 - one line, one write
            ledger.write(json.dumps(entry).encode() + b"\n")


def over_the_limit(amount: float, purpose: str) -> bool:
    """Return whether an expense needs a manager. ADK passes every argument of the tool."""
    return amount > LIMIT


root_agent = Agent(
    name="finance",
    model=model_or_script(finance_script),
    description="Reimburses the expenses of employees.",
    instruction=(
        "You reimburse expenses. Call `reimburse` once for each expense the user names. Then say in"
        " one sentence what became of it; if it was turned down, give the reason."
    ),
    tools=[FunctionTool(reimburse, require_confirmation=over_the_limit)],
)
