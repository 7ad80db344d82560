"""Reads and writes the wire form of ADK's sessions and messages: JSON in camelCase."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from google.adk.events.event import Event, NodeInfo
from google.adk.events.event_actions import EventActions
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.genai import types
from pydantic import ValidationError

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import State
from signoff.core.base.errors import RemoteError
from signoff.worker.adk.questions import is_request
from signoff.worker.adk.replies import reply
from signoff.worker.refusals import refusal, refusals

MARK = "signoff_run"
"""The key of the session state sent with a run's message; its value identifies the message."""

TOLD = "signoff_told"
"""The same key for the message that gives an agent the reasons of refusals."""

_ABOUT_REFUSALS = (
    "These tool calls were not approved, for the reasons below. Do not make them again as they "
    "were; tell the user the results."
)

_ABORTED = "INVOCATION_ABORTED"
"""The error code of an event about an aborted call (google.adk.events._abort_events)."""

Json = Mapping[str, Any]


def read_events(session: Json) -> list[Event]:
    """Return the events of a session as the server sends it.

    Only the fields of pauses and answers are read: servers in other languages and of other versions
    send fields that this version of ADK does not know, and some send fewer. When a client
    disconnects, a Python server writes events that say that each open call was aborted. They are
    left out, because they are neither results of the calls nor the end of the turn.

    Raises:
        RemoteError: An event of the session cannot be read.
    """
    return _events(session, aborted=False)


def aborted_calls(session: Json) -> frozenset[str]:
    """Return the ids of the calls that a Python server has answered itself: they were aborted.

    Raises:
        RemoteError: An event of the session cannot be read.
    """
    return frozenset(
        response.id or ""
        for event in _events(session, aborted=True)
        for response in event.get_function_responses()
    )


def ordered_agents(session: Json) -> frozenset[str]:
    """Return the ids of the events of agents that another agent runs in an order of its own.

    ADK for Python gives each event its path in the tree of nodes. A SequentialAgent, a LoopAgent, a
    ParallelAgent and a custom BaseAgent run outside of that tree, so their events have no path.
    """
    return frozenset(
        str(_get(one, "id"))
        for one in session.get("events") or []
        if _get(one, "author") != "user"
        and (node := _get(one, "nodeInfo")) is not None
        and not _get(node, "path")
    )


def read_state(session: Json) -> dict[str, Any]:
    """Return the state of a session."""
    state = session.get("state")
    return state if isinstance(state, dict) else {}


def say(text: str) -> dict[str, Any]:
    """Return a message of the user."""
    return {"role": "user", "parts": [{"text": text}]}


def answer(
    events: Sequence[Event],
    approval: Approval,
    rules: Sequence[LongRunning],
    inputs: Sequence[InputRule] = (),
) -> dict[str, Any]:
    """Return the part that answers an approval; for a confirmation ``{confirmed, payload}``.

    The payload of a rejection contains the reason. ADK's own gates drop it. A tool that asks in its
    own code runs and gets it, because the guard does not run there, and can give it to the model.

    Raises:
        InputRefused: A request for input was not answered, and it has no form of refusal.
        ConditionError: The result of a long-running call cannot be built.
        SessionGone: Somebody else has given the request another answer.
    """
    part = reply(events, approval, rules, inputs).part
    dumped = part.model_dump(by_alias=True, exclude_none=True, mode="json")
    reason = approval.decision.reason if approval.decision is not None else ""
    if approval.state is not State.APPROVED and reason and not is_request(approval):
        dumped["functionResponse"]["response"]["payload"] = {"reason": reason}
    return dumped


def message_of(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return a message of the user with these parts."""
    return {"role": "user", "parts": list(parts)}


def reasons(approvals: Sequence[Approval]) -> str:
    """Return a text with the details of refusals that ADK drops; "" if there are none."""
    lines = refusals([one for one in approvals if not is_request(one) and _says_more(one)])
    return f"{_ABOUT_REFUSALS}\n{lines}" if lines else ""


def _says_more(approval: Approval) -> bool:
    """Return whether a refusal has more details than that the call was rejected."""
    told = refusal(approval)
    return told["status"] != State.REJECTED.value or "reason" in told or "proposal" in told


def _events(session: Json, *, aborted: bool) -> list[Event]:
    events = session.get("events") or []
    try:
        return [_event(one) for one in events if (_get(one, "errorCode") == _ABORTED) is aborted]
    except (AttributeError, TypeError, ValidationError) as error:
        raise RemoteError(
            f"The server sent session {session.get('id')!r} with an event that cannot be read: "
            f"{error}"
        ) from error


def _event(sent: Json) -> Event:
    content = _get(sent, "content")
    actions = _get(sent, "actions") or {}
    node = _get(sent, "nodeInfo") or {}
    return Event(
        id=str(_get(sent, "id") or ""),
        author=_get(sent, "author") or "",
        invocation_id=_get(sent, "invocationId") or "",
        branch=_get(sent, "branch"),
        partial=_get(sent, "partial"),
        output=_get(sent, "output"),
        error_code=_get(sent, "errorCode"),
        error_message=_get(sent, "errorMessage"),
        node_info=NodeInfo(path=_get(node, "path") or ""),
        content=None if content is None else _content(content),
        long_running_tool_ids=set(_get(sent, "longRunningToolIds") or ()),
        actions=EventActions(
            skip_summarization=_get(actions, "skipSummarization"),
            state_delta=dict(_get(actions, "stateDelta") or {}),
            agent_state=_get(actions, "agentState"),
            end_of_agent=_get(actions, "endOfAgent"),
            requested_tool_confirmations={
                call_id: ToolConfirmation(
                    hint=_get(one, "hint") or "",
                    confirmed=_get(one, "confirmed") is True,
                    payload=_get(one, "payload"),
                )
                for call_id, one in (_get(actions, "requestedToolConfirmations") or {}).items()
            },
        ),
    )


def _content(sent: Json) -> types.Content:
    return types.Content(
        role=_get(sent, "role"), parts=[_part(one) for one in _get(sent, "parts") or ()]
    )


def _part(sent: Json) -> types.Part:
    call, response = _get(sent, "functionCall"), _get(sent, "functionResponse")
    if call is not None:
        return types.Part(
            function_call=types.FunctionCall(
                id=_get(call, "id"), name=_get(call, "name"), args=_get(call, "args") or {}
            )
        )
    if response is not None:
        return types.Part(
            function_response=types.FunctionResponse(
                id=_get(response, "id"),
                name=_get(response, "name"),
                response=_get(response, "response") or {},
            )
        )
    return types.Part(text=_get(sent, "text"), thought=_get(sent, "thought"))


def _get(sent: Json, name: str) -> Any:  # noqa: ANN401 -- as the server sends it
    """Return the value of a key in camelCase, or in snake_case if there is none."""
    if name in sent:
        return sent[name]
    return sent.get("".join(f"_{one.lower()}" if one.isupper() else one for one in name))
