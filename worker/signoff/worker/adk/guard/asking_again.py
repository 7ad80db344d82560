"""Lets a tool ask another question on its approved pass.

ADK writes such a question into the result of the call, but asks nobody, and agents go on. So it is
asked here, in the way in which ADK asks the first one: the agent, and those around it, wait.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.flows.llm_flows.tools import _confirmation
from google.adk.models.llm_request import LlmRequest
from google.adk.tools.tool_context import ToolContext

from signoff.worker.adk.guard.nodes import is_guarded
from signoff.worker.adk.guard.suspension import asked_by
from signoff.worker.adk.history import confirmations
from signoff.worker.adk.repair import missing_requests

_Processor = _confirmation._RequestConfirmationLlmRequestProcessor  # noqa: SLF001 -- ADK has no other way in
_run: Final = _Processor.run_async


async def _asking(
    self: _Processor, invocation_context: InvocationContext, llm_request: LlmRequest
) -> AsyncGenerator[Event, None]:
    async with aclosing(_run(self, invocation_context, llm_request)) as events:
        async for event in events:
            yield event
            if not is_guarded(invocation_context):
                continue
            own = [
                one
                for one in invocation_context.session.events
                if (one.invocation_id, one.branch) == (event.invocation_id, event.branch)
                and one.author in {event.author, "user"}
            ]
            for asks in missing_requests(own):
                yield asks


def watch_questions() -> None:
    """Let all tools in this process, below a guard, ask again on their approved passes."""
    _Processor.run_async = _asking  # type: ignore[method-assign]


def drop_repeated(context: ToolContext) -> None:
    """Drop a question of a tool that asks it on each pass: it was answered."""
    asked = asked_by(context)
    if asked is None:
        return
    before = [
        (one.hint, one.payload)
        for event in context.session.events
        for one in confirmations(event)
        if one.call_id == context.function_call_id
    ]
    if (asked.hint, asked.payload) in before:
        del context.actions.requested_tool_confirmations[context.function_call_id or ""]
