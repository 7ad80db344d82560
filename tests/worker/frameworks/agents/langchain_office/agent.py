"""An agent of LangChain whose model follows a plan."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models.chat_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from worker.frameworks.script import last_word, next_calls, note, pay


class Follower(BaseChatModel):
    """A model that follows a plan."""

    @property
    def _llm_type(self) -> str:
        return "follower"

    def bind_tools(self, tools: Any, **more: Any) -> Any:
        """Know the tools already."""
        return self

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        """Make the calls of the next step, or write the last message."""
        asked = [place for place, one in enumerate(messages) if isinstance(one, HumanMessage)]
        since = messages[asked[-1] :]
        done = sum(isinstance(one, AIMessage) for one in since)
        message = str(since[0].content)
        calls = [
            # Some models use the same ids again in each step.
            {"name": name, "args": given, "id": f"call_{number}"}
            for number, (name, given) in enumerate(next_calls(message, done))
        ]
        results = [one.content for one in since if isinstance(one, ToolMessage)]
        said = AIMessage("", tool_calls=calls) if calls else AIMessage(last_word(results))
        return ChatResult(generations=[ChatGeneration(message=said)])


agent = create_agent(
    Follower(),
    [pay, note],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
    name="office",
)
