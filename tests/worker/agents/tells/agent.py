"""An agent that explains its calls: once beside the call, once some steps before."""

from collections.abc import AsyncGenerator

from google.adk.agents import Agent
from google.adk.models import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool
from google.genai import types
from siblings.agent import pay

from signoff.testing.model import read_turn


def look_up(account: str) -> dict[str, int]:
    """Return what is left in an account."""
    return {"left": len(account)}


class Teller(BaseLlm):
    """Looks up, pays A without text, pays B with text, and stops."""

    model: str = "teller"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Return the next message."""
        steps = (
            ("I look at the budget first.", "look_up", {"account": "B7"}),
            ("", "pay", {"to": "A"}),
            ("A is paid, so <b>B</b> is next.", "pay", {"to": "B"}),
        )
        done = len(read_turn(llm_request).tool_results)
        parts = [types.Part(text="Done.")]
        if done < len(steps):
            text, name, args = steps[done]
            call = types.Part(function_call=types.FunctionCall(name=name, args=args))
            thought = types.Part(text="secret", thought=True)
            parts = [thought, *([types.Part(text=text)] if text else []), call]
        yield LlmResponse(content=types.Content(role="model", parts=parts))


root_agent = Agent(
    name="tells",
    model=Teller(),
    tools=[look_up, FunctionTool(pay, require_confirmation=True)],
)
