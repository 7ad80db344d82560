"""google-adk's behaviour with gates of tools and nodes that are not plain functions."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.adk.agents import Agent
from google.adk.agents.base_agent import BaseAgent
from google.adk.events.event import Event
from google.adk.events.request_input import RequestInput
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import Workflow
from google.genai import types

from signoff.testing import ScriptedModel
from worker.adk.conftest import NewHouse
from worker.adk.harness import House, answer, requests_in, said, told

pytestmark = pytest.mark.soak


class Pay(BaseTool):
    """A custom tool that asks with the hook of all tools."""

    def __init__(self, house: House) -> None:
        super().__init__(name="pay", description="Pay.")
        self.house = house

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(name=self.name, description=self.description)

    async def check_require_confirmation(self, *_: Any) -> bool:
        """Ask always."""
        return True

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        """Pay."""
        self.house.journal.append(("pay", args["amount"]))
        return {"paid": args["amount"]}


def own_tool_root(house: House) -> BaseAgent:
    """Build an agent with that tool."""
    return Agent(name="root", model=ScriptedModel(script=house.script), tools=[Pay(house)])


@pytest.mark.parametrize("confirmed", [True, False])
async def test_the_gate_of_a_custom_tool_is_enforced(
    new_house: NewHouse, *, confirmed: bool
) -> None:
    """It runs after an approval and never after a rejection: every kind of tool has the gate."""
    house = await new_house(root=own_tool_root)
    requests = requests_in(await house.run(said("pay:5")))
    assert len(requests) == 1
    assert house.journal == []
    resumed = await house.run(answer(requests, confirmed=confirmed))
    assert house.journal == ([("pay", 5.0)] if confirmed else [])
    if not confirmed:
        assert "This tool call is rejected." in told(resumed)[0]


def asking_root(house: House) -> Any:
    """Build a workflow that asks for an account and records the answer."""

    async def ask(ctx: Any) -> AsyncGenerator[RequestInput, None]:
        yield RequestInput(message="Which account?", payload={"order": 1})

    def note(node_input: Any) -> str:
        house.journal.append(("note", node_input))
        return "noted"

    return Workflow(name="root", edges=[("START", ask, note)])


@pytest.mark.parametrize(
    ("response", "value"),
    [({"result": "A-17"}, "A-17"), ({"result": "0042"}, "0042"), ({"a": 1}, {"a": 1})],
)
async def test_a_workflow_asks_by_a_request_for_input(
    new_house: NewHouse, response: dict[str, Any], value: object
) -> None:
    """The call has message, payload and schema; a response with one `result` is unwrapped."""
    house = await new_house(root=asking_root)
    events: list[Event] = await house.run(said("go"))
    (call,) = [call for event in events for call in event.get_function_calls()]
    args = call.args or {}
    assert call.name == "adk_request_input"
    assert (args["message"], args["payload"]) == ("Which account?", {"order": 1})
    assert "response_schema" in args
    given = types.FunctionResponse(id=call.id, name=call.name, response=response)
    part = types.Part(function_response=given)
    await house.run(types.Content(role="user", parts=[part]))
    assert house.journal == [("note", value)]
