"""Checks that functions of a workflow run as approved.

No plugin runs before a function node. The node reads its arguments from the input and the session's
state when it runs, so a change of the state after the approval changes the call. If it does, the
node does not run, and asks again, as ADK does before it runs a node for the first time.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Protocol, runtime_checkable

from google.adk.agents.context import Context
from google.adk.agents.invocation_context import InvocationContext
from google.adk.workflow import FunctionNode
from google.adk.workflow.utils._workflow_hitl_utils import create_confirmation_request_input
from pydantic import TypeAdapter

from signoff.worker.running_tools import keeping_process
from signoff.worker.starting import copied

_AS_SHOWN: Final = TypeAdapter(Any)
_bind = FunctionNode._bind_parameters  # noqa: SLF001 -- ADK has no other way in
_run = FunctionNode._run_impl  # noqa: SLF001 -- the same


@runtime_checkable
class NodeGuard(Protocol):
    """A plugin that knows which nodes were approved."""

    def is_approved(self, context: Context) -> bool:
        """Return whether a node was approved."""

    def may_run(self, name: str, args: dict[str, Any], context: Context) -> bool:
        """Record that a node is about to run; return whether it may, or has to ask again.

        Raises:
            Exception: It has run on its approval before, and this is how that ended.
        """

    def has_raised(self, context: Context, error: Exception) -> None:
        """Record that a node has raised an error."""


class _OtherArguments(Exception):
    """A node would run differently than it was approved."""

    def __init__(self, args: dict[str, Any]) -> None:
        super().__init__()
        self.shown = args


def _bound(self: FunctionNode, ctx: Context, node_input: Any) -> dict[str, Any]:  # noqa: ANN401
    bound = _bind(self, ctx, node_input)
    guards = _guards(ctx)
    asks = self.require_confirmation or any(guard.is_approved(ctx) for guard in guards)
    if not guards or not asks:
        return bound
    own = copied({name: one for name, one in bound.items() if one is not ctx})
    shown = _AS_SHOWN.dump_python(own, mode="json", fallback=str)
    if not all(guard.may_run(self.name, shown, ctx) for guard in guards):
        raise _OtherArguments(shown)
    return {name: own.get(name, one) for name, one in bound.items()}


async def _runs(self: FunctionNode, *, ctx: Context, node_input: Any) -> AsyncGenerator[Any, None]:  # noqa: ANN401
    try:
        async with aclosing(_run(self, ctx=ctx, node_input=node_input)) as items:
            with keeping_process():
                async for item in items:
                    yield item
    except _OtherArguments as other:
        args = other.shown
    except Exception as error:
        for guard in _guards(ctx):
            guard.has_raised(ctx, error)
        raise
    else:
        return
    yield create_confirmation_request_input(node_path=ctx.node_path, tool_name=self.name, args=args)


def _guards(ctx: Context) -> list[NodeGuard]:
    plugins = ctx.get_invocation_context().plugin_manager.plugins
    return [one for one in plugins if isinstance(one, NodeGuard)]


def is_guarded(context: InvocationContext) -> bool:
    """Return whether a guard watches an agent."""
    return any(isinstance(one, NodeGuard) for one in context.plugin_manager.plugins)


def watch_function_nodes() -> None:
    """Let all functions of workflows in this process ask a `NodeGuard` before they run."""
    FunctionNode._bind_parameters = _bound  # type: ignore[method-assign]  # noqa: SLF001
    FunctionNode._run_impl = _runs  # type: ignore[method-assign]  # noqa: SLF001
