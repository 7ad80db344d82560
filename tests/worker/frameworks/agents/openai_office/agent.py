"""An agent of the OpenAI Agents SDK whose model follows a plan, with an agent that is a tool."""

import json
from collections.abc import AsyncIterator
from typing import Any
from zlib import crc32

from agents import Agent, Model, ModelResponse, Usage, function_tool, set_tracing_disabled
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from worker.frameworks.script import last_word, next_calls, note, pay

set_tracing_disabled(disabled=True)


class Follower(Model):
    """A model that follows a plan."""

    def call_id(self, message: str, done: int, number: int) -> str:
        """Return the id of a call: each call of a run has its own."""
        return f"call_{crc32(message.encode())}_{done}_{number}"

    async def get_response(
        self, system_instructions: str | None, *args: Any, **more: Any
    ) -> ModelResponse:
        """Make the calls of the next step, or write the last message."""
        given: str | list[Any] = args[0] if args else more["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else given
        asked = [place for place, one in enumerate(items) if one.get("role") == "user"]
        since = items[asked[-1] :]
        results = [one["output"] for one in since if one.get("type") == "function_call_output"]
        left, done = len(results), 0
        while left > 0:
            left -= len(next_calls(since[0]["content"], done))
            done += 1
        calls = next_calls(since[0]["content"], done)
        output: list[Any] = [
            ResponseFunctionToolCall(
                type="function_call",
                name=name.rpartition(".")[2],
                namespace=name.rpartition(".")[0] or None,
                arguments=arguments if isinstance(arguments, str) else json.dumps(arguments),
                call_id=self.call_id(since[0]["content"], done, number),
            )
            for number, (name, arguments) in enumerate(calls)
        ] or [
            ResponseOutputMessage(
                id="message",
                type="message",
                role="assistant",
                status="completed",
                content=[
                    ResponseOutputText(type="output_text", text=last_word(results), annotations=[])
                ],
            )
        ]
        return ModelResponse(output=output, usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **more: Any) -> AsyncIterator[Any]:
        """Not used: the tests do not stream."""
        raise NotImplementedError


def paying(to: str, amount: float) -> str:
    """Pay somebody."""
    return json.dumps(pay(to, amount))


pay_tool = function_tool(paying, name_override="pay", needs_approval=True)
clerk = Agent(name="clerk", model=Follower(), tools=[pay_tool])
agent = Agent(
    name="office",
    model=Follower(),
    tools=[
        pay_tool,
        function_tool(note),
        clerk.as_tool("ask_clerk", "Asks the clerk."),
        clerk.as_tool("order_clerk", "The same, once it is approved.", needs_approval=True),
    ],
)
