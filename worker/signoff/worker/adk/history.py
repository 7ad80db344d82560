"""Reads the state of an invocation from the events of its session: waiting calls, answers, texts.

Everything is read from the stored events, never from the stream, so that a worker that resumes an
invocation sees exactly what the previous worker left.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.adk.events._rewind_events import _apply_rewinds
from google.adk.events.event import Event
from google.genai import types

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.parts import Kind
from signoff.core.base.errors import CallGone, DigestMismatch
from signoff.core.payloads.digest import digest
from signoff.worker.adk.questions import (
    CONFIRMATION,
    SessionRequest,
    asked_since,
    is_request,
    request_of,
    waiting,
)
from signoff.worker.suspended import claimed

CREDENTIAL = "adk_request_credential"
"""The FunctionCall that asks for a credential, which no approver can give."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """One request for a confirmation, as ADK has written it to the session.

    Attributes:
        id: The id of the `adk_request_confirmation` call, which the answer must have.
        agent: The author of the event.
        invocation: The invocation id.
        call_id: The id of the tool call that waits.
        tool: The tool.
        args: Its arguments, as the model gave them.
        hint: The tool's hint for the approver.
        payload: The payload template.
        kind: What is asked for.
        nth: How many requests with this id came before it; ADK creates a new id for each.
        made: See `Origin.made`.
        doubtful: Whether a worker died while code made this call, so that it may have happened.
        declared: What the tool declares; see `Approval.declared`.
    """

    id: str
    agent: str
    invocation: str
    call_id: str
    tool: str
    args: dict[str, Any]
    hint: str
    payload: Any
    kind: Kind = Kind.CONFIRMATION
    nth: int = 0
    made: str = ""
    doubtful: bool = False
    declared: str = ""


@dataclass(frozen=True, slots=True)
class Invocation:
    """One invocation in a session.

    Attributes:
        started: Whether the user's message is in the session.
        waiting: The unanswered confirmations that have their placeholders.
        text: The agent's last message.
        stuck_on: The names of calls that wait for something that no approver can give.
        requests: The unanswered requests for input, and long-running calls that wait for an
            approval.
        left_open: Names of the long-running calls that nobody is asked about.
        said: The agent's text before each waiting call, by the id of the call.
    """

    started: bool
    waiting: tuple[Confirmation, ...]
    text: str
    stuck_on: tuple[str, ...] = ()
    requests: tuple[SessionRequest, ...] = ()
    left_open: tuple[str, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)

    @property
    def paused(self) -> bool:
        """Whether it waits for somebody."""
        return bool(self.waiting or self.requests)


def read_invocation(
    events: Sequence[Event],
    invocation_id: str,
    app: str,
    rules: Sequence[LongRunning],
) -> Invocation:
    """Read the state of an invocation.

    Args:
        events: The events of the whole session.
        invocation_id: The id of the invocation.
        app: The name of the app.
        rules: The long-running tools that wait for an approval.
    """
    asked_for, left_open = waiting(events, {invocation_id}, app, rules)
    mine = [event for event in events if event.invocation_id == invocation_id]
    answered = answered_ids(mine)
    placed = responded_ids(mine)
    asked = [one for event in mine for one in confirmations(event)]
    confirming = tuple(one for one in asked if one.id not in answered)
    # Without its placeholder result, a call that asked dynamically could never be approved.
    drained = all(one.call_id in placed for one in confirming)
    return Invocation(
        started=any(event.author == "user" and event.content for event in mine),
        waiting=confirming if drained else (),
        text=last_words(mine),
        stuck_on=tuple(unanswered(mine)),
        requests=tuple(asked_for) if drained else (),
        left_open=tuple(left_open),
        said=said_before(mine, calls_of(confirming, asked_for)),
    )


def calls_of(confirming: Iterable[Confirmation], asked_for: Iterable[SessionRequest]) -> set[str]:
    """Return the ids of the calls that wait."""
    return {one.call_id for one in confirming} | {one.call_id for one in asked_for}


def said_before(events: Sequence[Event], calls: Collection[str]) -> dict[str, str]:
    """Return the agent's text before each call, by the id of the call.

    That is the text beside the call, or else the agent's last text before it. Text before the
    user's last message is ignored, because it is about something else.
    """
    said: dict[str, str] = {}
    spoken: dict[str, str] = {}
    for event in events:
        author = event.author or ""
        if author == "user":
            spoken.clear()
            continue
        if words := last_text([event]):
            spoken[author] = words
        for call in event.get_function_calls():
            if call.id and call.id in calls and call.name != CONFIRMATION:
                said[call.id] = spoken.get(author, "")
    return said


def confirmations(event: Event) -> list[Confirmation]:
    """Return the confirmations that an event asks for.

    A model can make a call of this name too. ADK marks its own as long-running.
    """
    found = []
    for call in event.get_function_calls():
        if call.name != CONFIRMATION or call.id not in (event.long_running_tool_ids or ()):
            continue
        args = call.args or {}
        original = args.get("originalFunctionCall") or {}
        asked = args.get("toolConfirmation") or {}
        found.append(
            Confirmation(
                id=call.id or "",
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


def asking_event(events: Iterable[Event], confirmation: str) -> Event | None:
    """Return the event that asks for the confirmation of an id."""
    return next(
        (event for event in events if any(one.id == confirmation for one in confirmations(event))),
        None,
    )


def asked_for(events: Sequence[Event], confirmation: str) -> Confirmation | None:
    """Return the request for a confirmation that has an id."""
    return next(
        (one for event in events for one in confirmations(event) if one.id == confirmation), None
    )


def answered_ids(events: Sequence[Event]) -> set[str]:
    """Return the ids of the calls that the user has answered."""
    return {
        response.id
        for event in events
        if event.author == "user"
        for response in event.get_function_responses()
        if response.id
    }


def is_confirmed(events: Sequence[Event], call_id: str) -> bool:
    """Return whether a call was confirmed each time it was asked about, or never asked about."""
    asked = {one.id for event in events for one in confirmations(event) if one.call_id == call_id}
    said = {
        response.id: (response.response or {}).get("confirmed") is True
        for event in events
        if event.author == "user"
        for response in event.get_function_responses()
    }
    return all(said.get(one, False) for one in asked)


def agents_answered(events: Sequence[Event]) -> list[str]:
    """Return the names of the agents that have asked and got an answer."""
    answered = answered_ids(events)
    return [
        event.author or ""
        for event in events
        if event.author != "user" and any(one.id in answered for one in event.get_function_calls())
    ]


def unconsumed(events: Sequence[Event], approvals: Iterable[Approval]) -> list[Approval]:
    """Return the requests whose answer is not in the session, or that ADK has not resumed from.

    A tool call has a result after the answer to its confirmation. A question of a model is consumed
    when its agent has said something after the answer; a question of a node is consumed when any
    agent or node has produced something.
    """
    return [one for one in approvals if not _is_consumed(events, one)]


def _is_consumed(events: Sequence[Event], approval: Approval) -> bool:
    if not is_request(approval):
        return result_of(events, approval) is not None
    request = request_of(events, approval)
    if request is None or not request.answers:
        return False
    asking = events[request.place]
    later = [one for one in events[request.answers[-1][0] + 1 :] if one.author != "user"]
    if request.by_model:
        place = (asking.author, asking.branch)
        return any(one.content and (one.author, one.branch) == place for one in later)
    return any(one.content or one.output is not None for one in later)


def result_of(events: Sequence[Event], approval: Approval) -> dict[str, Any] | None:
    """Return the result of a tool call after the answer to its confirmation; None without one.

    A result before the answer is a placeholder.
    """
    answered = False
    for event in events:
        for response in event.get_function_responses():
            if event.author == "user":
                answered = answered or response.id == approval.origin.confirmation
            elif answered and response.id == approval.call.id:
                return response.response or {}
    return None


def original_call(events: Sequence[Event], call_id: str) -> types.FunctionCall | None:
    """Return a tool call as the model made it, from the session's own history."""
    for event in reversed(events):
        for call in event.get_function_calls():
            if call.id == call_id and call.name != CONFIRMATION:
                return call
    return None


def own_call(events: Sequence[Event], approval: Approval) -> types.FunctionCall | None:
    """Return the call of an approval, which is the latest one with its id before its question."""
    return original_call(events[: _after_question(events, approval)], approval.call.id)


def later_call(events: Sequence[Event], approval: Approval) -> types.FunctionCall | None:
    """Return the latest call with the id of an approval's call after its question, if any.

    Some models use the ids of calls again.
    """
    return original_call(events[_after_question(events, approval) :], approval.call.id)


def _after_question(events: Sequence[Event], approval: Approval) -> int:
    asking = asking_event(events, approval.origin.confirmation)
    places = (place for place, event in enumerate(events) if event is asking)
    return next(places, len(events) - 1) + 1


def beside(events: Sequence[Event], call_id: str) -> list[str]:
    """Return the names of the tools that the model has called in one event with this call."""
    for event in reversed(events):
        calls = event.get_function_calls()
        if any(call.id == call_id for call in calls):
            return [call.name or "" for call in calls if call.id != call_id]
    return []


def require_same_call(
    events: Sequence[Event], session: str, approval: Approval, *, guarded: bool = False
) -> None:
    """Require that the call in the session's history is the one that the approvers were shown.

    Args:
        events: The events of the session.
        session: The id of the session, for errors.
        approval: The approval.
        guarded: Whether our guard checks the tool, and compares suspended code with its seal.

    Raises:
        CallGone: The call, or the question about it, is no longer in the session, or was rewound,
            or a later call has its id.
        DigestMismatch: The approved call has another name or other arguments in the history.
    """
    if is_request(approval):
        _require_same_request(events, session, approval)
        return
    call = own_call(events, approval)
    asked = asked_for(events, approval.origin.confirmation)
    if call is None or asked is None:
        raise CallGone(
            approval.id,
            f"The call {approval.call.id} that approval {approval.id} is for is not in session "
            f"{session} any more: its events were deleted or compacted away. Nothing was run, and "
            "the answer cannot be given; submit the message again.",
        )
    _require_not_rewound(events, asking_event(events, asked.id), session, approval)
    if approval.state is State.APPROVED:
        tool, args = call.name or "", call.args or {}
        if differs(approval, tool, args) and not (guarded and is_of_old_code(asked, approval)):
            found = _digest(approval, tool, args)
            raise DigestMismatch(
                f"Approval {approval.id} is for {approval.digest}, but the session's history has "
                f"{found}. Nothing was run."
            )
    if approval.is_to_run and (later := later_call(events, approval)) is not None:
        _require_equal(call, later, session, approval)


def _require_not_rewound(
    events: Sequence[Event], asking: Event | None, session: str, approval: Approval
) -> None:
    if all(one is not asking for one in _apply_rewinds(list(events))):
        raise CallGone(
            approval.id,
            f"Session {session} was rewound to a moment before {approval.call.name}() was asked "
            f"about in approval {approval.id}, so the answer cannot be given. Submit the message "
            "again.",
        )


def _require_equal(
    call: types.FunctionCall, later: types.FunctionCall, session: str, approval: Approval
) -> None:
    if (later.name, later.args or {}) != (call.name, call.args or {}):
        raise CallGone(
            approval.id,
            f"The call {approval.call.id} that approval {approval.id} is for cannot be run: the "
            f"model has used its id again in session {session}, and google-adk finds only the "
            "later call. Nothing was run, and the answer cannot be given; submit the message "
            "again.",
        )


def differs(approval: Approval, tool: str, args: Mapping[str, Any]) -> bool:
    """Return whether a call in the session differs from the call of an approval.

    Raises:
        NotCanonical: Its arguments have no digest.
    """
    return _digest(approval, tool, args) != (approval.origin.made or approval.digest)


def is_of_old_code(asked: Confirmation, approval: Approval) -> bool:
    """Return whether an approval is for suspended code, but too old to name the code's call."""
    code = claimed(asked.payload)
    made = approval.origin.made
    return (
        code is not None
        and not made
        and approval.digest_of(code.tool, code.args) == approval.digest
    )


def _digest(approval: Approval, tool: str, args: Mapping[str, Any]) -> str:
    """Return the digest of a call in the session, to compare with the digest of an approval."""
    return digest(tool, args) if approval.origin.made else approval.digest_of(tool, args)


def _require_same_request(events: Sequence[Event], session: str, approval: Approval) -> None:
    request = request_of(events, approval)
    if request is None or asked_since(events, approval):
        why = "is not there any more" if request is None else "was put again since, by another run"
        raise CallGone(
            approval.id,
            f"The question of approval {approval.id} {why}, in session {session}: the answer "
            "cannot be given to anybody. Submit the message again.",
        )
    _require_not_rewound(events, events[request.place], session, approval)
    if differs(approval, request.tool, request.args):
        found = _digest(approval, request.tool, request.args)
        raise DigestMismatch(
            f"Approval {approval.id} is for {approval.digest}, but the session's history has "
            f"{found}. Nothing was answered."
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
    """Return the names of the calls that wait for something that no approver can give."""
    answered = {response.id for event in events for response in event.get_function_responses()}
    return [
        call.name
        for event in events
        for call in event.get_function_calls()
        if call.name == CREDENTIAL and call.id not in answered
    ]


def last_text(events: Sequence[Event]) -> str:
    """Return the last text of an agent; "" if there is none."""
    for event in reversed(events):
        if event.author == "user" or event.partial or not event.content:
            continue
        text = "".join(
            part.text for part in event.content.parts or [] if part.text and not part.thought
        )
        if text.strip():
            return text.strip()
    return ""


def last_words(events: Sequence[Event]) -> str:
    """Return the result of an invocation: the last text of an agent, or the output of a node."""
    for event in reversed(events):
        if event.author == "user" or event.partial:
            continue
        if text := last_text([event]):
            return text
        if event.output is not None:
            output = event.output
            words = output if isinstance(output, str) else json.dumps(output, default=str)
            return words.strip()
    return ""
