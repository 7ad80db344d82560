"""Corrects how ADK resumes the agents of a resumable app.

- A `SequentialAgent`, `LoopAgent` or `ParallelAgent` resumes with the agent that its last
  checkpoint names, even if that agent has ended since.
- A loop forgets that one of its agents has left it (`escalate`) if the turn pauses, or the worker
  dies, before the loop ends.
- If a callback writes the state before an agent resumes, ADK does not find the calls that the agent
  has still to make, and ends it.

The session shows all that.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, Final

from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.llm_agent import LlmAgent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.parallel_agent import ParallelAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.flows.llm_flows import base_llm_flow
from google.adk.flows.llm_flows.core._resume import ResumeDecision, decide_step_resume

from signoff.worker.adk.composites import (
    ancestors,
    has_code_to_run,
    has_ended,
    is_checkpoint,
    is_composite,
)
from signoff.worker.adk.guard.nodes import is_guarded

_Run = Callable[[BaseAgent, InvocationContext], AsyncGenerator[Event, None]]

_WATCHED: Final = (LlmAgent, LoopAgent, ParallelAgent, SequentialAgent)
_runs: Final[dict[type[BaseAgent], Any]] = {
    kind: kind._run_async_impl  # noqa: SLF001 -- ADK has no other way in
    for kind in _WATCHED
}


def watch_resumes() -> None:
    """Let all agents in this process, below a guard, continue as their session says."""
    for kind, run in _runs.items():
        kind._run_async_impl = _continuing(run)  # type: ignore[method-assign,assignment]  # noqa: SLF001
    base_llm_flow.decide_step_resume = _decide  # type: ignore[attr-defined,assignment]


def _decide(context: InvocationContext, tools: dict[str, Any]) -> ResumeDecision:
    """Return how an agent resumes, without regard to events that only write the state."""
    if context.is_resumable and is_guarded(context):
        events = [one for one in context.session.events if one.content]
        said = context.session.model_copy(update={"events": events})
        context = context.model_copy(update={"session": said})
    return decide_step_resume(context, tools)


def _continuing(run: _Run) -> _Run:
    async def continued(self: BaseAgent, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        before = _before(self, ctx)
        paused = False
        if not _is_over(self, before):
            async with aclosing(run(self, ctx)) as events:
                async for event in events:
                    yield event
                    paused = paused or ctx.should_pause_invocation(event)
        elif not has_ended(self, before):
            ctx.set_agent_state(self.name, end_of_agent=True)
            yield self._create_agent_state_event(ctx)
        in_loop = isinstance(self.parent_agent, LoopAgent)
        if in_loop and not paused and any(one.actions.escalate for one in before):
            # The loop ends once this agent has ended, as if it had just been left.
            yield Event(
                author=self.name,
                invocation_id=ctx.invocation_id,
                branch=ctx.branch,
                actions=EventActions(escalate=True),
            )

    return continued


def _before(agent: BaseAgent, ctx: InvocationContext) -> Sequence[Event]:
    """Return what an earlier worker, or turn, has left of this run of an agent.

    The agents around it write a checkpoint before they run it.
    """
    outer = agent.parent_agent
    if not ctx.is_resumable or not is_guarded(ctx) or outer is None or not is_composite(outer):
        return ()
    around = {one.name for one in ancestors(agent)}
    found: list[Event] = []
    for event in reversed(ctx.session.events):
        if event.invocation_id != ctx.invocation_id:
            continue
        if event.author in around and is_checkpoint(event):
            break
        if event.author == "user" or agent.find_agent(event.author or "") is not None:
            found.append(event)
    return found[::-1]


def _is_over(agent: BaseAgent, before: Sequence[Event]) -> bool:
    """Return whether an agent has ended, or has said its last word."""
    if has_ended(agent, before):
        return True
    said = [one for one in before if one.content and one.author in {agent.name, "user"}]
    last = said[-1] if said else None
    return (
        isinstance(agent, LlmAgent)
        and last is not None
        and last.author != "user"
        and last.is_final_response()
        and not last.error_code
        and not last.get_function_calls()
        and not last.actions.requested_tool_confirmations
        and not has_code_to_run(last)
    )
