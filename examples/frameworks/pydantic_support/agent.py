"""An agent of Pydantic AI that asks before it refunds money."""

import os

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for {order}"


def script(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Ask for one refund, and then report the result."""
    last = messages[-1].parts[-1]
    if last.part_kind == "tool-return":
        return ModelResponse(parts=[TextPart(f"This is what I heard: {last.content}")])
    return ModelResponse(parts=[ToolCallPart("refund", {"order": "A-17", "amount": 49.5})])


agent = Agent(
    "openai-chat:gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else FunctionModel(script),
    name="support",
    tools=[Tool(refund, requires_approval=True)],
)
