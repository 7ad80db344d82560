"""A workflow of a question, a gated tool and a function."""

from collections.abc import AsyncGenerator
from typing import Any, Literal

from google.adk.events.request_input import RequestInput
from google.adk.tools.function_tool import FunctionTool
from google.adk.workflow import Workflow
from google.adk.workflow import node as as_node
from pydantic import BaseModel


class Choice(BaseModel):
    """What is wanted."""

    size: Literal["S", "M", "L"]
    gift: bool = False


async def choose(ctx: Any) -> AsyncGenerator[RequestInput, None]:
    """Ask for the size."""
    yield RequestInput(message="Which size?", response_schema=Choice)


def order(size: str, gift: bool) -> dict[str, Any]:
    """Order it."""
    return {"order": f"{size}{' as a gift' if gift else ''}"}


def tell(node_input: dict[str, Any]) -> str:
    """Tell what was ordered."""
    return f"Ordered: {node_input['order']}"


root_agent = Workflow(
    name="order_flow",
    edges=[("START", choose, as_node(FunctionTool(order, require_confirmation=True)), tell)],
)
