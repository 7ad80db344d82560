"""Builds the responses for ADK and the model from decided approvals."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from google.genai import types
from pydantic import JsonValue

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning, result_of
from signoff.core.approvals.input.rules import (
    InputRule,
)
from signoff.core.approvals.lifecycle import State
from signoff.core.approvals.parts import INPUT, Kind
from signoff.worker.adk.questions import CONFIRMATION, SessionRequest, is_node, matching
from signoff.worker.refusals import input_value


def answer_part(approval: Approval) -> types.Part:
    """Return the FunctionResponse that answers a confirmation, of a tool or of a node.

    ADK parses the response as `ToolConfirmation`, which refuses extra keys and accepts "yes" as
    true. So the response is exactly ``{"confirmed": bool, "payload": ...}``, with a real boolean.
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
    request: SessionRequest,
    rules: Sequence[LongRunning],
    inputs: Sequence[InputRule],
) -> types.Part:
    """Return the FunctionResponse that answers a request for input, or ends a long-running call.

    Raises:
        InputRefused: The request was not answered, and it has no form of refusal.
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


def wrapped(value: JsonValue) -> dict[str, Any]:
    """Wrap the answer to a request for input so that ADK unwraps it to the very same value.

    ADK keeps a dictionary unchanged, unwraps ``{"result": …}``, and parses text in it as JSON if it
    can: "0042" would become 42 (google.adk.workflow.utils._rehydration_utils).
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
