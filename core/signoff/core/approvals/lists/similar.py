"""Similar requests: earlier decisions of a person about requests like a pending one.

Two requests are similar if they are for the same tool of the same agent under the same policy.
Their arguments and requesters may differ.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from signoff.core.approvals.approval import Approval, State
from signoff.core.base.counts import counted
from signoff.core.policies.levels import Verdict

_VERDICTS: Final = {State.APPROVED: Verdict.APPROVE, State.REJECTED: Verdict.REJECT}


class Similar(NamedTuple):
    """How many similar requests a person has decided.

    Attributes:
        approved: How many they have approved.
        rejected: How many they have rejected.
    """

    approved: int = 0
    rejected: int = 0

    @property
    def decided(self) -> int:
        """How many they have decided."""
        return self.approved + self.rejected

    @property
    def words(self) -> str:
        """A sentence for the person, "" if there are none."""
        if not self.decided:
            return ""
        counts = (f"{self.approved:,} approved", f"{self.rejected:,} rejected")
        said = [text for text, count in zip(counts, self, strict=True) if count]
        return (
            f"You decided {counted(self.decided, 'request')} like this before: {', '.join(said)}."
        )


def likeness(approval: Approval) -> tuple[str, ...]:
    """Return what similar requests have in common: app, agent, tool and policy.

    It is empty for a request that is not routed yet, because no request is similar to it.
    """
    if approval.terms is None:
        return ()
    return (
        approval.origin.app,
        approval.origin.agent,
        approval.call.name,
        approval.terms.policy,
    )


def answers(approval: Approval) -> dict[str, Verdict]:
    """Return the answers of people to an approved or rejected request, by their ids.

    Decisions by grants, deadlines and emergency overrides do not count as answers.
    """
    verdict, decision = _VERDICTS.get(approval.state), approval.decision
    if verdict is None or decision is None or not likeness(approval):
        return {}
    found = {vote.by: vote.verdict for vote in approval.votes}
    if decision.by and not decision.grant:
        found[decision.by] = verdict
    if approval.glass is not None:
        found.pop(approval.glass.by, None)
    return found
