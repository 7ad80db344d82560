"""Masks the values of an approval that its policy hides from people.

The approval itself keeps these values, because conditions, the digest and the tool need them. Only
the masked copy is shown to people or passed to other programs.
"""

from __future__ import annotations

from typing import TypeVar

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.hidden import (
    call_without_hidden,
    decision_without_hidden,
    program_without_hidden,
    values_without_hidden,
)
from signoff.core.approvals.parts import Extension, Glass, Handover
from signoff.core.base.hiding import secrets_in, without_hidden_text, without_secrets

Reasoned = TypeVar("Reasoned", Extension, Glass, Handover)


def masked(approval: Approval) -> Approval:
    """Return an approval with `HIDDEN` in place of each hidden value.

    Hidden values are masked by name in the arguments, the entered and proposed values and the
    tool's result. In free text (the hint, the words of the agent and of people), literal copies of
    hidden texts are masked. The digest is still that of the real call.
    """
    hide = approval.hides
    if not hide:
        return approval
    secrets, decision = hidden_texts(approval), approval.decision
    program, glass = approval.program, approval.glass

    def reasoned(one: Reasoned) -> Reasoned:
        return one.model_copy(update={"reason": without_secrets(one.reason, secrets)})

    return approval.model_copy(
        update={
            "call": call_without_hidden(approval.call, hide),
            "template": values_without_hidden(approval.template, hide, blanks=False),
            "hint": without_secrets(approval.hint, secrets),
            "said": without_secrets(approval.said, secrets),
            "request": without_secrets(approval.request, secrets),
            "comments": tuple(
                one.model_copy(update={"text": without_secrets(one.text, secrets)})
                for one in approval.comments
            ),
            "steps": tuple(decision_without_hidden(one, hide, secrets) for one in approval.steps),
            "votes": tuple(
                one.model_copy(
                    update={"decision": decision_without_hidden(one.decision, hide, secrets)}
                )
                for one in approval.votes
            ),
            "decision": decision and decision_without_hidden(decision, hide, secrets),
            "result": without_secrets(without_hidden_text(approval.result, hide), secrets),
            "program": program and program_without_hidden(program, hide, secrets),
            "glass": glass and reasoned(glass),
            "extensions": tuple(map(reasoned, approval.extensions)),
            "handovers": tuple(map(reasoned, approval.handovers)),
        }
    )


def hidden_texts(approval: Approval) -> tuple[str, ...]:
    """Return the hidden texts of a call; see `signoff.core.base.hiding.without_secrets`."""
    return secrets_in(dict(approval.call.args), approval.hides)
