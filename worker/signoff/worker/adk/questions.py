"""What waits in a session besides confirmations: requests for input, and long-running calls.

ADK marks both by the id of a FunctionCall, and the answer is a FunctionResponse of the user with
that id and name. The id alone does not say which question is meant: a node of a workflow asks
under the same id each time it runs. So each request is counted, and its answer is looked for
behind it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning, rule_for
from signoff.core.approvals.parts import INPUT, Kind

NODE = "wf_tool_confirmation:"
"""How the id begins under which a node of a workflow asks whether it may run
(google.adk.workflow.utils._workflow_hitl_utils.confirmation_interrupt_id)."""

_RESERVED = "adk_"
_LONGEST_HINT = 2_000


@dataclass(frozen=True, slots=True)
class Request:
    """One request, as ADK has put it into the session.

    Attributes:
        kind: What is asked for.
        id: The id of the call that the answer must carry.
        name: The name of that call, which the answer must carry too.
        agent: The author of the event.
        invocation: The invocation id.
        place: Where the event stands in the session.
        nth: How many requests with this id came before it.
        tool: What is asked about: the tool, or `adk_request_input`.
        args: Its arguments, or message, payload and response schema.
        hint: The tool's words.
        payload: The payload template.
        result: What a long-running tool has returned so far, None where nothing.
        answers: Where the user has answered, and what.
        by_model: Whether a model has made the call, rather than a node of a workflow.
        whole: Whether the calls that the model made beside it have come to a result too.
        made: See `Origin.made`.
        declared: What the tool of a node declares; see `Approval.declared`.
    """

    kind: Kind
    id: str
    name: str
    agent: str
    invocation: str
    place: int
    nth: int
    tool: str
    args: dict[str, Any]
    by_model: bool = True
    hint: str = ""
    payload: Any = None
    result: dict[str, Any] | None = None
    answers: tuple[tuple[int, dict[str, Any]], ...] = ()
    whole: bool = True
    made: str = ""
    declared: str = ""

    @property
    def call_id(self) -> str:
        """The id of the call that waits: the request itself is it."""
        return self.id

    @property
    def answer(self) -> dict[str, Any] | None:
        """What the user has answered last, None where nothing."""
        return self.answers[-1][1] if self.answers else None


def requests(events: Sequence[Event]) -> list[Request]:
    """Return all requests for input and all long-running calls of a session, in their order."""
    found: list[Request] = []
    count: Counter[str] = Counter()
    for place, event in enumerate(events):
        long_running = event.long_running_tool_ids or set()
        for call in event.get_function_calls():
            asks = call.name == INPUT or (
                call.id in long_running and not (call.name or "").startswith(_RESERVED)
            )
            if not asks or not call.id or event.author == "user" or _is_forged(event, call):
                continue
            found.append(_read(event, call, place, count[call.id]))
            count[call.id] += 1
    return [_with_rest(events, one, found) for one in found]


def waiting(
    events: Sequence[Event], invocations: Collection[str], app: str, rules: Sequence[LongRunning]
) -> tuple[list[Request], list[str]]:
    """Return what invocations wait for, and the names of the long-running calls they leave open.

    Args:
        events: The events of the whole session.
        invocations: Their ids.
        app: The name of the app, for the rules.
        rules: The long-running tools that wait for an approval.
    """
    asked: list[Request] = []
    left: list[str] = []
    for one in requests(events):
        if one.invocation not in invocations or one.answer is not None or not one.whole:
            continue
        if one.kind is not Kind.LONG_RUNNING:
            asked.append(one)
            continue
        rule = matching(rules, app, one)
        if rule is None:
            left.append(one.tool)
        else:
            asked.append(_of_rule(one, rule))
    # A question that was put again under the same id has taken the place of the earlier one.
    latest = {one.id: one for one in asked}
    return list(latest.values()), left


def matching(rules: Sequence[LongRunning], app: str, request: Request) -> LongRunning | None:
    """Return the rule by which a long-running call waits for an approval."""
    return rule_for(rules, app=app, tool=request.tool, args=request.args, result=request.result)


def request_of(events: Sequence[Event], approval: Approval) -> Request | None:
    """Return the request that an approval is for, None where it is not in the session any more."""
    same = [one for one in requests(events) if one.id == approval.origin.confirmation]
    return same[approval.origin.nth] if len(same) > approval.origin.nth else None


def asked_since(events: Sequence[Event], approval: Approval) -> bool:
    """Whether another request has been put under the same id after that of an approval.

    The answer would go to that one.
    """
    same = [one for one in requests(events) if one.id == approval.origin.confirmation]
    return len(same) > approval.origin.nth + 1


def is_request(approval: Approval) -> bool:
    """Whether an approval is for one of these, rather than for an `adk_request_confirmation`."""
    return approval.kind is not Kind.CONFIRMATION or is_node(approval)


def is_node(approval: Approval) -> bool:
    """Whether an approval is for a node of a workflow, which asks whether it may run."""
    return approval.kind is Kind.CONFIRMATION and approval.origin.confirmation.startswith(NODE)


def node_errors(events: Sequence[Event], invocation_id: str) -> dict[str, str]:
    """Return what nodes of a workflow have raised, by the ids under which they ask."""
    return {
        f"{NODE}{event.node_info.path}": f"{event.error_code}: {event.error_message}"
        for event in events
        if event.invocation_id == invocation_id and event.error_code and event.node_info.path
    }


def has_run(events: Sequence[Event], node: Approval) -> bool:
    """Say whether a node of a workflow has come to something behind its question."""
    request = request_of(events, node)
    later = events[request.place + 1 :] if request is not None else ()
    path = node.origin.confirmation.removeprefix(NODE)
    return any(one.node_info.path == path and not one.get_function_calls() for one in later)


def _is_forged(event: Event, call: types.FunctionCall) -> bool:
    """Whether a model has made a call that looks like the question of a node, whose id is its path.

    The answer to it would be taken for the answer to the node.
    """
    own = f"{NODE}{event.node_info.path}"
    return (call.id or "").startswith(NODE) and call.id != own


def _read(event: Event, call: types.FunctionCall, place: int, nth: int) -> Request:
    args = call.args or {}
    kind, tool, asked = Kind.LONG_RUNNING, call.name or "", dict(args)
    hint, payload = "", None
    if call.name == INPUT:
        kind = Kind.INPUT
        asked = {
            "message": args.get("message"),
            "payload": args.get("payload"),
            "response_schema": args.get("response_schema"),
        }
        node = args.get("payload")
        if (call.id or "").startswith(NODE) and isinstance(node, dict) and "tool_name" in node:
            kind, tool = Kind.CONFIRMATION, str(node["tool_name"])
            asked = dict(node.get("args") or {})
            hint, payload = str(args.get("message") or ""), node.get("confirmation_payload")
    return Request(
        kind=kind,
        id=call.id or "",
        name=call.name or "",
        agent=event.author or "",
        invocation=event.invocation_id or "",
        place=place,
        nth=nth,
        tool=tool,
        args=asked,
        by_model=call.name != INPUT or "interruptId" not in args,
        hint=hint,
        payload=payload,
    )


def _with_rest(events: Sequence[Event], one: Request, all_of_them: Sequence[Request]) -> Request:
    """Add the result of a request: the first result of its tool, and the answer of the user."""
    end = next(
        (other.place for other in all_of_them if other.id == one.id and other.place > one.place),
        len(events),
    )
    result = None
    answers = []
    done: set[str] = set()
    for place, event in enumerate(events[one.place + 1 : end], one.place + 1):
        for response in event.get_function_responses():
            done.add(response.id or "")
            if response.id != one.id:
                continue
            if event.author == "user":
                answers.append((place, response.response or {}))
            elif result is None:
                result = response.response or {}
    beside = events[one.place]
    open_ids = {*(beside.long_running_tool_ids or ()), *done}
    whole = all(call.id in open_ids for call in beside.get_function_calls())
    return replace(one, result=result, answers=tuple(answers), whole=whole)


def _of_rule(one: Request, rule: LongRunning) -> Request:
    words = "" if not one.result else json.dumps(one.result, ensure_ascii=False, default=str)
    hint = f"What it has returned so far: {words[:_LONGEST_HINT]}" if words else ""
    return replace(one, hint=hint, payload=rule.payload)
