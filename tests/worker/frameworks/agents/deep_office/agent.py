"""Agents in the way of Deep Agents: they store only changes, and hand tasks to another agent."""

from itertools import count
from typing import Annotated, Any

from langchain.agents import AgentState, create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AnyMessage
from langchain_core.outputs import ChatResult
from langgraph.channels.delta import DeltaChannel
from langgraph.graph.message import _messages_delta_reducer

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay

ids = count()


class Unique(Follower):
    """A model that never uses an id of a call again."""

    def _generate(self, *args: Any, **more: Any) -> ChatResult:
        made = super()._generate(*args, **more)
        for call in made.generations[0].message.tool_calls:  # type: ignore[attr-defined]
            call["id"] = f"call_{next(ids)}"
        return made


class Changes(AgentState[Any]):
    """A state that stores all messages at every third change only."""

    messages: Annotated[
        list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)
    ]


def agent_with(*tools: Any) -> Any:
    """Return an agent that needs an approval to pay."""
    asks = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    return create_agent(
        Unique(), list(tools), middleware=[asks], state_schema=Changes, name="office"
    )


clerk = agent_with(pay, note)


async def task(steps: str) -> str:
    """Hand a plan to another agent."""
    done = await clerk.ainvoke({"messages": [{"role": "user", "content": steps}]})
    return f"the clerk said: {done['messages'][-1].content}"


agent = agent_with(pay, note, task)
