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

_IN_DOUBT = (
    "The worker that ran this tool call died: it may or may not have happened. "
    "An approver decided not to run it again."
)


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
    decision = approval.decision
    again = approval.origin.again > 0
    told: dict[str, Any] = {
        "status": "in_doubt" if again else approval.state.value,
        "error": _IN_DOUBT
        if again
        else _WORDS.get(approval.state, "This tool call was not approved."),
    }
    if decision is None:
        return told
    if decision.reason:
        told["reason"] = decision.reason
    if decision.by and approval.terms is not None and approval.terms.name_approver:
        told["decided_by"] = decision.by
    if decision.proposal is not None:
        told["proposal"] = {"tool": approval.call.name, "args": decision.proposal}
        told["what_to_do"] = (
            f"The approver would approve {approval.call.name} with other arguments. If that "
            "serves the user, call it again with exactly the arguments of the proposal."
        )
    return told
