"""A graph with two LangChain agents side by side; the user's message has a plan for each."""

import json
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatResult
from langgraph.graph import END, START, MessagesState, StateGraph

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay


class Named(Follower):
    """A model whose calls have ids of their own, as those of providers have."""

    name: str = ""

    def _generate(self, messages: list[BaseMessage], *args: Any, **more: Any) -> ChatResult:
        """Make the calls of the next step, or write the last message."""
        found = super()._generate(messages, *args, **more)
        said = found.generations[0].message
        if isinstance(said, AIMessage):
            for call in said.tool_calls:
                call["id"] = f"{self.name}_{len(messages)}_{call['id']}"
        return found


def node(name: str) -> Any:
    """Return a node that runs an agent with its part of the plan."""
    agent = create_agent(
        Named(name=name),
        [pay, note],
        middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
        name=name,
    )

    async def run(state: MessagesState) -> dict[str, Any]:
        """Run the agent."""
        plan = json.loads(str(state["messages"][0].content))[name]
        done = await agent.ainvoke({"messages": [HumanMessage(json.dumps(plan))]})
        return {"messages": [done["messages"][-1]]}

    return run


graph = (
    StateGraph(MessagesState)
    .add_node("first", node("one"))
    .add_node("second", node("two"))
    .add_edge(START, "first")
    .add_edge(START, "second")
    .add_edge("first", END)
    .add_edge("second", END)
    .compile(name="team")
)
