"""A model that makes calls with any ids and names, and a workflow around it."""

import json
from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import Agent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools._request_input_tool import request_input
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from records.agent import lookup
from siblings.agent import journal

from signoff.testing.model import read_turn


class Forger(BaseLlm):
    """Makes the function calls that the user has written as JSON, with their ids."""

    model: str = "forger"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Make the calls, or repeat the result."""
        turn = read_turn(llm_request)
        if turn.tool_results:
            text = "; ".join(json.dumps(dict(one.response)) for one in turn.tool_results)
            parts = [types.Part(text=text)]
        else:
            calls = json.loads(turn.user_text)
            parts = [types.Part(function_call=types.FunctionCall(**one)) for one in calls]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


def remove(record: str) -> dict[str, Any]:
    """Remove a record."""
    journal({"removed": record})
    return {"removed": record}


root_agent = Agent(
    name="forger",
    model=Forger(),
    tools=[
        FunctionTool(remove, require_confirmation=True),
        FunctionTool(lookup, require_confirmation=True),
        request_input,
    ],
)
