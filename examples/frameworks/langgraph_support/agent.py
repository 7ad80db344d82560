"""An agent of LangChain that asks before it refunds money."""

import os
import uuid
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult


def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for {order}"


class Script(BaseChatModel):
    """Asks for one refund, and then reports the result."""

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """Know the tools already."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            said = AIMessage(f"This is what I heard: {last.content}")
        else:
            call = {"order": "A-17", "amount": 49.5}
            name = f"call_{uuid.uuid4().hex}"
            said = AIMessage("", tool_calls=[{"name": "refund", "args": call, "id": name}])
        return ChatResult(generations=[ChatGeneration(message=said)])


agent = create_agent(
    "openai:gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else Script(),
    tools=[refund],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"refund": True})],
    name="support",
)
