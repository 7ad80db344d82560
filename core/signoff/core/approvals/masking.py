"""What people are shown of an approval: everything but the values that its policy hides.

The approval itself keeps the values: conditions, the digest and the tool need them. Whatever shows
an approval to somebody, or hands it to another program, shows this copy of it.
"""

from __future__ import annotations

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.hidden import (
    call_without_hidden,
    decision_without_hidden,
    values_without_hidden,
)
from signoff.core.base.hiding import secrets_in, without_hidden_text, without_secrets


def masked(approval: Approval) -> Approval:
    """Return an approval with `HIDDEN` in the place of each value that is hidden.

    The arguments, what was filled in or proposed, and the tool's result lose them by name. Texts
    that nobody has structured (the hint, what the agent and people said) lose those of the hidden
    texts that they repeat as they are. The digest stays that of the real call.
    """
    hide = approval.hides
    if not hide:
        return approval
    secrets, decision = hidden_texts(approval), approval.decision
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
        }
    )


def hidden_texts(approval: Approval) -> tuple[str, ...]:
    """Return the hidden texts of a call; see `signoff.core.base.hiding.without_secrets`."""
    return secrets_in(dict(approval.call.args), approval.hides)
