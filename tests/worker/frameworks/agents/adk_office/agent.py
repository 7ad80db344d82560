"""An agent of ADK whose model follows a plan."""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import types

from worker.frameworks.script import last_word, next_calls, note, pay


class Follower(BaseLlm):
    """A model that follows a plan."""

    model: str = "follower"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Make the calls of the next step, or write the last message."""
        contents = llm_request.contents
        asked = [
            place
            for place, one in enumerate(contents)
            if one.role == "user" and any(part.text for part in one.parts or [])
        ]
        since = [part for one in contents[asked[-1] :] for part in one.parts or []]
        results = [one.function_response.response for one in since if one.function_response]
        message = next(one.text for one in since if one.text) or ""
        left = len(results)
        done = 0
        while left > 0:
            left -= len(next_calls(message, done))
            done += 1
        calls = next_calls(message, done)
        parts = [
            # Some models use the same ids again in each step.
            types.Part(function_call=types.FunctionCall(id=f"call_{number}", name=name, args=args))
            for number, (name, args) in enumerate(calls)
        ] or [types.Part(text=last_word(results))]
        used = types.GenerateContentResponseUsageMetadata(
            prompt_token_count=0, candidates_token_count=0, total_token_count=0
        )
        yield LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=used)


root_agent = Agent(
    name="office",
    model=Follower(),
    tools=[FunctionTool(pay, require_confirmation=True), FunctionTool(note)],
)
