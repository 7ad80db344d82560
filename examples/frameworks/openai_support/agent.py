"""An agent of the OpenAI Agents SDK that asks before it refunds money."""

import json
import os
import uuid
from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Usage, function_tool
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)


@function_tool(needs_approval=True)
def refund(order: str, amount: float) -> str:
    """Refund an order."""
    return f"refunded {amount:.2f} for {order}"


class Script(Model):
    """Asks for one refund, and then reports the result."""

    async def get_response(
        self, system_instructions: str | None, *args: Any, **more: Any
    ) -> ModelResponse:
        """Return the next message."""
        items = args[0] if args else more["input"]
        last = items[-1] if isinstance(items, list) else {}
        said: ResponseFunctionToolCall | ResponseOutputMessage = ResponseFunctionToolCall(
            type="function_call",
            name="refund",
            arguments=json.dumps({"order": "A-17", "amount": 49.5}),
            call_id=f"call_{uuid.uuid4().hex}",
        )
        if last.get("type") == "function_call_output":
            text = f"This is what I heard: {last['output']}"
            content = ResponseOutputText(type="output_text", text=text, annotations=[])
            said = ResponseOutputMessage(
                id="message",
                type="message",
                role="assistant",
                status="completed",
                content=[content],
            )
        return ModelResponse(output=[said], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Stream nothing."""
        raise NotImplementedError


agent = Agent(
    name="support",
    model="gpt-5-mini" if os.environ.get("OPENAI_API_KEY") else Script(),
    tools=[refund],
)
