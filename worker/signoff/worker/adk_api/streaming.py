"""Sends the events of a turn to a waiting client: as a stream, or as one list."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.live import follow_turn
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import SignoffError
from signoff.worker.adk_api.answering import Turn
from signoff.worker.adk_api.problems import Problem

MOST: Final = 256
"""How many clients may watch at the same time; each holds a connection to Redis."""

_IDLE: Final = ": nothing new\n\n"
"""A comment (WHATWG HTML, section 9.2.5): it keeps proxies open, and detects closed clients."""


@dataclass(slots=True)
class Onlookers:
    """Shows turns to clients.

    Attributes:
        ledger: The ledger, on connections that may be held.
        count: How many clients are watching.
    """

    ledger: Ledger
    count: int = 0

    @contextmanager
    def _one_more(self) -> Iterator[None]:
        self.count += 1
        try:
            yield
        finally:
            self.count -= 1

    def require_room(self) -> None:
        """Refuse a client if too many are watching; its request is not executed.

        Raises:
            Problem: 503 if `MOST` clients are watching.
        """
        if self.count >= MOST:
            raise Problem(
                503,
                "busy",
                "Too many clients are watching",
                f"{MOST} clients follow runs through this gateway. Nothing was done; try again.",
                headers={"Retry-After": "5"},
            )

    def stream(self, turn: Turn) -> Response:
        """Return the events as server-sent events, as they arrive."""
        return StreamingResponse(
            self._sent(turn),
            media_type="text/event-stream",
            headers={"Signoff-Run": turn.run, "X-Accel-Buffering": "no"},
        )

    async def collect(self, turn: Turn, request: Request) -> Response:
        """Return the events as one list, when the turn is over.

        Raises:
            Problem: 500 if the run has failed.
            LedgerUnavailable: Redis could not be reached any more.
        """
        events = []
        if not turn.waiting:
            with self._one_more():
                async for text in follow_turn(self.ledger, turn.run, turn.pause):
                    if text:
                        events.append(json.loads(text))
                    elif await request.is_disconnected():
                        return Response(status_code=400)
            run = await self.ledger.run(turn.run)
            if error := _failure(run, turn):
                words = f"{run.problem} What it said before is in the session."
                raise Problem(500, "run-failed", "The run has failed", words, error=error)
        return JSONResponse(events, headers={"Signoff-Run": turn.run})

    async def _sent(self, turn: Turn) -> AsyncIterator[str]:
        if turn.waiting:
            yield f": {turn.waiting} more of this pause wait for an answer\n\n"
            return
        with self._one_more():
            try:
                async for text in follow_turn(self.ledger, turn.run, turn.pause):
                    yield f"data: {text}\n\n" if text else _IDLE
                run = await self.ledger.run(turn.run)
            except SignoffError as error:
                yield _error_event(type(error).__name__, str(error))
                return
            if kind := _failure(run, turn):
                yield _error_event(kind, run.problem)


def _failure(run: Run, turn: Turn) -> str:
    """Return the kind of failure with which a turn has ended; "" for no failure."""
    if run.pause != turn.pause:
        return ""
    return {RunState.FAILED: "RunFailed", RunState.IN_DOUBT: "ToolInDoubt"}.get(run.state, "")


def _error_event(kind: str, message: str) -> str:
    """Return an error as ADK's server sends it in a stream (google.adk.cli.api_server)."""
    details = {"error_type": kind, "error_message": message, "timestamp": time.time()}
    told = {"error": f"{kind}: {message}", "error_details": details}
    return f"data: {json.dumps(told)}\n\n"
