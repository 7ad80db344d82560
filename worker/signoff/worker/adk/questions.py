"""Requests in a session besides confirmations: requests for input, and long-running calls.

ADK marks both by the id of a FunctionCall, and the answer is a FunctionResponse of the user with
that id and name. The id alone does not identify the question: a node of a workflow asks under the
same id each time it runs. So requests with one id are counted, and an answer belongs to the request
before it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning, rule_for
from signoff.core.approvals.parts import INPUT, Kind

NODE = "wf_tool_confirmation:"
"""The prefix of the id under which a node of a workflow asks whether it may run
(google.adk.workflow.utils._workflow_hitl_utils.confirmation_interrupt_id)."""

CONFIRMATION = "adk_request_confirmation"
"""The FunctionCall that asks for a confirmation (google.adk.utils._function_call_names)."""

RESERVED = "adk_"
"""The beginning of the names of ADK's own calls."""

_LONGEST_HINT = 2_000

LOST: Final[dict[str, Any]] = {
    "error": "This call was interrupted: it may or may not have happened. Look before you call it "
    "again."
}
"""The result of a call that was lost with a worker: a long-running one does not wait either."""


def confirmation_call(
    request_id: str, call: types.FunctionCall, asked: ToolConfirmation
) -> types.Part:
    """Return the part of an event with which ADK asks for the confirmation of a call."""
    args = {
        "originalFunctionCall": call.model_dump(by_alias=True, exclude_none=True),
        "toolConfirmation": asked.model_dump(by_alias=True, exclude_none=True),
    }
    return types.Part(function_call=types.FunctionCall(id=request_id, name=CONFIRMATION, args=args))


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """One request, as ADK has written it to the session.

    Attributes:
        kind: What is asked for.
        id: The id of the call, which the answer must have.
        name: The name of that call, which the answer must have too.
        agent: The author of the event.
        invocation: The invocation id.
        place: The index of the event in the session.
        nth: How many requests with this id came before it.
        tool: What is asked about: the tool, or `adk_request_input`.
        args: Its arguments, or message, payload and response schema.
        hint: The tool's hint for the approver.
        payload: The payload template.
        result: What a long-running tool has returned so far; None for nothing.
        answers: The user's answers, with their indexes in the session.
        by_model: Whether a model has made the call, rather than a node of a workflow.
        whole: Whether the other calls of the same model response have results too.
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
        """The id of the waiting call, which is the request itself."""
        return self.id

    @property
    def answer(self) -> dict[str, Any] | None:
        """The user's last answer; None without one."""
        return self.answers[-1][1] if self.answers else None


def requests(events: Sequence[Event]) -> list[SessionRequest]:
    """Return all requests for input and all long-running calls of a session, in their order."""
    found: list[SessionRequest] = []
    count: Counter[str] = Counter()
    for place, event in enumerate(events):
        long_running = event.long_running_tool_ids or set()
        for call in event.get_function_calls():
            asks = call.name == INPUT or (
                call.id in long_running and not (call.name or "").startswith(RESERVED)
            )
            if not asks or not call.id or event.author == "user" or _is_forged(event, call):
                continue
            found.append(_read(event, call, place, count[call.id]))
            count[call.id] += 1
    return [_with_rest(events, one, found) for one in found]


def waiting(
    events: Sequence[Event], invocations: Collection[str], app: str, rules: Sequence[LongRunning]
) -> tuple[list[SessionRequest], list[str]]:
    """Return the requests that invocations wait for, and the long-running calls they leave open.

    Args:
        events: The events of the whole session.
        invocations: Their ids.
        app: The name of the app, for the rules.
        rules: The long-running tools that wait for an approval.
    """
    asked: list[SessionRequest] = []
    left: list[str] = []
    for one in requests(events):
        if one.invocation not in invocations or one.answer is not None or not one.whole:
            continue
        if one.kind is Kind.LONG_RUNNING and (one.result == LOST or not _was_let_run(events, one)):
            continue
        if one.kind is not Kind.LONG_RUNNING:
            asked.append(one)
            continue
        rule = matching(rules, app, one)
        if rule is None:
            left.append(one.tool)
        else:
            asked.append(_of_rule(one, rule))
    # A question that is asked again under the same id replaces the earlier one.
    latest = {one.id: one for one in asked}
    return list(latest.values()), left


def _was_let_run(events: Sequence[Event], call: SessionRequest) -> bool:
    """Return whether a long-running call needed no confirmation, or has run after it got one."""
    asked = {
        one.id
        for event in events
        for one in event.get_function_calls()
        if one.name == CONFIRMATION
        and ((one.args or {}).get("originalFunctionCall") or {}).get("id") == call.id
    }
    confirmed = {
        one.id
        for event in events
        if event.author == "user"
        for one in event.get_function_responses()
        if (one.response or {}).get("confirmed") is True
    }
    return not asked or (asked <= confirmed and call.result is not None)


def matching(rules: Sequence[LongRunning], app: str, request: SessionRequest) -> LongRunning | None:
    """Return the rule by which a long-running call waits for an approval."""
    return rule_for(rules, app=app, tool=request.tool, args=request.args, result=request.result)


def request_of(events: Sequence[Event], approval: Approval) -> SessionRequest | None:
    """Return the request that an approval is for; None if it is no longer in the session."""
    same = [one for one in requests(events) if one.id == approval.origin.confirmation]
    return same[approval.origin.nth] if len(same) > approval.origin.nth else None


def asked_since(events: Sequence[Event], approval: Approval) -> bool:
    """Return whether a later request has the same id as the request of an approval.

    The answer would go to the later one.
    """
    same = [one for one in requests(events) if one.id == approval.origin.confirmation]
    return len(same) > approval.origin.nth + 1


def is_request(approval: Approval) -> bool:
    """Return whether an approval is for such a request, not for an `adk_request_confirmation`."""
    return approval.kind is not Kind.CONFIRMATION or is_node(approval)


def is_node(approval: Approval) -> bool:
    """Return whether an approval is for a node of a workflow that asks whether it may run."""
    return approval.kind is Kind.CONFIRMATION and approval.origin.confirmation.startswith(NODE)


def node_errors(events: Sequence[Event], invocation_id: str) -> dict[str, str]:
    """Return the errors of workflow nodes, by the ids under which the nodes ask."""
    return {
        f"{NODE}{event.node_info.path}": f"{event.error_code}: {event.error_message}"
        for event in events
        if event.invocation_id == invocation_id and event.error_code and event.node_info.path
    }


def has_run(events: Sequence[Event], node: Approval) -> bool:
    """Return whether a node of a workflow has produced something after its question."""
    request = request_of(events, node)
    later = events[request.place + 1 :] if request is not None else ()
    path = node.origin.confirmation.removeprefix(NODE)
    return any(one.node_info.path == path and not one.get_function_calls() for one in later)


def _is_forged(event: Event, call: types.FunctionCall) -> bool:
    """Return whether a model's call looks like the question of a node, whose id is its path.

    ADK would take the answer to the call as the answer to the node.
    """
    own = f"{NODE}{event.node_info.path}"
    return (call.id or "").startswith(NODE) and call.id != own


def _read(event: Event, call: types.FunctionCall, place: int, nth: int) -> SessionRequest:
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
    return SessionRequest(
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


def _with_rest(
    events: Sequence[Event], one: SessionRequest, all_of_them: Sequence[SessionRequest]
) -> SessionRequest:
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
            elif result is None and not _is_asked(event, one.id):
                result = response.response or {}
    beside = events[one.place]
    open_ids = {*(beside.long_running_tool_ids or ()), *done}
    whole = all(call.id in open_ids for call in beside.get_function_calls())
    return replace(one, result=result, answers=tuple(answers), whole=whole)


def _is_asked(event: Event, call_id: str) -> bool:
    """Return whether the result in an event only says that a call waits for a confirmation."""
    return call_id in (event.actions.requested_tool_confirmations or {})


def _of_rule(one: SessionRequest, rule: LongRunning) -> SessionRequest:
    words = "" if not one.result else json.dumps(one.result, ensure_ascii=False, default=str)
    hint = f"What it has returned so far: {words[:_LONGEST_HINT]}" if words else ""
    return replace(one, hint=hint, payload=rule.payload)
