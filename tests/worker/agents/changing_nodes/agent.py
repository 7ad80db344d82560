"""A workflow whose nodes take their arguments from the session's state."""

from typing import Any

from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import FunctionNode, Workflow
from google.adk.workflow import node as as_node
from siblings.agent import journal


def transfer(iban: str, lines: list[dict[str, Any]]) -> dict[str, Any]:
    """Transfer the money."""
    journal({"tool": "transfer", "iban": iban, "lines": lines})
    return {"to": iban}


def tell(iban: str) -> dict[str, Any]:
    """Tell somebody."""
    journal({"tool": "tell", "iban": iban})
    return {"told": iban}


root_agent = Workflow(
    name="changing_nodes",
    edges=[
        (
            "START",
            FunctionNode(func=transfer, require_confirmation=True, rerun_on_resume=True),
            as_node(FunctionTool(tell, require_confirmation=True)),
        )
    ],
)
