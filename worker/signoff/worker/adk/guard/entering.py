"""Wraps a tool's own methods, so that nothing runs between the guard and the tool's code.

ADK runs the callbacks of an agent after those of the plugins, and both can change the dictionary
that the tool gets. So a plugin callback cannot know the final arguments. Wrappers around the tool's
`run_async` and `check_require_confirmation` can: they pass a copy of the arguments to both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, Self
from weakref import WeakKeyDictionary

from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from signoff.worker.running_tools import keeping_process
from signoff.worker.starting import copied

_RUN: Final = "run_async"
_ASK: Final = "check_require_confirmation"


Inner = Callable[[dict[str, Any]], Awaitable[Any]]
"""Runs a tool's own code with these arguments."""


class CallEntry(Protocol):
    """Decides how one call enters its tool. It must not keep the context of the call.

    Attributes:
        tool: The tool that is called.
        entered: Whether the call has entered the tool; the guard ignores what the tool then calls.
    """

    tool: BaseTool
    entered: bool

    async def run(self, args: dict[str, Any], context: ToolContext, inner: Inner) -> Any:  # noqa: ANN401 -- a tool may return anything
        """Run the tool's own code with a copy of the arguments, or return another result."""

    async def asked(self, args: dict[str, Any], context: ToolContext) -> None:
        """Record that the tool's own gate asks about the call with these arguments."""


_entries: WeakKeyDictionary[ToolContext, CallEntry] = WeakKeyDictionary()


def stand_before(tool: BaseTool, context: ToolContext, entry: CallEntry) -> None:
    """Put an entry between ADK and the tool for the call with this context."""
    _entries[context] = entry
    for name, kind in ((_RUN, _Run), (_ASK, _Ask)):
        found = getattr(tool, name)
        if not isinstance(found, _Before):
            # Some tools are models that refuse unknown fields.
            object.__setattr__(tool, name, kind(tool, found))
        elif found.tool is not tool:
            # The tool is a copy of one that has it: toolsets with a prefix make them.
            inner = found.inner
            own = inner.__func__.__get__(tool) if hasattr(inner, "__func__") else inner
            object.__setattr__(tool, name, kind(tool, own))


def entry_of(context: ToolContext) -> CallEntry | None:
    """Return the entry of the call with this context."""
    return _entries.get(context)


@dataclass(frozen=True, slots=True)
class _Before:
    tool: BaseTool
    inner: Callable[..., Awaitable[Any]]

    def __deepcopy__(self, memo: dict[int, object]) -> Self:
        return self


class _Run(_Before):
    """Wraps `BaseTool.run_async`."""

    async def __call__(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:  # noqa: ANN401
        entry = _entries.get(tool_context)
        if entry is None or entry.entered or entry.tool is not self.tool:
            return await self.inner(args=args, tool_context=tool_context)
        entry.entered = True
        return await entry.run(args, tool_context, partial(self._own_code, tool_context))

    async def _own_code(self, context: ToolContext, args: dict[str, Any]) -> Any:  # noqa: ANN401
        with keeping_process():
            return await self.inner(args=args, tool_context=context)


class _Ask(_Before):
    """Wraps `BaseTool.check_require_confirmation`."""

    async def __call__(self, args: dict[str, Any], tool_context: ToolContext) -> bool:
        got = copied(args)
        asks: bool = await self.inner(copied(args), tool_context)
        entry = _entries.get(tool_context)
        of_this = entry is not None and entry.tool is self.tool
        if asks and entry is not None and of_this and tool_context.tool_confirmation is None:
            await entry.asked(got, tool_context)
        return asks
