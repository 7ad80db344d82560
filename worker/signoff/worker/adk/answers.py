"""From a decided approval to what ADK and the model are told."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.genai import types
from pydantic import JsonValue

from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input_rules import (
    InputRule,
    answer_of,
    rule_for,
)
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.long_running import LongRunning, result_of
from signoff.core.approvals.parts import INPUT, Kind
from signoff.core.base.errors import InputRefused
from signoff.core.base.text import brief
from signoff.worker.adk.history import CONFIRMATION
from signoff.worker.adk.questions import Request, is_node, matching

_REFUSED = {
    State.REJECTED: "was rejected by the approver",
    State.TIMED_OUT: "was not answered in time",
    State.WITHDRAWN: "was withdrawn",
    State.SUPERSEDED: "has been replaced by another one",
}


def answer_part(approval: Approval) -> types.Part:
    """Return the FunctionResponse that answers a confirmation, of a tool or of a node.

    ADK reads the response into `ToolConfirmation`, which refuses extra keys and takes "yes" for
    true: so it is exactly ``{"confirmed": bool, "payload": ...}``, nothing more, nothing lax.
    """
    confirmed = approval.state is State.APPROVED
    payload = approval.decision.payload if confirmed and approval.decision else None
    return types.Part(
        function_response=types.FunctionResponse(
            id=approval.origin.confirmation,
            name=INPUT if is_node(approval) else CONFIRMATION,
            response={"confirmed": confirmed, "payload": payload},
        )
    )


def request_part(
    approval: Approval,
    request: Request,
    rules: Sequence[LongRunning],
    inputs: Sequence[InputRule] = (),
) -> types.Part:
    """Return the FunctionResponse that answers a request for input, or ends a long-running call.

    Raises:
        InputRefused: It was not answered, and there is no way to say no to it.
        ConditionError: The expression that gives the result of the tool cannot be evaluated.
    """
    if is_node(approval):
        return answer_part(approval)
    if approval.kind is Kind.LONG_RUNNING:
        rule = matching(rules, approval.origin.app, request)
        response: dict[str, Any] = result_of(rule, approval, request.result)
    else:
        response = wrapped(input_value(approval, inputs))
    return types.Part(
        function_response=types.FunctionResponse(
            id=request.id, name=request.name, response=response
        )
    )


def input_value(approval: Approval, rules: Sequence[InputRule] = ()) -> JsonValue:
    """Return the answer to a request for input.

    Raises:
        InputRefused: It was not answered, or refused where its schema has no way to say no.
    """
    decision, form = approval.decision, form_of(approval.call)
    yes = approval.state is State.APPROVED
    decided = yes or approval.state is State.REJECTED
    reason = decision.reason if decision is not None else ""
    if decided and decision is not None and decision.payload is not None:
        return decision.payload
    if form.free:
        origin, args = approval.origin, approval.call.args
        rule = rule_for(rules, app=origin.app, agent=origin.agent, args=args)
        if decided or rule is not None:
            return answer_of(rule, yes=yes, reason=reason)
    elif yes:
        return None
    elif (no := form.refuse(reason if approval.state is State.REJECTED else "")) is not None:
        return no.value
    question = brief(str(approval.call.args.get("message") or ""))
    asked = f' ("{question}")' if question else ""
    raise InputRefused(
        f"The request for input{asked} {_REFUSED.get(approval.state, 'was not answered')}"
        f"{f': {reason}' if reason else ''}. It has no answer that says no, so the run ends here; "
        "a response schema with a boolean such as `approved` has one, and so has [[inputs]] in the "
        "settings, for a request without a schema."
    )


def wrapped(value: JsonValue) -> dict[str, Any]:
    """Wrap the answer to a request for input so that ADK unwraps it to the very same value.

    It takes a dictionary as it is, unwraps ``{"result": …}``, and reads a text in there as JSON
    where it can: "0042" would become 42 (google.adk.workflow.utils._rehydration_utils).
    """
    if isinstance(value, dict):
        return {"result": value} if set(value) == {"result"} else value
    if not isinstance(value, str):
        return {"result": value}
    try:
        json.loads(value)
    except ValueError:
        return {"result": value}
    return {"result": json.dumps(value)}
