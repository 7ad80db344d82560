"""What a session's events say about one invocation: what waits, what was answered, what was said.

Everything is read from the stored events, never from the stream, so that a worker which takes an
invocation up again sees exactly what the one before it left.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from google.adk.events.event import Event
from google.genai import types

from signoff.core.approval import Approval
from signoff.core.digest import digest
from signoff.core.errors import DigestMismatch, SessionGone
from signoff.core.lifecycle import State

CONFIRMATION = "adk_request_confirmation"
"""The FunctionCall that asks for a confirmation (google.adk.utils._function_call_names)."""


NOT_ROUTABLE = frozenset({"adk_request_credential", "adk_request_input"})
"""Calls by which ADK waits for something else than a confirmation."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One request for a confirmation, as ADK has put it into the session.

    Attributes:
        id: The id of the `adk_request_confirmation` call: what the answer must carry.
        agent: The author of the event.
        invocation: The invocation id.
        call_id: The id of the tool call that waits.
        tool: The tool.
        args: Its arguments.
        hint: The tool's words.
        payload: The payload template.
    """

    id: str
    agent: str
    invocation: str
    call_id: str
    tool: str
    args: dict[str, Any]
    hint: str
    payload: Any


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation in a session.

    Attributes:
        started: Whether the user's message is in the session.
        waiting: The confirmations that nobody has answered, their placeholders in place.
        complete: Whether the turn came to its end: a pause or a last word.
        text: The agent's last word.
        stuck_on: What it waits for that is no confirmation, by the names of the calls.
    """

    started: bool
    waiting: tuple[Confirmation, ...]
    complete: bool
    text: str
    stuck_on: tuple[str, ...] = ()


def read_invocation(events: Sequence[Event], invocation_id: str) -> Invocation:
    """Read where an invocation stands."""
    mine = [event for event in events if event.invocation_id == invocation_id]
    answered = answered_ids(mine)
    placed = responded_ids(mine)
    asked = [one for event in mine for one in confirmations(event)]
    waiting = tuple(one for one in asked if one.id not in answered)
    # Without its placeholder result, a call that asked dynamically could never be approved.
    drained = all(one.call_id in placed for one in waiting)
    last = mine[-1] if mine else None
    spoken = last is not None and last.author != "user" and last.is_final_response()
    return Invocation(
        started=any(event.author == "user" for event in mine),
        waiting=waiting if drained else (),
        complete=bool(waiting) if waiting and drained else bool(spoken and not waiting),
        text=last_text(mine),
        stuck_on=tuple(unanswered(mine)),
    )


def confirmations(event: Event) -> list[Confirmation]:
    """Return the confirmations that an event asks for."""
    found = []
    for call in event.get_function_calls():
        if call.name != CONFIRMATION or not call.id:
            continue
        args = call.args or {}
        original = args.get("originalFunctionCall") or {}
        asked = args.get("toolConfirmation") or {}
        found.append(
            Confirmation(
                id=call.id,
                agent=event.author or "",
                invocation=event.invocation_id or "",
                call_id=original.get("id") or "",
                tool=original.get("name") or "",
                args=original.get("args") or {},
                hint=asked.get("hint") or "",
                payload=asked.get("payload"),
            )
        )
    return found


def answered_ids(events: Sequence[Event]) -> set[str]:
    """Return the ids of the confirmations that have an answer in the session."""
    return {
        response.id
        for event in events
        if event.author == "user"
        for response in event.get_function_responses()
        if response.name == CONFIRMATION and response.id
    }


def consumed(events: Sequence[Event], approvals: Sequence[Approval]) -> bool:
    """Say whether each of these calls has a result behind the answer to its confirmation."""
    answered: set[str] = set()
    left = {one.call.id: one.origin.confirmation for one in approvals}
    for event in events:
        for response in event.get_function_responses():
            if event.author == "user":
                answered.add(response.id or "")
            elif left.get(response.id or "") in answered:
                del left[response.id or ""]
    return not left


def original_call(events: Sequence[Event], call_id: str) -> types.FunctionCall | None:
    """Return a tool call as the model made it, from the session's own history."""
    for event in reversed(events):
        for call in event.get_function_calls():
            if call.id == call_id and call.name != CONFIRMATION:
                return call
    return None


def require_same_call(events: Sequence[Event], session: str, approval: Approval) -> None:
    """Hold an approval against the session's own history: what was shown is what would run.

    Raises:
        SessionGone: The call, or the question about it, is not in the session any more.
        DigestMismatch: It is approved, and in the history it has another name or arguments.
    """
    call = original_call(events, approval.call.id)
    asked = any(
        one.id == approval.origin.confirmation for event in events for one in confirmations(event)
    )
    if call is None or not asked:
        raise SessionGone(
            f"The call {approval.call.id} that approval {approval.id} is for is not in session "
            f"{session} any more: its events were deleted or compacted away. Nothing was run, and "
            "the answer cannot be given; submit the message anew."
        )
    if approval.state is State.APPROVED:
        found = digest(call.name or "", call.args or {})
        if found != approval.digest:
            raise DigestMismatch(
                f"Approval {approval.id} is for {approval.digest}, but the session's history has "
                f"{found}. Nothing was run."
            )


def responded_ids(events: Sequence[Event]) -> set[str]:
    """Return the ids of the tool calls that have a result, or a placeholder for one."""
    return {
        response.id
        for event in events
        if event.author != "user"
        for response in event.get_function_responses()
        if response.id
    }


def unanswered(events: Sequence[Event]) -> list[str]:
    """Return the names of the calls that wait for something else than a confirmation."""
    answered = {response.id for event in events for response in event.get_function_responses()}
    return [
        call.name
        for event in events
        for call in event.get_function_calls()
        if call.name in NOT_ROUTABLE and call.id not in answered
    ]


def last_text(events: Sequence[Event]) -> str:
    """Return the last words that an agent has said, "" where it has said none."""
    for event in reversed(events):
        if event.author == "user" or event.partial or not event.content:
            continue
        text = "".join(
            part.text for part in event.content.parts or [] if part.text and not part.thought
        )
        if text.strip():
            return text.strip()
    return ""
