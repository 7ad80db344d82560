"""Questions of a server before a call goes on. The gate asks them; the answer may take days.

A server of MCP 2026-07-28 answers a call with `InputRequiredResult`, and forgets it; the call is
made again with the answers. So nothing has to stay alive while a person thinks.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from pydantic import JsonValue

from signoff.channels.aap.wire import LONGEST, shown
from signoff.channels.mcp.messages import Answer
from signoff.core.approvals.approval import Approval, Moved
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.parts import Kind, Program, ToolCall

MOST_QUESTIONS: Final = 10
"""The most questions of a server at once: each is a message to people."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question of a server.

    Attributes:
        name: The name under which the server gets the answer.
        message: The question.
        schema: The JSON schema of the answer.
    """

    name: str
    message: str
    schema: JsonValue


def questions(answer: Answer) -> list[Question] | None:
    """Return the questions of a server, None if people cannot be asked all of them."""
    requests = _required(answer).get("inputRequests")
    asked = requests if isinstance(requests, dict) else {}
    found = []
    if len(asked) > MOST_QUESTIONS:
        return None
    for name, one in asked.items():
        params = one.get("params") if isinstance(one, dict) else None
        if not isinstance(params, dict) or params.get("mode", "form") != "form":
            return None
        if one.get("method") != "elicitation/create":
            return None
        message, schema = params.get("message"), shown(params.get("requestedSchema"))
        found.append(Question(name, message if isinstance(message, str) else "", schema))
    return found


def bare_state(answer: Answer) -> str | None:
    """Return the state of a server that only asks for the same call again, None otherwise."""
    return None if _required(answer).get("inputRequests") else state_of(answer)


def state_of(answer: Answer) -> str | None:
    """Return the state that a server wants back, None if there is none."""
    found = _required(answer).get("requestState")
    return found if isinstance(found, str) else None


def opened(permission: Approval, question: Question, now: datetime) -> Moved:
    """Open a request for input on behalf of an approved call."""
    request = str(uuid.uuid4())
    args: dict[str, JsonValue] = {
        "message": question.message,
        "response_schema": question.schema,
    }
    return Approval.open(
        permission.origin.model_copy(update={"confirmation": request}),
        ToolCall(id=request, name=permission.call.name, args=args),
        kind=Kind.INPUT,
        hint="",
        template=None,
        now=now,
        hide=permission.hides,
        program=_program(permission, request, now),
    )


def may_run_again(permission: Approval, doubtful: Approval, now: datetime) -> Moved:
    """Open an approval for a call that went on with answers and was not seen to finish.

    `permission` is the approval of the call, `doubtful` one of the answers.
    """
    request = str(uuid.uuid4())
    origin = permission.origin
    return Approval.open(
        origin.model_copy(update={"confirmation": request, "again": origin.again + 1}),
        permission.call,
        hint=f"The program stopped while {permission.call.name} went on with the answers that were "
        "given: it may or may not have happened. Look first. Run it again?",
        template=None,
        now=now,
        hide=permission.hides,
        supersedes=doubtful.id,
        program=_program(permission, request, now),
    )


def response(approval: Approval) -> dict[str, Any]:
    """Return an answer as the server gets it: `ElicitResult`."""
    decision = approval.decision
    if decision is not None and isinstance(decision.payload, dict):
        return {"action": "accept", "content": decision.payload}
    declined = approval.state in {State.APPROVED, State.REJECTED}
    return {"action": "decline" if declined else "cancel"}


def _program(permission: Approval, request: str, now: datetime) -> Program | None:
    program = permission.program
    if program is None:
        return None
    return program.not_started(now + LONGEST).model_copy(update={"request": request})


def _required(answer: Answer) -> dict[str, Any]:
    if answer.kind != "result":
        return {}
    value = answer.value
    return value if value.get("resultType") == "input_required" else {}
