"""Holds the functions of a workflow to what was approved.

No plugin stands before a node that is a function, and it takes its arguments anew from the input
and the session's state when it runs: a change of the state meanwhile changes the call.
"""

from __future__ import annotations

from typing import Any, Final, Protocol, runtime_checkable

from google.adk.agents.context import Context
from google.adk.workflow import FunctionNode
from pydantic import TypeAdapter

from signoff.worker.adk.entering import copied

_AS_SHOWN: Final = TypeAdapter(Any)
_bind = FunctionNode._bind_parameters  # noqa: SLF001 -- ADK has no other way in


@runtime_checkable
class NodeGuard(Protocol):
    """A plugin that knows what was approved."""

    def require_same_node(self, name: str, args: dict[str, Any], context: Context) -> None:
        """Raise where a node that was approved would run with other arguments."""


def _bound(self: FunctionNode, ctx: Context, node_input: Any) -> dict[str, Any]:  # noqa: ANN401
    bound = _bind(self, ctx, node_input)
    plugins = ctx.get_invocation_context().plugin_manager.plugins
    guards = [one for one in plugins if isinstance(one, NodeGuard)]
    if not guards or not self.require_confirmation:
        return bound
    own = copied({name: one for name, one in bound.items() if one is not ctx})
    shown = _AS_SHOWN.dump_python(own, mode="json", fallback=str)
    for guard in guards:
        guard.require_same_node(self.name, shown, ctx)
    return {name: own.get(name, one) for name, one in bound.items()}


def watch_function_nodes() -> None:
    """Let all functions of workflows in this process ask a `NodeGuard` before they run."""
    FunctionNode._bind_parameters = _bound  # type: ignore[method-assign]  # noqa: SLF001
