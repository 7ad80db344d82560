"""The wire form of ADK's sessions and messages: JSON in camelCase, read tolerantly."""

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
"""The key of the session state that goes with our message: by its value it is found again."""

TOLD = "signoff_told"
"""The key of the session state that goes with our words about refusals, as with a message."""

_ABOUT_REFUSALS = (
    "These tool calls were not approved, for the reasons below. Do not make them again as they "
    "were; tell the user the results."
)

_ABORTED = "INVOCATION_ABORTED"
"""The error code of such an event (google.adk.events._abort_events)."""

Json = Mapping[str, Any]


def read_events(session: Json) -> list[Event]:
    """Return the events of a session as the server sends it.

    Only what pauses and answers are made of is read: servers in other languages, and of other
    versions, send more than this version of ADK knows, and some send less. What a Python server
    writes when its client is gone is left out: it says that each open call was aborted, and that
    is neither a result of the call nor the end of the turn.

    Raises:
        RemoteError: It is not a session.
    """
    events = session.get("events") or []
    try:
        return [_event(one) for one in events if _get(one, "errorCode") != _ABORTED]
    except (AttributeError, TypeError, ValidationError) as error:
        raise RemoteError(
            f"The server sent session {session.get('id')!r} with an event that cannot be read: "
            f"{error}"
        ) from error


def ordered_agents(session: Json) -> frozenset[str]:
    """Return the ids of the events of agents that another agent runs in an order of its own.

    ADK for Python says where in the tree of nodes an event comes from, and runs a SequentialAgent,
    a LoopAgent, a ParallelAgent or a user's own BaseAgent beside that tree.
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
    """Return the part that answers an approval: strictly ``{confirmed, payload}``, if one is asked.

    The payload of a rejection has the reason. ADK's own gates drop it; a tool that asks in its own
    code is entered with it, because no guard stands there, and may tell it to the model.

    Raises:
        InputRefused: A request for input was not answered, and has no way to say no.
        ConditionError: The result of a long-running call cannot be built.
        SessionGone: Somebody else has answered the request, and otherwise.
    """
    part = reply(events, approval, rules, inputs).part
    dumped = part.model_dump(by_alias=True, exclude_none=True, mode="json")
    reason = approval.decision.reason if approval.decision is not None else ""
    if approval.state is not State.APPROVED and reason and not is_request(approval):
        dumped["functionResponse"]["response"]["payload"] = {"reason": reason}
    return dumped


def message_of(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Return the message of the user that these parts make."""
    return {"role": "user", "parts": list(parts)}


def reasons(approvals: Sequence[Approval]) -> str:
    """Say in words what an agent was not told of refusals; "" where ADK's own words say it all."""
    lines = refusals([one for one in approvals if not is_request(one) and _says_more(one)])
    return f"{_ABOUT_REFUSALS}\n{lines}" if lines else ""


def _says_more(approval: Approval) -> bool:
    """Whether there is more to say than that a call was rejected."""
    told = refusal(approval)
    return told["status"] != State.REJECTED.value or "reason" in told or "proposal" in told


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
    """Return what stands under a name in camelCase, or in snake_case where that is missing."""
    if name in sent:
        return sent[name]
    return sent.get("".join(f"_{one.lower()}" if one.isupper() else one for one in name))
