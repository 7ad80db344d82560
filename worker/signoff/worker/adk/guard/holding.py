"""Calls that need no approval, but wait for the approval of another call of the same turn.

ADK would run such a call immediately. If a policy has `hold = "siblings"`, or if the agent would
leave its turn with the call, the guard answers the call in place of its tool. Once all the calls
that it waits for are approved, the guard repeats the call from the session in place of the model.
So it then runs like any other call that needs no approval.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.events.event import Event
from google.adk.models.llm_response import LlmResponse
from google.adk.tools.agent_tool import _TaskAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext
from google.adk.utils.content_utils import SKIP_THOUGHT_SIGNATURE_VALIDATOR
from google.genai import types

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.suspended import arguments
from signoff.core.policies.policy import Fallback, Hold, Policy
from signoff.core.routing.selection import holds_siblings
from signoff.worker.adk.guard.journals import first_id, own_events, with_new_id
from signoff.worker.adk.history import confirmations
from signoff.worker.adk.questions import CONFIRMATION
from signoff.worker.starting import copied

_HELD: Final = "held"
_KEPT: Final = timedelta(days=400)
"""How long a held call is stored: as long as a snapshot, because an approval may wait long."""

LEAVING: Final = frozenset({"transfer_to_agent", "exit_loop"})
"""Tools with which an agent leaves its turn: ADK does not come back to its calls that wait."""

_LAST: Final = frozenset({"finish_task", "set_model_response"})
"""Tools by which an agent returns its result: ADK takes any result of them as the agent's."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The policies, which say which calls hold their siblings.

    Attributes:
        policies: The policies, in order.
        fallback: The default, for calls that no policy matches.
    """

    policies: Sequence[Policy] = ()
    fallback: Fallback = field(default_factory=Fallback)

    @property
    def ever(self) -> bool:
        """Whether any policy holds calls."""
        return any(one.hold is not Hold.NONE for one in (*self.policies, self.fallback))

    async def reasons(self, tool: BaseTool, context: ToolContext, now: datetime) -> list[str]:
        """Return the names of the sibling tools that need an approval and hold this call."""
        agent = context._invocation_context.agent  # noqa: SLF001 -- ADK looks for tools there too
        step = _calls_with(context.session.events, context.function_call_id or "")
        if len(step) < 2 or _is_unfit(tool) or not isinstance(agent, LlmAgent):
            return []
        mine, *calls = step
        leaves = tool.name in LEAVING
        facts = {
            "app": context.session.app_name,
            "agent": context.agent_name,
            "user": context.user_id,
        }
        holding = [
            call
            for call in calls
            if leaves
            or holds_siblings(
                self.policies,
                self.fallback,
                {**facts, "tool": call.name or "", "args": dict(call.args or {})},
                now=now,
            )
        ]
        if not holding or await _asks(tool, mine, context):
            return []  # a call that needs an approval waits for its own approval
        found = await agent.canonical_tools(ReadonlyContext(context._invocation_context))  # noqa: SLF001
        tools = {one.name: one for one in found}
        return [
            call.name or ""
            for call in holding
            if (other := tools.get(call.name or "")) is not None
            and await _asks(other, call, context)
        ]


async def hold(ledger: Ledger, names: Sequence[str], context: ToolContext) -> dict[str, Any]:
    """Return the response that the model gets instead of the result of a held call.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    await arguments.keep(
        ledger, _where(context, context.function_call_id or ""), {_HELD: True}, kept=_KEPT
    )
    others = ", ".join(f"{name}()" for name in dict.fromkeys(names))
    return {
        "status": _HELD,
        "error": f"This tool call was not run, because {others} beside it needs an approval "
        "first. Once that is approved, this call is made again. If it is refused, nothing is run: "
        "make the call again if it is still wanted.",
    }


async def held_again(
    ledger: Ledger,
    context: CallbackContext,
    approved: Callable[[str], Awaitable[bool]],
) -> LlmResponse | None:
    """Return the held calls if everything that they waited for is approved.

    Args:
        ledger: Knows which calls were held; a tool's own result may look like that of a held call.
        context: The context of the model call in whose place they are returned.
        approved: Returns whether the call with an id is approved.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    own = own_events(context)
    made = [one for one in own if not one.get_function_responses() and not confirmations(one)]
    # If the model has responded since, it knew the results of the decision.
    if not made or not made[-1].get_function_calls():
        return None
    told = {one.id: one.response or {} for event in own for one in event.get_function_responses()}
    by_first: dict[str, list[str]] = {}
    for event in own:
        for call in event.get_function_calls():
            if call.id and call.name != CONFIRMATION:
                by_first.setdefault(first_id(call.id), []).append(call.id)
    parts = []
    for part in (made[-1].content.parts or []) if made[-1].content else []:
        call_id = part.function_call.id if part.function_call else None
        if not call_id:
            continue
        # A worker may have died after it repeated the calls: the repeated calls have no result.
        answered = [one for one in by_first.get(first_id(call_id), ()) if one in told]
        if not answered or told[answered[-1]].get("status") != _HELD:
            continue
        if await arguments.fetch(ledger, _where(context, answered[-1])) is None:
            continue
        others = [one.id for one in _calls_with(own, answered[-1])[1:] if one.id]
        if all([await approved(one) for one in others]):
            parts.append(with_new_id(part))
    if not parts:
        return None
    signed = any(part.thought_signature for event in own for part in _parts(event))
    if signed and not parts[0].thought_signature:
        # A model that signs its calls refuses a turn whose first call is not signed.
        update = {"thought_signature": SKIP_THOUGHT_SIGNATURE_VALIDATOR}
        parts[0] = parts[0].model_copy(update=update)
    return LlmResponse(content=types.Content(role="model", parts=parts))


def _calls_with(events: Sequence[Event], call_id: str) -> list[types.FunctionCall]:
    """Return the calls of one model response, the call with this id first."""
    for event in reversed(events):
        calls = event.get_function_calls()
        if any(one.id == call_id for one in calls):
            return sorted(calls, key=lambda one: one.id != call_id)
    return []


def _is_unfit(tool: BaseTool) -> bool:
    """Return whether ADK would take a response in place of a tool for the tool's real result."""
    task = isinstance(tool, _TaskAgentTool)
    return tool.is_long_running or task or tool.name in _LAST


async def _asks(tool: BaseTool, call: types.FunctionCall, context: ToolContext) -> bool:
    """Return whether a tool declares in advance that this call needs an approval."""
    own = ToolContext(context._invocation_context, function_call_id=call.id)  # noqa: SLF001
    try:
        return await tool.check_require_confirmation(copied(dict(call.args or {})), own) is True
    except Exception:  # noqa: BLE001 -- it raises again when ADK runs the call
        return False


def _parts(event: Event) -> list[types.Part]:
    return event.content.parts or [] if event.content else []


def _where(context: CallbackContext, call_id: str) -> list[str]:
    session = context.session
    return [session.app_name, session.user_id, session.id, call_id, _HELD]
