"""A graph whose node drafts a payment anew each time that it runs, as a model would."""

import itertools
import json
from typing import Any

from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import interrupt

from worker.frameworks.script import pay

drafts = itertools.count()


def action(to: str) -> dict[str, Any]:
    """Return a request in the schema of Agent Inbox, with another description each time."""
    return {
        "action_request": {"action": "pay", "args": {"to": to, "amount": 20}},
        "config": {"allow_accept": True, "allow_respond": True},
        "description": f"Draft {next(drafts)}",
    }


def may(request: object) -> bool:
    """Ask, in one of the forms, and return whether the answer is a yes."""
    try:
        answer = interrupt(request)
    except Exception as error:  # a careless node
        if type(error).__name__ == "GraphInterrupt":
            raise
        answer = True
    if isinstance(answer, list):
        return bool(answer[0]["type"] == "accept")
    if isinstance(answer, dict):
        return bool(answer["decisions"][0]["type"] == "approve")
    return bool(answer)


def act(state: MessagesState) -> dict[str, Any]:
    """Ask whether to pay, and do it."""
    wish = json.loads(str(state["messages"][-1].content))
    people = [wish["to"]] if "to" in wish else [f"draft {next(drafts)}"]
    people += wish.get("then", [])
    calls = [{"name": "pay", "args": {"to": one, "amount": 20}} for one in people]
    review = {"action_name": "pay", "allowed_decisions": ["approve", "reject"]}
    forms: dict[str, list[Any]] = {
        "inbox": [[action(one)] for one in people],
        "batch": [{"action_requests": [one], "review_configs": [review]} for one in calls],
        "question": [{"question": f"Pay {one}?"} for one in people],
    }
    answers = [may(one) for one in forms[wish["form"]]]
    paid = [pay(one, 20) for one, yes in zip(people, answers, strict=True) if yes]
    return {"messages": [{"role": "assistant", "content": json.dumps(paid)}]}


graph = (
    StateGraph(MessagesState)
    .add_node("act", act)
    .add_edge(START, "act")
    .add_edge("act", END)
    .compile()
)
