"""Sends the events of a turn to the client that waits for them: as a stream, or as one list."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request, Response
from fastapi.responses import JSONResponse, StreamingResponse

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.live import follow_turn
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import SignoffError
from signoff.worker.adk_api.answering import AnsweredTurn
from signoff.worker.adk_api.problems import Problem

MAX_CLIENTS: Final = 256
"""How many clients may wait for events at the same time; each holds a connection to Redis."""

_IDLE: Final = ": nothing new\n\n"
"""A comment (WHATWG HTML, section 9.2.5): it keeps proxies open, and detects closed clients."""

_FAILURES: Final = {RunState.FAILED: "RunFailed", RunState.IN_DOUBT: "ToolInDoubt"}


class _TurnFailed(Exception):
    """The run has failed in the turn."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.problem)
        self.kind = _FAILURES[run.state]


@dataclass(slots=True)
class TurnResponses:
    """Builds the responses with the events of turns.

    Attributes:
        ledger: The ledger, on connections that may be held.
        clients: How many clients are waiting for events.
    """

    ledger: Ledger
    clients: int = 0

    def require_capacity(self) -> None:
        """Refuse a client if too many are waiting; its request is not executed.

        Raises:
            Problem: 503 if `MAX_CLIENTS` clients are waiting.
        """
        if self.clients >= MAX_CLIENTS:
            raise Problem(
                503,
                "busy",
                "Too many clients are watching",
                f"{MAX_CLIENTS} clients follow runs through this gateway. Nothing was done; try "
                "again.",
                headers={"Retry-After": "5"},
            )

    def stream(self, turn: AnsweredTurn) -> Response:
        """Return the events as server-sent events, as they arrive."""
        return StreamingResponse(
            self._server_sent(turn),
            media_type="text/event-stream",
            headers={"Signoff-Run": turn.run, "X-Accel-Buffering": "no"},
        )

    async def collect(self, turn: AnsweredTurn, request: Request) -> Response:
        """Return the events as one list, when the turn is over.

        Raises:
            Problem: 500 if the run has failed.
            LedgerUnavailable: Redis could not be reached any more.
        """
        events = []
        try:
            async with aclosing(self._events(turn)) as texts:
                async for text in texts:
                    if text:
                        events.append(json.loads(text))
                    elif await request.is_disconnected():
                        return Response(status_code=400)
        except _TurnFailed as failed:
            words = f"{failed} What it said before is in the session."
            raise Problem(
                500, "run-failed", "The run has failed", words, error=failed.kind
            ) from failed
        return JSONResponse(events, headers={"Signoff-Run": turn.run})

    async def _server_sent(self, turn: AnsweredTurn) -> AsyncIterator[str]:
        if turn.waiting:
            yield f": {turn.waiting} more of this pause wait for an answer\n\n"
        try:
            async for text in self._events(turn):
                yield f"data: {text}\n\n" if text else _IDLE
        except _TurnFailed as failed:
            yield _error_event(failed.kind, str(failed))
        except SignoffError as error:
            yield _error_event(type(error).__name__, str(error))

    async def _events(self, turn: AnsweredTurn) -> AsyncGenerator[str]:
        """Yield each event as JSON, and "" if there was none for two seconds.

        An answer that arrives while the run resumes with other answers of its pause is given to the
        agent in the turn after, which is followed too.

        Raises:
            _TurnFailed: The run has failed in the last of these turns.
            SignoffError: The run cannot be read any more.
        """
        if turn.waiting:
            return
        with self._counted():
            pause, run = turn.pause, None
            while run is None or _carries(run, turn, pause):
                pause = run.pause if run is not None else pause
                async for text in follow_turn(self.ledger, turn.run, pause):
                    yield text
                run = await self.ledger.run(turn.run)
        if run.pause == pause and run.state in _FAILURES:
            raise _TurnFailed(run)

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self.clients += 1
        try:
            yield
        finally:
            self.clients -= 1


def _carries(run: Run, turn: AnsweredTurn, pause: int) -> bool:
    """Return whether a run has gone on from a turn with answers of the client."""
    later = run.pause > pause and run.state is not RunState.PAUSED
    return later and not turn.answered.isdisjoint(run.approvals)


def _error_event(kind: str, message: str) -> str:
    """Return an error as ADK's server sends it in a stream (google.adk.cli.api_server)."""
    details = {"error_type": kind, "error_message": message, "timestamp": time.time()}
    document = {"error": f"{kind}: {message}", "error_details": details}
    return f"data: {json.dumps(document)}\n\n"
