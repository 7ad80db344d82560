"""The responses that agents get for calls that were not approved, and for requests for input."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import JsonValue

from signoff.core.approvals.answers import form_of
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.rules import InputRule, answer_of, rule_for
from signoff.core.approvals.lifecycle import State
from signoff.core.base.errors import InputRefused
from signoff.core.base.text import brief

REFUSAL = "signoff_refusal"
"""The key in the session state for the reason of a refusal."""

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


_REFUSED = {
    State.REJECTED: "was rejected by the approver",
    State.TIMED_OUT: "was not answered in time",
    State.WITHDRAWN: "was withdrawn",
    State.SUPERSEDED: "has been replaced by another one",
}


def refusal(approval: Approval) -> dict[str, Any]:
    """Return the response that the model gets instead of a tool's result if it was not approved.

    The frameworks themselves only say that a call was rejected, and drop the reason.
    """
    decision = approval.decision
    again = approval.origin.again > 0
    response: dict[str, Any] = {
        "status": "in_doubt" if again else approval.state.value,
        "error": _IN_DOUBT
        if again
        else _WORDS.get(approval.state, "This tool call was not approved."),
    }
    if decision is None:
        return response
    if approval.state is State.REJECTED and not decision.by:
        response["error"] = "This tool call was refused, and nobody was asked."
    if decision.reason:
        response["reason"] = decision.reason
    if decision.by and approval.terms is not None and approval.terms.name_approver:
        response["decided_by"] = decision.by
    if decision.proposal is not None:
        response["proposal"] = {"tool": approval.call.name, "args": decision.proposal}
        response["what_to_do"] = (
            f"The approver would approve {approval.call.name} with other arguments. If that "
            "serves the user, call it again with exactly the arguments of the proposal."
        )
    return response


def refusals(approvals: Sequence[Approval]) -> str:
    """Return what was refused and why, in words; "" if everything was approved."""
    return "\n".join(
        f"{one.call.name}(): {refusal_text(one)}"
        for one in approvals
        if one.state is not State.APPROVED
    )


def refusal_text(approval: Approval) -> str:
    """Return why a call was not approved, and what would be approved, in words."""
    response = refusal(approval)
    words = [str(response["error"])]
    if "reason" in response:
        words.append(f"Reason: {response['reason']}")
    if "proposal" in response:
        words.append(f"{response['what_to_do']} {json.dumps(response['proposal'])}")
    return " ".join(words)


def input_value(
    approval: Approval, rules: Sequence[InputRule], *, as_words: bool = True
) -> JsonValue:
    """Return the answer to a request for input.

    Args:
        approval: The request.
        rules: What a plain yes or no means for requests without a schema.
        as_words: Whether a rejection without a rule is passed on in words. For code such as
            ``if answer:`` every word is a yes.

    Raises:
        InputRefused: It was not answered, or was refused and its schema has no form of refusal.
    """
    decision, form = approval.decision, form_of(approval.call)
    yes = approval.state is State.APPROVED
    decided = yes or approval.state is State.REJECTED
    reason = decision.reason if decision is not None else ""
    given = decision.payload if decided and decision is not None else None
    if form.free and not yes and not as_words and isinstance(given, str):
        reason, given = reason or given, None
    if given is not None:
        return given
    if form.free:
        origin, args = approval.origin, approval.call.args
        rule = rule_for(rules, app=origin.app, agent=origin.agent, args=args)
        if rule is not None or (decided if as_words else yes):
            return answer_of(rule, yes=yes, reason=reason)
    elif yes:
        return None
    elif (no := form.refuse(reason if approval.state is State.REJECTED else "")) is not None:
        return no.value
    question = brief(str(approval.call.args.get("message") or ""))
    asked = f' ("{question}")' if question else ""
    raise InputRefused(
        f"The request for input{asked} {_REFUSED.get(approval.state, 'was not answered')}"
        f"{f': {reason}' if reason else ''}. It has no form of rejection, so the run ends here. "
        "Give its response schema a boolean such as `approved`, or set [[inputs]] in the settings "
        "for a request without a schema."
    )
