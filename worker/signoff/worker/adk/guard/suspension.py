"""How the guard treats code that is suspended inside of a tool call.

Such a tool call needs one approval for each call at which its code stops. Each approval covers one
stretch of the code: from the call that it is about to the next stop, or to the end. The rules for a
tool call also apply to a stretch: it is started once, on one approval, and a stretch that was
started and not seen to finish is in doubt.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import snapshots
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import State
from signoff.worker.adk.guard.agent_tools import is_agent
from signoff.worker.adk.history import asked_for, original_call
from signoff.worker.refusals import refusal
from signoff.worker.suspended import CarriesCode, Resumption, Suspended, claimed

_ASKS: Final = "signoff_asks"
"""The key in the result of a stretch of code for the question that it ended with."""


def _carries_code(tool: BaseTool) -> bool:
    """Return whether a tool can stop at an inner call, made by its code or its agent."""
    return isinstance(tool, CarriesCode) or is_agent(tool)


def code_of(events: Sequence[Event], approval: Approval, tool: BaseTool) -> Suspended | None:
    """Return the location of the code that an approval is about; None for a call without code.

    Only the seal proves that this code exists and has stopped at this call: `CesTool` compares it
    with the approval before it does anything.
    """
    if not _carries_code(tool):
        return None
    call = original_call(events, approval.call.id)
    if not approval.origin.made and (
        call is None or approval.digest_of(call.name or "", call.args or {}) == approval.digest
    ):
        return None
    asked = asked_for(events, approval.origin.confirmation)
    return claimed(asked.payload) if asked is not None else None


async def set_aside(ledger: Ledger, tool: BaseTool, context: ToolContext) -> None:
    """Store the snapshot of code that has just stopped in the ledger, and its name in the session.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    asked = asked_by(context)
    code = claimed(asked.payload) if asked is not None else None
    if asked is not None and code is not None and code.sealed and _carries_code(tool):
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
        call = approval.call
        context.tool_confirmation.payload = Resumption(sealed, call.name, dict(call.args), why)


def to_store(tool: BaseTool, result: object, context: ToolContext) -> object:
    """Return what the ledger stores of a call: its result, and a stretch's next question."""
    if not _carries_code(tool):
        return result
    asked = asked_by(context)
    if asked is not None:
        return {_ASKS: {"hint": asked.hint, "payload": asked.payload}, "result": result}
    # What the code returns is its own, and may look the same.
    ambiguous = isinstance(result, dict) and _ASKS in result
    return {_ASKS: None, "result": result} if ambiguous else result


def to_keep(tool: BaseTool, context: ToolContext) -> EventActions:
    """Return the actions of a call to store with its result; its question is in the result."""
    asked: dict[str, object] = {"requested_tool_confirmations": {}, "skip_summarization": None}
    return context.actions.model_copy(update=asked if _carries_code(tool) else {})


def stored(approval: Approval, tool: BaseTool, context: ToolContext) -> dict[str, Any]:
    """Return the stored result of a call or a stretch of code, and ask its question again."""
    result = json.loads(approval.result) if approval.result else {}
    if not isinstance(result, dict):
        return {"result": result}
    if not _carries_code(tool) or set(result) != {_ASKS, "result"}:
        return result
    told: dict[str, Any] = result["result"]
    if asked := result[_ASKS]:
        context.request_confirmation(hint=asked["hint"], payload=asked["payload"])
        # For an agent, ADK would write its result as a message of the user.
        context.actions.skip_summarization = not is_agent(tool)
    return told


def asked_by(context: ToolContext) -> ToolConfirmation | None:
    """Return the confirmation that a call has requested."""
    return context.actions.requested_tool_confirmations.get(context.function_call_id or "")
