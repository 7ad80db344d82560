"""An agent that waits at every step for the test, so that it can be killed there."""

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator
from pathlib import Path

from google.adk.agents import Agent
from google.adk.agents.callback_context import CallbackContext
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.function_tool import FunctionTool

from signoff.testing import ScriptedModel, ToolCall
from signoff.testing.model import Reply, Turn, read_turn

JOURNAL = Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"])


def note(**line: object) -> None:
    """Report the current step to the test."""
    with JOURNAL.open("a", encoding="utf-8") as journal:
        journal.write(json.dumps(line) + "\n")


async def gate(step: str) -> None:
    """Report a step, and wait there while the test keeps the gate closed."""
    closed = JOURNAL.with_name(f"closed-{step}")
    note(at=step)
    while closed.exists():  # noqa: ASYNC110 -- another process opens it
        await asyncio.sleep(0.01)


async def pay(to: str) -> dict[str, str]:
    """Pay somebody."""
    note(paid=to)
    await gate("paid")
    return {"status": "ok", "paid": to}


async def needs_approval(to: str) -> bool:
    """Ask about each payment; ADK awaits it, and does not declare that."""
    await gate(f"asked_{to}")
    return True


async def end(callback_context: CallbackContext) -> None:
    """Wait at the end of each turn."""
    del callback_context
    await gate("ended")


def script(turn: Turn) -> Reply:
    """Pay those that the message names one after the other, or A; then tell the last result."""
    names = re.findall(r"\b[AB]\b", turn.user_text) or ["A"]
    if unpaid := names[len(turn.tool_results) :]:
        return ToolCall("pay", {"to": unpaid[0]})
    return json.dumps(dict(turn.tool_results[-1].response))


class SlowModel(ScriptedModel):
    """Waits before each word."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Wait at the gate of the step, and then answer as the script does."""
        await gate("last_word" if read_turn(llm_request).tool_results else "first_word")
        async for response in super().generate_content_async(llm_request, stream):
            yield response


root_agent = Agent(
    name="patient",
    model=SlowModel(script=script),
    tools=[
        FunctionTool(pay, require_confirmation=needs_approval),  # type: ignore[arg-type]
    ],
    after_agent_callback=end,
)
