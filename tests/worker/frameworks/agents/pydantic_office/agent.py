"""An agent of Pydantic AI whose model follows a plan."""

from pydantic_ai import Agent, Tool
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel

from worker.frameworks.script import last_word, next_calls, note, pay


def think(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    """Make the calls of the next step, or write the last message."""
    asked = [
        (place, part)
        for place, one in enumerate(messages)
        if isinstance(one, ModelRequest)
        for part in one.parts
        if isinstance(part, UserPromptPart)
    ]
    place, prompt = asked[-1]
    since = messages[place:]
    done = sum(isinstance(one, ModelResponse) for one in since)
    calls = next_calls(str(prompt.content), done)
    if calls:
        return ModelResponse(
            # Some models use the same ids again in each step.
            parts=[
                ToolCallPart(name, args, tool_call_id=f"call_{number}")
                for number, (name, args) in enumerate(calls)
            ]
        )
    results = [
        part.content
        for one in since
        if isinstance(one, ModelRequest)
        for part in one.parts
        if isinstance(part, ToolReturnPart)
    ]
    return ModelResponse(parts=[TextPart(last_word(results))])


agent = Agent(
    FunctionModel(think), name="office", tools=[Tool(pay, requires_approval=True), Tool(note)]
)
