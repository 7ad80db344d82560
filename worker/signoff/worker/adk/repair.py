"""Completes what a session lacks: a half-written pause, or the result of a call.

A worker may die while ADK writes a pause. ADK writes it as two events: the request
(`adk_request_confirmation` calls) and the placeholder results of the calls that wait. If a worker
dies between them, the session has only one. Without the placeholder, a tool that asked dynamically
can never be approved; without the request, nobody is asked. If the turn ran again instead, the
model might call the tool a second time, and both calls could be approved. Each event contains all
that is needed to write the other.
"""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import JsonValue

from signoff.core.approvals.approval import Approval
from signoff.worker.adk.history import (
    Confirmation,
    asked_for,
    asking_event,
    confirmations,
    original_call,
    responded_ids,
)
from signoff.worker.adk.questions import LOST, RESERVED, confirmation_call
from signoff.worker.suspended import claimed

_PLACEHOLDER = {"error": "This tool call requires confirmation, please approve or reject."}
"""The result that ADK's own gate writes (google.adk.tools._confirmation_utils)."""


def missing_events(events: Sequence[Event], invocation_id: str) -> list[Event]:
    """Return the events that complete the pauses of an invocation, in the order to append them."""
    mine = [event for event in events if event.invocation_id == invocation_id]
    return [*_missing_placeholders(mine), *missing_requests(mine)]


def unanswered_long_running(events: Sequence[Event]) -> dict[str, str]:
    """Return the agents of the long-running calls without a result, by the ids of the calls.

    ADK considers such a call as waiting even if its tool has not run, and never runs it again.
    """
    settled = {one.id for event in events for one in event.get_function_responses()}
    settled |= {one.call_id for event in events for one in confirmations(event)}
    return {
        call.id: event.author or ""
        for event in events
        for call in event.get_function_calls()
        if call.id
        and call.id in (event.long_running_tool_ids or ())
        and call.id not in settled
        and not (call.name or "").startswith(RESERVED)
    }


def lost_results(events: Sequence[Event], results: Mapping[str, JsonValue]) -> list[Event]:
    """Return the results that were lost with a worker of long-running calls, and of others.

    ADK neither runs a long-running call again, nor the calls that the model has made together with
    it, nor continues without them: it waits for results that never come.

    Args:
        events: The events of the turn.
        results: The results of the long-running calls that have run, by their ids; None or empty
            for a call whose result comes later.
    """
    waiting = unanswered_long_running(events)
    settled = {one.id for event in events for one in event.get_function_responses()}
    found = []
    for event in events:
        calls = [call for call in event.get_function_calls() if call.id not in settled]
        if not any(call.id in waiting for call in calls):
            continue
        told = [(call, results.get(call.id or "", LOST)) for call in calls]
        parts = [
            _told(call, result if isinstance(result, dict) else {"result": result})
            for call, result in told
            if result
        ]
        if parts:
            found.append(_beside(event, types.Content(role="user", parts=parts)))
    return found


def cancelled_result(
    events: Sequence[Event], approval: Approval, actions: EventActions
) -> Event | None:
    """Return the result of a finished call as ADK would have written it, if ADK has cancelled it.

    ADK cancels a single-turn agent when another one pauses, also between the end of its tool and
    the event with the result. When that pause is answered, it continues the agent from its events.

    Args:
        events: The events of the session.
        approval: The approval of a call that has finished, with the tool's result.
        actions: What the tool has told ADK to do beside its result.

    Returns:
        None if ADK will not continue the agent, or the call contains suspended code.
    """
    asking = asking_event(events, approval.origin.confirmation)
    asked = asked_for(events, approval.origin.confirmation)
    if asking is None or asked is None or claimed(asked.payload) is not None:
        return None
    # The branch of such an agent ends with the id of the call that has called it.
    caller = (asking.branch or "").rpartition("@")[2]
    settled = {one.id for event in events for one in event.get_function_responses()}
    if caller in settled or original_call(events, caller) is None:
        return None
    result = json.loads(approval.result) if approval.result else {}
    told = result if isinstance(result, dict) else {"result": result}
    call = types.FunctionCall(id=approval.call.id, name=approval.call.name)
    content = types.Content(role="user", parts=[_told(call, told)])
    return _beside(asking, content, actions=actions)


def _missing_placeholders(events: Sequence[Event]) -> list[Event]:
    placed = responded_ids(events)
    found = []
    for event in events:
        bare = [one for one in confirmations(event) if one.call_id not in placed]
        if bare:
            found.append(_placeholder(event, bare))
    return found


def _placeholder(request: Event, bare: Sequence[Confirmation]) -> Event:
    calls = [types.FunctionCall(id=one.call_id, name=one.tool) for one in bare]
    return _beside(
        request,
        types.Content(role="user", parts=[_told(call, _PLACEHOLDER) for call in calls]),
        actions=EventActions(
            skip_summarization=True,
            requested_tool_confirmations={
                one.call_id: ToolConfirmation(hint=one.hint, payload=one.payload) for one in bare
            },
        ),
    )


def missing_requests(events: Sequence[Event]) -> list[Event]:
    """Return the requests that some of these events lack.

    A call may ask again after it was answered, as suspended code does. Before the user's last
    message, such a question was ignored (by an earlier release, or without our guard).
    """
    turn = len(events) - next(
        (place for place, event in enumerate(reversed(events)) if event.author == "user"),
        len(events),
    )
    asked = Counter(one.call_id for event in events for one in confirmations(event))
    wanted: Counter[str] = Counter()
    found = []
    for place, event in enumerate(events):
        lost = {}
        for call_id, ask in (event.actions.requested_tool_confirmations or {}).items():
            wanted[call_id] += 1
            if wanted[call_id] > asked[call_id] and place >= turn:
                lost[call_id] = ask
        if lost:
            found.append(_request(event, lost, wanted, events))
    return found


def _request(
    placeholder: Event,
    lost: dict[str, ToolConfirmation],
    nth: Mapping[str, int],
    events: Sequence[Event],
) -> Event:
    parts, ids = [], set()
    for call_id, ask in lost.items():
        call = original_call(events, call_id)
        if call is None:
            continue
        # Derived from the call, so that a second repair writes the same request.
        name = call_id if nth[call_id] == 1 else f"{call_id}#{nth[call_id]}"
        request_id = f"adk-{uuid.uuid5(uuid.NAMESPACE_OID, name)}"
        ids.add(request_id)
        parts.append(confirmation_call(request_id, call, ask))
    content = types.Content(role="model", parts=parts)
    return _beside(placeholder, content, long_running_tool_ids=ids)


def _beside(event: Event, content: types.Content, **more: Any) -> Event:  # noqa: ANN401 -- fields of events
    """Return an event with other content, but with the agent, the branch and the node of one."""
    place = {
        name: getattr(event, name) for name in ("author", "invocation_id", "branch", "node_info")
    }
    return Event(**place, content=content, **more)


def _told(call: types.FunctionCall, result: Mapping[str, Any]) -> types.Part:
    """Return a part that takes the place of a call's result."""
    response = types.FunctionResponse(id=call.id, name=call.name, response=dict(result))
    return types.Part(function_response=response)
