"""What the interrupts of LangGraph ask, and how they are answered."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Interrupt
from pydantic import JsonValue

from signoff.core.approvals.parts import INPUT, Kind
from signoff.core.base.errors import InputRefused
from signoff.worker.frameworks.adapter import CallAnswer, WaitingCall, jsonable
from signoff.worker.frameworks.langgraph_thread import (
    calls_at_interrupts,
    interrupts_of,
)


@dataclass(frozen=True, slots=True)
class ReadInterrupt:
    """The meaning of an interrupt.

    Attributes:
        waiting: The calls and requests that wait in it, by id.
        allowed: The answers that are allowed for each, by id, in the terms of its schema.
        shape: The form that the answer must have.
    """

    waiting: dict[str, WaitingCall]
    allowed: dict[str, frozenset[str]]
    shape: str


def read_interrupt(interrupt: Interrupt[Any], calls: Sequence[Mapping[str, Any]]) -> ReadInterrupt:
    """Read an interrupt of a model whose last message has these calls.

    Raises:
        ValueError: Two of the calls have one id.
    """
    value = interrupt.value
    if isinstance(value, dict) and "action_requests" in value and "review_configs" in value:
        return _read_batch(interrupt, calls)
    if isinstance(value, dict) and value.get("type") == "tool_approval":
        _require_unique(calls)
        schema = json.dumps(interrupt.response_schema)
        kinds = ("approve", "edit", "reject", "respond")
        allowed = frozenset(one for one in kinds if f'"const": "{one}"' in schema)
        one = _tool_call(value["tool_call_id"], value, allowed)
        return ReadInterrupt({one.id: one}, {one.id: allowed}, "decision")
    requests = value if isinstance(value, list) else [value]
    if requests and all(isinstance(one, dict) and "action_request" in one for one in requests):
        return _read_inbox(interrupt, requests)
    one = _question(interrupt.id, as_text(value), None, interrupt.response_schema)
    # For code such as `if interrupt(…):` each word is a yes.
    one = replace(one, takes_words=False)
    return ReadInterrupt({one.id: one}, {one.id: frozenset()}, "value")


def _require_unique(calls: Sequence[Mapping[str, Any]]) -> None:
    """Refuse calls of one message that cannot be told apart.

    Raises:
        ValueError: Two have one id.
    """
    if len({call["id"] for call in calls}) < len(calls):
        raise ValueError("its model has given two calls of one message the same id")


def _read_batch(interrupt: Interrupt[Any], calls: Sequence[Mapping[str, Any]]) -> ReadInterrupt:
    """Read a request of the middleware: its actions are calls of the model, in their order.

    Raises:
        ValueError: Two of these calls have one id.
    """
    _require_unique(calls)
    left = list(calls)
    waiting: dict[str, WaitingCall] = {}
    allowed: dict[str, frozenset[str]] = {}
    for place, action in enumerate(interrupt.value["action_requests"]):
        may = frozenset(interrupt.value["review_configs"][place]["allowed_decisions"])
        at = _place_of(action, left)
        if at is None:
            # No call of a model, so it does not go through the guard.
            call_id = f"{interrupt.id}/{place}"
            waiting[call_id] = replace(_tool_call(call_id, action, may), in_tool=False)
        else:
            call_id = left[at]["id"]
            waiting[call_id] = _tool_call(call_id, {**action, "args": left[at]["args"]}, may)
            del left[at]
        allowed[call_id] = may
    return ReadInterrupt(waiting, allowed, "decisions")


def _place_of(action: Mapping[str, Any], calls: Sequence[Mapping[str, Any]]) -> int | None:
    """Return the place of the call that an action is about, None if there is none.

    The middleware may show other arguments than those with which the tool would run.
    """
    same = [at for at, one in enumerate(calls) if one["name"] == action["name"]]
    exact = (at for at in same if calls[at]["args"] == action["args"])
    return next(exact, next(iter(same), None))


def _tool_call(call_id: str, action: Mapping[str, Any], allowed: frozenset[str]) -> WaitingCall:
    """Return a call that the middleware asks about; a request for input if it needs a response."""
    asks = "approve" not in allowed and "respond" in allowed
    hint = str(action.get("description") or "")
    # The default text of the middleware, which repeats what the card shows.
    if hint.startswith("Tool execution requires approval\n\nTool: "):
        hint = ""
    if asks:
        return _question(call_id, hint or f"{action['name']}()", action["args"])
    return WaitingCall(
        id=call_id,
        tool=action["name"],
        args=arguments_of(action["args"]),
        hint=hint,
        edits="edit" in allowed,
    )


def _read_inbox(interrupt: Interrupt[Any], requests: Sequence[Mapping[str, Any]]) -> ReadInterrupt:
    """Read requests in the schema of Agent Inbox."""
    waiting: dict[str, WaitingCall] = {}
    allowed: dict[str, frozenset[str]] = {}
    for place, request in enumerate(requests):
        action, config = request["action_request"], request.get("config") or {}
        request_id = f"{interrupt.id}/{place}"
        may = frozenset(name.removeprefix("allow_") for name, yes in config.items() if yes)
        hint, args = str(request.get("description") or ""), arguments_of(action.get("args") or {})
        if "accept" not in may and "respond" in may:
            waiting[request_id] = _question(request_id, hint or str(action["action"]), args)
        else:
            waiting[request_id] = WaitingCall(
                id=request_id,
                tool=action["action"],
                args=args,
                hint=hint,
                edits="edit" in may,
                in_tool=False,
            )
        allowed[request_id] = may
    return ReadInterrupt(waiting, allowed, "inbox")


def _question(id_: str, message: str, payload: object, schema: object = None) -> WaitingCall:
    """Return a request for input."""
    return WaitingCall(
        id=id_,
        tool=INPUT,
        args={
            "message": message,
            "payload": jsonable(payload),
            "response_schema": schema if isinstance(schema, dict) else None,
        },
        kind=Kind.INPUT,
        in_tool=False,
    )


def resumption(
    interrupt: Interrupt[Any], read: ReadInterrupt, answers: Mapping[str, CallAnswer]
) -> object:
    """Return the value with which an interrupt is resumed.

    Raises:
        InputRefused: It was rejected, but does not allow a rejection.
    """
    if read.shape == "value":
        return answers[interrupt.id].value
    say = _inbox_answer if read.shape == "inbox" else _decision
    said = [say(one, read.allowed[id_], answers[id_]) for id_, one in read.waiting.items()]
    if read.shape == "decisions":
        return {"decisions": said}
    return said if read.shape == "inbox" else said[0]


def _decision(
    waiting: WaitingCall, allowed: frozenset[str], answer: CallAnswer
) -> dict[str, object]:
    if waiting.kind is Kind.INPUT:
        return {"type": "respond", "message": text_of(answer.value)}
    if answer.refusal is not None:
        if "reject" in allowed:
            return {"type": "reject", "message": answer.refusal}
        if "respond" in allowed:
            return {"type": "respond", "message": answer.refusal}
        raise InputRefused(_no_rejection(waiting, answer.refusal))
    if answer.args is not None:
        edited = {"name": waiting.tool, "args": answer.args}
        return {"type": "edit", "edited_action": edited}
    return {"type": "approve"}


def _inbox_answer(
    waiting: WaitingCall, allowed: frozenset[str], answer: CallAnswer
) -> dict[str, object]:
    if waiting.kind is Kind.INPUT:
        return {"type": "response", "args": text_of(answer.value)}
    if answer.refusal is not None:
        if "respond" in allowed:
            return {"type": "response", "args": answer.refusal}
        if "ignore" in allowed:
            return {"type": "ignore", "args": None}
        raise InputRefused(_no_rejection(waiting, answer.refusal))
    if answer.args is not None:
        return {"type": "edit", "args": {"action": waiting.tool, "args": answer.args}}
    return {"type": "accept", "args": None}


def _no_rejection(waiting: WaitingCall, why: str) -> str:
    return (
        f"{waiting.tool} was not approved, and its interrupt allows no rejection, so the run ends "
        f"here: {why}"
    )


def as_text(value: object) -> str:
    """Return what an interrupt asks as text."""
    return text_of(value if isinstance(value, str) else jsonable(value))


def text_of(value: JsonValue) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def asks_same(one: object, other: object) -> bool:
    """Return whether two interrupts ask the same; their descriptions may differ."""
    one, other = _content(one), _content(other)
    return bool(one == other) or jsonable(one) == jsonable(other)


def _content(value: object) -> object:
    """Return what an interrupt asks about, without descriptions."""
    if isinstance(value, dict) and isinstance(actions := value.get("action_requests"), list):
        return [(one.get("name"), one.get("args")) for one in actions]
    requests: list[Any] = value if isinstance(value, list) else [value]
    if requests and all(isinstance(one, dict) and "action_request" in one for one in requests):
        return [one["action_request"] for one in requests]
    return value


def own_interrupts(saver: InMemorySaver) -> dict[str, Interrupt[Any]]:
    """Return the interrupts whose answers resume code of the graph itself, by their ids."""
    calls = calls_at_interrupts(saver)
    return {
        one.id: one
        for one in interrupts_of(saver)
        if not all(
            asked.in_tool for asked in read_interrupt(one, calls.get(one.id, ())).waiting.values()
        )
    }


def arguments_of(args: object) -> dict[str, JsonValue]:
    """Return the arguments of a call as JSON."""
    found = jsonable(args)
    return found if isinstance(found, dict) else {"arguments": found}
