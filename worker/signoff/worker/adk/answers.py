"""From a decided approval to what ADK and the model are told."""

from __future__ import annotations

from typing import Any

from google.genai import types

from signoff.core.approval import Approval
from signoff.core.lifecycle import State
from signoff.worker.adk.history import CONFIRMATION

_WORDS = {
    State.REJECTED: "This tool call was rejected by the approver.",
    State.TIMED_OUT: "This tool call was not approved: nobody answered in time.",
    State.WITHDRAWN: "This tool call was not approved: the request was withdrawn.",
    State.SUPERSEDED: "This tool call was not approved: another request has taken its place.",
}


def answer_part(approval: Approval) -> types.Part:
    """Return the FunctionResponse that answers a confirmation.

    ADK reads the response into `ToolConfirmation`, which refuses extra keys and takes "yes" for
    true: so it is exactly ``{"confirmed": bool, "payload": ...}``, nothing more, nothing lax.
    """
    confirmed = approval.state is State.APPROVED
    payload = approval.decision.payload if confirmed and approval.decision else None
    return types.Part(
        function_response=types.FunctionResponse(
            id=approval.origin.confirmation,
            name=CONFIRMATION,
            response={"confirmed": confirmed, "payload": payload},
        )
    )


def refusal(approval: Approval) -> dict[str, Any]:
    """Return what the model is told in place of a tool's result when it was not approved.

    ADK by itself says only "This tool call is rejected." and drops the reason.
    """
    told: dict[str, Any] = {
        "status": approval.state.value,
        "error": _WORDS.get(approval.state, "This tool call was not approved."),
    }
    if approval.decision is not None and approval.decision.reason:
        told["reason"] = approval.decision.reason
    return told
