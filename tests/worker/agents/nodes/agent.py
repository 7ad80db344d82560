"""A workflow of two nodes that ask whether they may run: a function, and a tool."""

from typing import Any

from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import FunctionNode, Workflow
from google.adk.workflow import node as as_node
from siblings.agent import journal


def transfer() -> dict[str, Any]:
    """Transfer the money."""
    journal({"transferred": 50})
    return {"to": "A"}


def tell(to: str) -> dict[str, Any]:
    """Tell somebody."""
    journal({"told": to})
    return {"told": to}


def workflow() -> Workflow:
    """Build it."""
    first = FunctionNode(func=transfer, require_confirmation=True, rerun_on_resume=True)
    second = as_node(FunctionTool(tell, require_confirmation=True))
    return Workflow(name="nodes", edges=[("START", first, second)])


root_agent = workflow()
