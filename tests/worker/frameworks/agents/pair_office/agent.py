"""A graph that runs two agents of LangChain side by side; the second one pays somebody else."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import BaseMessage
from langchain_core.outputs import ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import pay


class Other(Follower):
    """A model that follows the same plan for another person."""

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        made = super()._generate(messages, *args, **more)
        for call in getattr(made.generations[0].message, "tool_calls", []):
            call["id"] += "_other"
            if "to" in call["args"]:
                call["args"]["to"] += " too"
        return made


def office(name: str, model: Follower) -> Any:
    """Build one of the agents."""
    asking = HumanInTheLoopMiddleware(interrupt_on={"pay": True})
    return create_agent(model, [pay], middleware=[asking], name=name)


graph = (
    StateGraph(MessagesState)
    .add_node("first", office("first", Follower()))
    .add_node("second", office("second", Other()))
    .add_edge(START, "first")
    .add_edge(START, "second")
    .add_edge("first", END)
    .add_edge("second", END)
    .compile()
)
