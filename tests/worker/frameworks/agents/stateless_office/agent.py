"""A graph with an agent of LangChain that has no checkpointer, so it begins anew."""

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langgraph.graph import END, START, MessagesState, StateGraph

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import pay

office = create_agent(
    Follower(),
    [pay],
    middleware=[HumanInTheLoopMiddleware(interrupt_on={"pay": True})],
    checkpointer=False,
    name="office",
)
graph = (
    StateGraph(MessagesState)
    .add_node("office", office)
    .add_edge(START, "office")
    .add_edge("office", END)
    .compile()
)
