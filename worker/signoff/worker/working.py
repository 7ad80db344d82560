"""The tools that run in this process: what stops a turn waits for them first.

The frameworks cancel the other calls of a turn when one of them raises. What was cut off in the
middle would be in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NoReturn

from signoff.core.base.errors import SignoffError

_Session = tuple[str, str, str]
_Ended = asyncio.Event

_inside: ContextVar[tuple[_Ended, ...]] = ContextVar("signoff_inside", default=())
"""The tools that the present code runs inside of: an agent that is a tool calls others."""


class TurnStopped(BaseException):
    """Ends a turn as the death of its worker would, so that it is taken up where it was.

    Of an `Exception` ADK writes an event, behind which it takes the agent for done, and other
    frameworks may tell the model of it.

    Args:
        error: What it is ended by.
    """

    def __init__(self, error: SignoffError) -> None:
        super().__init__(str(error))
        self.error = error


class Working:
    """Knows which tools of a session run, and ends its turn between two of them."""

    def __init__(self) -> None:
        self._busy: dict[_Session, set[_Ended]] = {}
        self._stopping: dict[_Session, SignoffError] = {}

    @contextmanager
    def on(self, session: _Session) -> Iterator[None]:
        """Count a tool as running while this lasts."""
        ended = asyncio.Event()
        self._busy.setdefault(session, set()).add(ended)
        token = _inside.set((*_inside.get(), ended))
        try:
            yield
        finally:
            _inside.reset(token)
            ended.set()
            busy = self._busy.get(session, set())
            busy.discard(ended)
            if not busy:
                self._busy.pop(session, None)

    async def require_going(self, session: _Session) -> None:
        """Let no further tool of a turn start that is about to be stopped.

        Raises:
            TurnStopped: It is, and the tools that ran have ended.
        """
        if error := self._stopping.get(session):
            await self.end(session, error)

    async def end(self, session: _Session, error: SignoffError) -> NoReturn:
        """End a turn, once all its tools have ended but for those that wait for this.

        Raises:
            TurnStopped: Always.
        """
        self._stopping.setdefault(session, error)
        for one in _inside.get():
            one.set()
        while waiting := [one for one in self._busy.get(session, ()) if not one.is_set()]:
            await waiting[0].wait()
        raise TurnStopped(error)

    async def others(self, session: _Session) -> None:
        """Wait until the tools of a session have ended that run beside the present code."""
        mine = _inside.get()
        while waiting := [
            one for one in self._busy.get(session, ()) if one not in mine and not one.is_set()
        ]:
            await waiting[0].wait()

    def forget(self, session: _Session) -> None:
        """Forget what a turn was ended by."""
        self._stopping.pop(session, None)
