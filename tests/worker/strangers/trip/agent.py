"""A tool that asks in its own code, with a nested payload, and a tool that is a generator."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents.llm_agent import Agent
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.tool_context import ToolContext
from google.genai import types

TEMPLATE = {
    "budget": {"hotel": 0, "flights": 0.0},
    "travellers": [{"name": "", "adult": True}],
    "refundable": False,
    "note": "",
}


def book(city: str, tool_context: ToolContext) -> dict[str, Any]:
    """Book a trip."""
    answer = tool_context.tool_confirmation
    if answer is None:
        tool_context.request_confirmation(hint=f"Book {city}?\nSay how.", payload=TEMPLATE)
        tool_context.actions.skip_summarization = True
        return {"status": "asked"}
    if not answer.confirmed:
        return {"status": "not booked"}
    return {"status": "booked", "how": answer.payload}


async def watch(city: str) -> AsyncGenerator[str, None]:
    """Watch the weather."""
    yield f"sun in {city}"
    yield "rain"


class Model(BaseLlm):
    """Calls a tool by name, and repeats its result."""

    model: str = "mine"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Act on the last message."""
        last = (llm_request.contents[-1].parts or [])[-1]
        if last.function_response:
            yield LlmResponse(content=types.ModelContent(str(last.function_response.response)))
            return
        name, _, city = (last.text or "book Rome").partition(" ")
        call = types.Part.from_function_call(name=name, args={"city": city})
        yield LlmResponse(content=types.ModelContent([call]))


root_agent = Agent(model=Model(), name="trip", tools=[book, watch])
