"""An app with a plugin, a sub-agent that pays, a custom model and arguments of a class."""

from collections.abc import AsyncGenerator
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models.base_llm import BaseLlm
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.plugins import BasePlugin
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from google.genai import types
from pydantic import BaseModel, Field


class Line(BaseModel):
    """One line of an expense report."""

    text: str
    cents: int = Field(ge=0)


class Report(BaseModel):
    """An expense report."""

    title: str
    lines: list[Line]


async def is_large(report: Report, tool_context: ToolContext) -> bool:
    """Return whether a person has to check it."""
    return sum(line.cents for line in report.lines) > 10_000


async def pay(report: Report, tool_context: ToolContext) -> dict[str, Any]:
    """Pay a report."""
    tool_context.state["paid"] = report.title
    return {"paid": sum(line.cents for line in report.lines)}


class Local(BaseLlm):
    """A model that reads its own history, as a wrapper of another vendor's API does."""

    model: str = "local/echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Transfer, pay, and report."""
        parts = [part for one in llm_request.contents for part in one.parts or []]
        results = [part.function_response for part in parts if part.function_response]
        named = {one.name: one.response for one in results}
        text = next(part.text for part in reversed(parts) if part.text)
        if "transfer_to_agent" in llm_request.tools_dict and "pay" not in llm_request.tools_dict:
            yield _call("transfer_to_agent", {"agent_name": "payer"})
        elif "pay" not in named:
            cents = 20_000 if any("large" in (part.text or "") for part in parts) else 50
            lines = [{"text": "taxi", "cents": cents}]
            yield _call("pay", {"report": {"title": "Trip", "lines": lines}})
        else:
            yield LlmResponse(content=types.ModelContent(f"Result: {named['pay']} {len(text) > 0}"))


def _call(name: str, args: dict[str, Any]) -> LlmResponse:
    return LlmResponse(
        content=types.ModelContent([types.Part.from_function_call(name=name, args=args)])
    )


class Counting(BasePlugin):
    """Counts the calls of tools in the session's state."""

    async def before_tool_callback(
        self, *, tool: Any, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> None:
        """Count."""
        tool_context.state["calls"] = tool_context.state.get("calls", 0) + 1


payer = LlmAgent(
    name="payer",
    model=Local(),
    description="Pays.",
    # ADK awaits a coroutine function too; its types do not say so.
    tools=[FunctionTool(pay, require_confirmation=is_large)],  # type: ignore[arg-type]
)
root_agent = LlmAgent(name="clerk", model=Local(), instruction="Hand over.", sub_agents=[payer])
app = App(name="expenses", root_agent=root_agent, plugins=[Counting(name="counting")])
