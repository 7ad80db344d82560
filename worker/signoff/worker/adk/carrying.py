"""The guard's part in code that is suspended inside of a tool call.

Such a tool call comes to as many approvals as its code stops at calls that need one. Each approval
stands for one stretch of the code: from the call that it is about to the next one, or to the end.
So all that holds for the call of a tool holds for a stretch: it is started once, on one approval,
and a stretch that was started and not seen to finish is in doubt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from signoff.broker import snapshots
from signoff.broker.ledger import Ledger
from signoff.core.approval import Approval
from signoff.core.digest import digest
from signoff.core.errors import DigestMismatch
from signoff.core.lifecycle import State
from signoff.worker.adk.answers import refusal
from signoff.worker.adk.history import asked_for, original_call
from signoff.worker.suspended import Resumption, Suspended, suspended

_ASKS: Final = "signoff_asks"
"""Where a stored result keeps the question that its stretch of code ended with."""


def code_of(events: Sequence[Event], approval: Approval) -> Suspended | None:
    """Return the suspended code that an approval is about, None where it is about a tool call."""
    asked = asked_for(events, approval.origin.confirmation)
    return asked.suspended if asked is not None else None


def require_same_code(
    events: Sequence[Event],
    approval: Approval,
    code: Suspended,
    tool: str,
    args: dict[str, Any],
) -> None:
    """Refuse to go on with code that has stopped at another call, or is carried by another one.

    Raises:
        DigestMismatch: It is.
    """
    carrying = original_call(events, approval.call.id)
    same = (
        carrying is not None
        and (carrying.name, carrying.args or {}) == (tool, args)
        and digest(code.tool, code.args) == approval.digest
    )
    if not same:
        raise DigestMismatch(
            f"Approval {approval.id} is for {approval.digest}, and the code that {tool}() would go "
            "on with has stopped at another call. Nothing was run."
        )


async def set_aside(ledger: Ledger, context: ToolContext) -> None:
    """Put the snapshot of code that has just stopped into the ledger; the session gets its name.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    asked = _asked(context)
    code = suspended(asked.payload) if asked is not None else None
    if asked is not None and code is not None and code.sealed:
        ref = await snapshots.keep(ledger, code.sealed)
        asked.payload = replace(code, sealed="", ref=ref).payload()


async def hand_over(
    ledger: Ledger, approval: Approval, code: Suspended, context: ToolContext
) -> None:
    """Give the tool its snapshot, and the answer to the call that it has stopped at.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    sealed = await snapshots.fetch(ledger, code.ref) if code.ref else code.sealed
    why = None
    if approval.state is not State.APPROVED:
        told = refusal(approval)
        why = " ".join(str(told[key]) for key in ("error", "reason") if key in told)
    if context.tool_confirmation is not None:
        context.tool_confirmation.payload = Resumption(sealed, why)


def with_question(result: dict[str, Any], context: ToolContext) -> dict[str, Any]:
    """Return the result of a stretch of code with the question that it ended with."""
    asked = _asked(context)
    if asked is None or suspended(asked.payload) is None:
        return result
    return {_ASKS: {"hint": asked.hint, "payload": asked.payload}, "result": result}


def stored(approval: Approval, context: ToolContext) -> dict[str, Any]:
    """Return the result that a call or a stretch of code came to, and ask again what it asked."""
    result = json.loads(approval.result) if approval.result else {}
    if not isinstance(result, dict):
        return {"result": result}
    if _ASKS not in result:
        return result
    asked: dict[str, Any] = result[_ASKS]
    context.request_confirmation(hint=asked["hint"], payload=asked["payload"])
    context.actions.skip_summarization = True
    told: dict[str, Any] = result["result"]
    return told


def _asked(context: ToolContext) -> ToolConfirmation | None:
    return context.actions.requested_tool_confirmations.get(context.function_call_id or "")
