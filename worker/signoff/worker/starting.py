"""The checks before every approved call starts, in all frameworks."""

from __future__ import annotations

import copy
from datetime import datetime, timedelta
from typing import Any

from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.base.errors import ApprovalExpired, ReceiptRefused, ToolInDoubt


def copied(args: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of arguments, which only the tool itself can change afterwards.

    A value that cannot be copied is not JSON, so nobody can approve it.
    """
    try:
        return copy.deepcopy(args)
    except Exception:  # noqa: BLE001 -- a class may raise anything when it is copied
        return dict(args)


def require_recorded(approval: Approval) -> None:
    """Refuse to start a call that was started before.

    Raises:
        ToolInDoubt: It was started, and not seen to finish.
    """
    if approval.handoff is not Handoff.RECORDED:
        raise ToolInDoubt(
            f"{approval.call.name}() of approval {approval.id} is {approval.handoff}."
        )


def require_good(ledger: Ledger, approval: Approval, now: datetime, valid_for: timedelta) -> None:
    """Refuse to start a call whose approval is not proven, or has expired since the run resumed.

    Args:
        ledger: Has the keys of receipts, if there are any.
        approval: The approval.
        now: The current time (UTC).
        valid_for: How long an approval is valid if its policy does not say.

    Raises:
        ReceiptRefused: No valid receipt proves the approval.
        KeyUnknown: The receipt is signed with an unknown key.
        ApprovalExpired: The approval has expired.
    """
    receipts = ledger.receipts
    if receipts is not None and (why := receipts.why_refused(approval, now)):
        raise ReceiptRefused(f"{approval.call.name}() of approval {approval.id}: {why}.")
    if approval.has_expired(now, valid_for):
        raise ApprovalExpired(
            f"Approval {approval.id} has expired, and {approval.call.name}() was not run. Ask the "
            "agent again."
        )
