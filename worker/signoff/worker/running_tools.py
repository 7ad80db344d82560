"""The tools that run in this process: an error waits for them before it ends their turn.

If a call of a turn raises, the frameworks cancel the other calls, and a tool that is cancelled
while it runs is in doubt.
"""

from __future__ import annotations

import asyncio
import asyncio.futures
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn
from weakref import WeakSet

_Session = tuple[str, str, str]
_Ended = asyncio.Event

_enclosing: ContextVar[tuple[_Ended, ...]] = ContextVar("signoff_inside", default=())
"""The tools whose code runs here: more than one if an agent that is a tool calls another tool."""


if sys.version_info < (3, 12):
    _convert = asyncio.futures._convert_future_exc  # type: ignore[attr-defined]  # noqa: SLF001

    def _converted(error: BaseException) -> BaseException:
        """Let a tool in a thread end with `StopIteration`: its caller would wait for ever."""
        if isinstance(error, StopIteration):
            stopped = RuntimeError("It raised StopIteration, as next() without a default does.")
            stopped.__cause__ = error
            error = stopped
        converted: BaseException = _convert(error)
        return converted

    asyncio.futures._convert_future_exc = _converted  # type: ignore[attr-defined]  # noqa: SLF001


@contextmanager
def keeping_process() -> Iterator[None]:
    """Let no tool end this process, with all other runs in it: argparse raises `SystemExit`.

    Raises:
        RuntimeError: The tool has raised it.
    """
    try:
        yield
    except SystemExit as end:
        raise RuntimeError(f"It raised SystemExit({end.code!r}), as sys.exit() does.") from end


class TurnStopped(BaseException):
    """Ends a turn as if its worker had died, so that the run can continue from there.

    It is not an `Exception`: for an exception ADK writes an event, after which it considers the
    agent done, and other frameworks may tell the model.
    """

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def first_stop(error: BaseException) -> TurnStopped | None:
    """Return the error that has stopped a turn; None for another error.

    Agents that run side by side may all be stopped, and then raise a group.
    """
    if isinstance(error, BaseExceptionGroup):
        return next((found for one in error.exceptions if (found := first_stop(one))), None)
    return error if isinstance(error, TurnStopped) else None


class RunningTools:
    """The running tools of each session, and the turns that are being stopped."""

    def __init__(self) -> None:
        self._running: dict[_Session, set[_Ended]] = {}
        self._approved: WeakSet[_Ended] = WeakSet()
        self._stopping: dict[_Session, Exception] = {}

    @contextmanager
    def running(self, session: _Session, *, approved: bool = False) -> Iterator[None]:
        """Count a tool as running inside the `with` block.

        Args:
            session: The session.
            approved: Whether it runs on an approval.
        """
        ended = asyncio.Event()
        if approved:
            self._approved.add(ended)
        self._running.setdefault(session, set()).add(ended)
        token = _enclosing.set((*_enclosing.get(), ended))
        try:
            yield
        finally:
            _enclosing.reset(token)
            ended.set()
            running = self._running.get(session, set())
            running.discard(ended)
            if not running:
                self._running.pop(session, None)

    async def require_not_stopping(self, session: _Session) -> None:
        """Start no further tool of a turn that is being stopped.

        Raises:
            TurnStopped: The turn is being stopped, and its running tools have ended.
        """
        if error := self._stopping.get(session):
            await self.stop_turn(session, error)

    async def stop_turn(self, session: _Session, error: Exception) -> NoReturn:
        """Stop a turn once all its tools have ended, except for those that call this.

        Raises:
            TurnStopped: Always; with the error that was the first to stop the turn.
        """
        error = self._stopping.setdefault(session, error)
        for one in _enclosing.get():
            one.set()
        await self._wait(session)
        raise TurnStopped(error)

    async def let_others_end(self, session: _Session) -> None:
        """Wait until the other tools of a session have ended, before a tool raises its error."""
        enclosing = _enclosing.get()
        for one in enclosing:
            one.set()
        await self._wait(session)
        for one in enclosing[:-1]:
            one.clear()  # the agent in this tool may handle the error

    async def wait_for_others(self, session: _Session) -> None:
        """Wait until the tools of a session have ended, except for those that call this."""
        await self._wait(session, *_enclosing.get())

    async def wait_for_approved(self, session: _Session) -> None:
        """Wait until the approved tools of a session have ended, unless one of them calls this."""
        if not self._approved.isdisjoint(_enclosing.get()):
            return
        while waiting := [
            one
            for one in self._running.get(session, ())
            if one in self._approved and not one.is_set()
        ]:
            await waiting[0].wait()

    async def _wait(self, session: _Session, *excepted: _Ended) -> None:
        while waiting := [
            one
            for one in self._running.get(session, ())
            if one not in excepted and not one.is_set()
        ]:
            await waiting[0].wait()

    def forget_stop(self, session: _Session) -> None:
        """Forget the error that has stopped the last turn of a session."""
        self._stopping.pop(session, None)
