"""A graph that runs all tools of a message in one node; one of them asks before it pays."""

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import interrupt

from worker.frameworks.agents.langchain_office.agent import Follower
from worker.frameworks.script import note, pay


def ask_and_pay(to: str) -> str:
    """Ask whether to pay somebody, and do it."""
    config = {"allow_accept": True, "allow_respond": True}
    action = {"action": "pay", "args": {"to": to, "amount": 20}}
    (answer,) = interrupt([{"action_request": action, "config": config}])
    return str(pay(to, 20)) if answer["type"] == "accept" else "refused"


model = Follower()
graph = (
    StateGraph(MessagesState)
    .add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    .add_node("tools", ToolNode([ask_and_pay, note]))
    .add_edge(START, "model")
    .add_conditional_edges("model", tools_condition, ["tools", END])
    .add_edge("tools", "model")
    .compile()
)
