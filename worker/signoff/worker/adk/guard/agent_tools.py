"""Approvals of calls made by an agent that is itself called as a tool (`AgentTool`).

ADK runs such an agent in a hidden session of its own, and cannot resume it. So the call of the
`AgentTool` stops instead, like a call with suspended code: the approval is about the inner call.
Once that is decided, the inner agent runs again from its beginning. Its calls that were already
decided get the same results; its other tools run again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final

from google.adk.tools.agent_tool import AgentTool, _SingleTurnAgentTool
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_confirmation import ToolConfirmation
from google.adk.tools.tool_context import ToolContext

from signoff.core.payloads.digest import digest
from signoff.worker.adk.guard.entering import Inner
from signoff.worker.ces.rules import current
from signoff.worker.ces.seal import seal, unseal
from signoff.worker.starting import copied
from signoff.worker.suspended import Resumption, Suspended

_DONE: Final = "done"


class AsksInside(BaseException):
    """Ends an agent inside of a tool at a call that needs an approval.

    It is not an `Exception`, because ADK turns exceptions into events or results.

    Args:
        tool: The tool that the agent would call.
        arguments: The arguments of the call.
        hint: The tool's hint for the approver.
    """

    def __init__(self, tool: str, arguments: dict[str, Any], hint: str) -> None:
        super().__init__(tool)
        self.tool, self.arguments, self.hint = tool, arguments, hint


@dataclass(slots=True)
class Inside:
    """An agent that runs inside of a tool.

    Attributes:
        session: The session id of the run that has called it.
        done: Its decided calls: the digest and the response of each.
        left: The decided calls that it has not made again yet.
        verdict: The digest of the call that was decided last, and why it was refused or None.
    """

    session: str
    done: list[dict[str, Any]] = field(default_factory=list)
    left: list[dict[str, Any]] = field(default_factory=list)
    verdict: tuple[str, str | None] | None = None

    def again(self, mark: str) -> dict[str, Any] | None:
        """Return the earlier response to a call; None if the call has not been decided."""
        for one in self.left:
            if one["call"] == mark:
                self.left.remove(one)
                return dict(one["response"])
        return None

    def note(self, mark: str, response: object) -> None:
        """Record the response to a decided call."""
        told = response if isinstance(response, dict) else {"result": response}
        plain = json.loads(json.dumps(told, default=str))
        self.done.append({"call": mark, "response": plain})


@dataclass(frozen=True, slots=True)
class _Stopped:
    """The sealed state of an agent that has stopped."""

    tool: str
    args: dict[str, Any]
    frames: tuple[dict[str, Any], ...]
    doubtful: bool = False


_inside: ContextVar[Inside | None] = ContextVar("signoff_agent_inside", default=None)


def is_agent(tool: BaseTool) -> bool:
    """Return whether a tool is an agent that runs, with the guard, in a session of its own."""
    plain = isinstance(tool, AgentTool) and not isinstance(tool, _SingleTurnAgentTool)
    return plain and bool(getattr(tool, "include_plugins", False))


def inside_of(context: ToolContext) -> Inside | None:
    """Return the agent inside of a tool that makes a call; None if the run itself makes it."""
    found = _inside.get()
    return found if found is not None and found.session != context.session.id else None


async def run_agent(
    tool: BaseTool, args: dict[str, Any], context: ToolContext, inner: Inner
) -> object:
    """Run an agent inside of a tool to its end, or to a call that needs an approval.

    Args:
        tool: The tool.
        args: Its arguments.
        context: The context of its call. Where the call inside was decided, the guard has put a
            `Resumption` into its confirmation.
        inner: The tool's own code.

    Raises:
        SnapshotRefused: The snapshot to resume from was changed, or is too large to be kept.
    """
    if _inside.get() is not None:
        return await inner(args)
    state = _of(context)
    token = _inside.set(state)
    try:
        return await inner(args)
    except AsksInside as asks:
        stopped = _Stopped(asks.tool, asks.arguments, ({_DONE: state.done},))
        sealed = seal(current(), stopped, context)
        context.request_confirmation(
            hint=f"The agent {tool.name} wants to call this. {asks.hint}".rstrip(),
            payload=Suspended(asks.tool, asks.arguments, sealed).payload(),
        )
        return {"status": f"The call of {asks.tool} inside of it requires confirmation."}
    finally:
        _inside.reset(token)


def _of(context: ToolContext) -> Inside:
    """Return the state from which an agent resumes."""
    state = Inside(context.session.id)
    asked = context.tool_confirmation
    if asked is None or not isinstance(given := asked.payload, Resumption):
        return state
    frames = unseal(current(), given.sealed, context, (given.tool, given.args))
    state.done = list(frames[0][_DONE])
    state.left = list(state.done)
    state.verdict = (digest(given.tool, given.args), given.refused)
    return state


def decided(
    state: Inside, tool: BaseTool, args: Mapping[str, Any], context: ToolContext
) -> dict[str, Any] | None:
    """Return the response to a decided inner call; None lets the call continue to its tool.

    Args:
        state: The inner agent.
        tool: The tool that it calls.
        args: The arguments of the call.
        context: The context of the call; it gets the confirmation if the call may run.

    Raises:
        NotCanonical: The arguments have no digest.
    """
    mark = digest(tool.name, dict(args))
    if (before := state.again(mark)) is not None:
        return before
    if state.verdict is None or state.verdict[0] != mark:
        return None
    refused = state.verdict[1]
    if refused is None:
        context.tool_confirmation = ToolConfirmation(confirmed=True)
        return None
    state.verdict = None
    told = {"status": "rejected", "error": refused}
    state.note(mark, told)
    return told


def may_run(state: Inside, tool: BaseTool, args: dict[str, Any]) -> bool:
    """Return whether an inner call is the approved one, and that one has not started yet."""
    return state.verdict == (digest(tool.name, args), None)


async def run_decided(state: Inside, tool: BaseTool, args: dict[str, Any], inner: Inner) -> object:
    """Run an inner call that `may_run`, once, and record its result."""
    own, mark = copied(args), digest(tool.name, args)
    state.verdict = None
    try:
        result = await inner(own)
    except Exception as error:
        state.note(mark, {"error": f"{type(error).__name__}: {error}"})
        raise
    state.note(mark, result)
    return result
