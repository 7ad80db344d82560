"""Calls that need no approval, and wait for the approval of another call of the same turn.

ADK runs such a call at once. Where a policy has `hold = "siblings"`, the guard answers it in its
tool's place. Once all calls beside it that were asked about are approved, the model's call is said
again, from the session, in the place of the model: so it runs like any other call, and what holds
for calls that nobody is asked about holds for it.
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
from signoff.worker.adk.guard.entering import copied
from signoff.worker.adk.guard.journals import first_id, own_events, said_anew
from signoff.worker.adk.history import CONFIRMATION, confirmations

_HELD: Final = "held"
_KEPT: Final = timedelta(days=400)
"""As a snapshot: an approval may wait for long."""

_LAST: Final = frozenset({"finish_task", "set_model_response"})
"""Calls by which an agent hands in its result: ADK takes any result of theirs for it."""


@dataclass(frozen=True, slots=True)
class Holding:
    """The policies, as far as they say which calls hold those beside them.

    Attributes:
        policies: In order.
        fallback: What rules where none of them matches.
    """

    policies: Sequence[Policy] = ()
    fallback: Fallback = field(default_factory=Fallback)

    @property
    def ever(self) -> bool:
        """Whether any of them holds calls."""
        return any(one.hold is not Hold.NONE for one in (*self.policies, self.fallback))

    async def reasons(self, tool: BaseTool, context: ToolContext, now: datetime) -> list[str]:
        """Return the tools whose calls need an approval, and hold a call that needs none."""
        agent = context._invocation_context.agent  # noqa: SLF001 -- ADK looks for tools there too
        step = _calls_with(context.session.events, context.function_call_id or "")
        if len(step) < 2 or _is_unfit(tool) or not isinstance(agent, LlmAgent):
            return []
        mine, *calls = step
        facts = {
            "app": context.session.app_name,
            "agent": context.agent_name,
            "user": context.user_id,
        }
        holding = [
            call
            for call in calls
            if holds_siblings(
                self.policies,
                self.fallback,
                {**facts, "tool": call.name or "", "args": dict(call.args or {})},
                now=now,
            )
        ]
        if not holding or await _asks(tool, mine, context):
            return []  # what needs an approval waits for its own
        found = await agent.canonical_tools(ReadonlyContext(context._invocation_context))  # noqa: SLF001
        tools = {one.name: one for one in found}
        return [
            call.name or ""
            for call in holding
            if (other := tools.get(call.name or "")) is not None
            and await _asks(other, call, context)
        ]


async def hold(ledger: Ledger, names: Sequence[str], context: ToolContext) -> dict[str, Any]:
    """Return what the model is told in place of the result of a call that is held.

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
    """Return the calls that were held, where all that they waited for is approved by now.

    Args:
        ledger: Says which calls were held: a result that looks so may be a tool's own.
        context: Of the call of the model in whose place they are said.
        approved: Says whether the call of an id that was asked about is approved.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    own = own_events(context)
    made = [one for one in own if not one.get_function_responses() and not confirmations(one)]
    # What the model has said since was said with the result of the decision before it.
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
        # A worker may have died behind the calls that were said again: those have no result.
        answered = [one for one in by_first.get(first_id(call_id), ()) if one in told]
        if not answered or told[answered[-1]].get("status") != _HELD:
            continue
        if await arguments.fetch(ledger, _where(context, answered[-1])) is None:
            continue
        others = [one.id for one in _calls_with(own, answered[-1])[1:] if one.id]
        if all([await approved(one) for one in others]):
            parts.append(said_anew(part))
    if not parts:
        return None
    signed = any(part.thought_signature for event in own for part in _parts(event))
    if signed and not parts[0].thought_signature:
        # A model that signs its calls refuses a turn whose first call it has not signed.
        update = {"thought_signature": SKIP_THOUGHT_SIGNATURE_VALIDATOR}
        parts[0] = parts[0].model_copy(update=update)
    return LlmResponse(content=types.Content(role="model", parts=parts))


def _calls_with(events: Sequence[Event], call_id: str) -> list[types.FunctionCall]:
    """Return the calls that a model has made in one event, the one with this id first."""
    for event in reversed(events):
        calls = event.get_function_calls()
        if any(one.id == call_id for one in calls):
            return sorted(calls, key=lambda one: one.id != call_id)
    return []


def _is_unfit(tool: BaseTool) -> bool:
    """Say whether a result that is given in a tool's place would be taken for the real one."""
    task = isinstance(tool, _TaskAgentTool)
    return tool.is_long_running or task or tool.name in _LAST


async def _asks(tool: BaseTool, call: types.FunctionCall, context: ToolContext) -> bool:
    """Say whether a tool says in advance that a call of it needs an approval."""
    own = ToolContext(context._invocation_context, function_call_id=call.id)  # noqa: SLF001
    try:
        return await tool.check_require_confirmation(copied(dict(call.args or {})), own) is True
    except Exception:  # noqa: BLE001 -- it raises again where the call is run, and nobody is asked
        return False


def _parts(event: Event) -> list[types.Part]:
    return event.content.parts or [] if event.content else []


def _where(context: CallbackContext, call_id: str) -> list[str]:
    session = context.session
    return [session.app_name, session.user_id, session.id, call_id, _HELD]
