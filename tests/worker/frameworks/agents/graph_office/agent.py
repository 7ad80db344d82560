"""A graph whose nodes interrupt it; the user's message selects the form of the interrupt."""

import json
from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import RetryPolicy, interrupt

from worker.frameworks.script import pay, write

EVERYTHING = {
    "allow_accept": True,
    "allow_edit": True,
    "allow_respond": True,
    "allow_ignore": False,
}


def act(state: MessagesState) -> dict[str, Any]:
    """Ask in the schema of Agent Inbox or in words, and act on the answer."""
    wish = json.loads(str(state["messages"][-1].content))
    if "question" in wish:
        answer = interrupt(wish["question"])
        write({"answered": answer})
        return {"messages": [{"role": "assistant", "content": f"I heard {answer}"}]}
    if "batch" in wish:
        args = {"to": wish["batch"], "amount": 20}
        may = {"action_name": "pay", "allowed_decisions": ["approve", "reject"]}
        asks = {"action_requests": [{"name": "pay", "args": args}], "review_configs": [may]}
        (decision,) = interrupt(asks)["decisions"]
        paid = pay(**args) if decision["type"] == "approve" else decision
        return {"messages": [{"role": "assistant", "content": json.dumps(paid)}]}
    request = {
        "action_request": {"action": "pay", "args": {"to": wish["to"], "amount": 20}},
        "config": wish.get("config", EVERYTHING),
        "description": "A payment",
    }
    (answer,) = interrupt([request])
    args = {"accept": request["action_request"]["args"], "edit": (answer["args"] or {})}
    if answer["type"] == "edit":
        args["edit"] = answer["args"]["args"]
    done = pay(**args[answer["type"]]) if answer["type"] in args else answer
    if "error" in wish:
        raise ConnectionError(wish["error"])
    return {"messages": [{"role": "assistant", "content": json.dumps(done)}]}


graph = (
    StateGraph(MessagesState)
    .add_node("act", act, retry_policy=RetryPolicy(initial_interval=0.01))
    .add_edge(START, "act")
    .add_edge("act", END)
    .compile()
)
