"""Asks again about a call that somebody has changed in the history after it was asked about.

ADK stores a call twice, as the model made it and in the question about it, and resumes only if both
agree (google.adk.flows.llm_flows.tools._confirmation). So there is a new question about the call
that the history has now, with an approval of its own. The earlier question is rejected, so that
nobody is asked about both.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.base.errors import CallChanged, CallGone
from signoff.core.payloads.digest import digest
from signoff.worker.adk.foreign_answers import MARK
from signoff.worker.adk.history import (
    Confirmation,
    answered_ids,
    asked_for,
    asking_event,
    confirmations,
    differs,
    is_of_old_code,
    own_call,
)
from signoff.worker.adk.questions import (
    CONFIRMATION,
    SessionRequest,
    confirmation_call,
    is_request,
    requests,
)
from signoff.worker.suspended import claimed

_CHANGED: Final = "The history of the session was changed since it was asked about."
_AGAIN: Final = "Its question was put again since it was asked about."


def is_edited(events: Sequence[Event], approval: Approval) -> bool:
    """Return whether the history now has another call, or another question, than was approved."""
    if approval.state is not State.APPROVED or approval.handoff is not Handoff.RECORDED:
        return False
    if approval.digest != approval.digest_of(approval.call.name, approval.call.args):
        return False  # the approval itself was tampered with, so it cannot be asked again
    if is_request(approval):
        found = _request(events, approval)
        return found is not None and (
            found.nth != approval.origin.nth or differs(approval, found.tool, found.args)
        )
    call = own_call(events, approval)
    if call is None:
        return False
    asked = asked_for(events, approval.origin.confirmation)
    if asked is None or (asked.tool, asked.args) != (call.name, call.args or {}):
        return True
    return differs(approval, asked.tool, asked.args) and not is_of_old_code(asked, approval)


def new_question(events: Sequence[Event], approval: Approval) -> tuple[list[Event], CallChanged]:
    """Return a new question about a call as the history has it now, and the error for the change.

    Args:
        events: The events of the session.
        approval: An approval that `is_edited`.

    Returns:
        The events to append, none if the session has the question already; and the error.

    Raises:
        CallGone: Nobody can be asked about the call, because code that is suspended inside of it
            may have run in part.
    """
    if is_request(approval):
        return [], _request_now(events, approval)
    call = own_call(events, approval)
    asked = asked_for(events, approval.origin.confirmation)
    ask = _asked_by_tool(events, approval.call.id, asked)
    inside = approval.origin.made and approval.call.name != (call.name if call else "")
    if call is None or inside or claimed(ask.payload) is not None:
        raise CallGone(
            approval.id,
            f"{_CHANGED} {approval.call.name}() of approval {approval.id} was not run, and it may "
            "have been a call from inside of another one: nobody can be asked about it. Submit the "
            "message again.",
        )
    tool, args = call.name or "", call.args or {}
    was = approval.origin.confirmation
    question = f"adk-{uuid.uuid5(uuid.NAMESPACE_OID, f'{was}#{digest(tool, args)}')}"
    origin = {"confirmation": question, "made": ""}
    changed = CallChanged(
        approval.id,
        _CHANGED,
        tool=tool,
        arguments=args,
        origin=origin,
        declared=approval.declared if tool == approval.call.name else "",
    )
    if asking_event(events, question) is not None:
        return [], changed
    beside = next(
        event
        for event in events
        if any(one.id == call.id and one.name != CONFIRMATION for one in event.get_function_calls())
    )
    settled = _settled(events, call.id or "", approval.origin.run)
    return [*settled, _asking(beside, question, call, ask)], changed


def _request(events: Sequence[Event], approval: Approval) -> SessionRequest | None:
    """Return the latest request with the id of an approval's request, in the same invocation."""
    origin = approval.origin
    same = [one for one in requests(events) if one.id == origin.confirmation]
    if len(same) <= origin.nth or same[-1].invocation != origin.invocation:
        return None
    return same[-1]


def _request_now(events: Sequence[Event], approval: Approval) -> CallChanged:
    found = _request(events, approval)
    if found is None or found.kind is not approval.kind:
        raise CallGone(
            approval.id,
            f"{_CHANGED} The question of approval {approval.id} is of another kind now, and "
            "nothing was answered. Submit the message again.",
        )
    return CallChanged(
        approval.id,
        _CHANGED if found.nth == approval.origin.nth else _AGAIN,
        tool=found.tool,
        arguments=found.args,
        origin={"nth": found.nth, "made": ""},
        declared=approval.declared,
    )


def _asked_by_tool(
    events: Sequence[Event], call_id: str, asked: Confirmation | None
) -> ToolConfirmation:
    """Return the hint and the payload with which a call was asked about."""
    if asked is not None:
        return ToolConfirmation(hint=asked.hint, payload=asked.payload)
    for event in reversed(events):
        if found := (event.actions.requested_tool_confirmations or {}).get(call_id):
            return found
    return ToolConfirmation()


def _settled(events: Sequence[Event], call_id: str, run: str) -> list[Event]:
    """Return a rejection of each open question about a call: a resumable app waits for them."""
    answered = answered_ids(events)
    found = []
    for event in events:
        for one in confirmations(event):
            if one.call_id == call_id and one.id not in answered:
                response = types.FunctionResponse(
                    id=one.id, name=CONFIRMATION, response={"confirmed": False}
                )
                part = types.Part(function_response=response)
                found.append(_at(event, "user", part, custom_metadata={MARK: run}))
    return found


def _asking(beside: Event, question: str, call: types.FunctionCall, ask: ToolConfirmation) -> Event:
    part, ids = confirmation_call(question, call, ask), {question}
    return _at(beside, beside.author, part, long_running_tool_ids=ids, node_info=beside.node_info)


def _at(place: Event, author: str | None, part: types.Part, **more: Any) -> Event:  # noqa: ANN401 -- fields of events
    """Return an event with one part, at the place of another one."""
    role = "user" if author == "user" else "model"
    return Event(
        author=author or "",
        invocation_id=place.invocation_id,
        branch=place.branch,
        isolation_scope=place.isolation_scope,
        content=types.Content(role=role, parts=[part]),
        **more,
    )
