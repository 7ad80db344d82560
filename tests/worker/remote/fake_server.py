"""An API server in memory: plays a recording, or goes wrong in the way a test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

RECORDED = Path(__file__).parent / "fixtures" / "adk-js-2.0.0"


class FakeServer:
    """Speaks the REST of ADK, by a recording of what was said there.

    Args:
        case: The recording.

    Attributes:
        session: The session, None before it is made.
        posted: What was posted to `/run_sse`.
        headers: The headers of every request.
        fail: What to answer to a message instead of playing the recording; None plays it.
        on_look: Called before the session is given.
        version: What `/version` says.
    """

    def __init__(self, case: str) -> None:
        self.record = json.loads((RECORDED / f"{case}.json").read_text(encoding="utf-8"))
        self.session: dict[str, Any] | None = None
        self.posted: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self.fail: Callable[[dict[str, Any]], httpx.Response | None] = lambda _: None
        self.on_look: Callable[[], None] = lambda: None
        self.version: dict[str, str] = {"version": "2.0.0"}

    @property
    def transport(self) -> httpx.MockTransport:
        """The network to it."""
        return httpx.MockTransport(self._handle)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.headers.append(request.headers)
        if request.method == "GET" and "/sessions/" in request.url.path:
            self.on_look()
        match request.method, request.url.path:
            case "GET", "/version":
                return httpx.Response(200, json=self.version)
            case "GET", "/list-apps":
                return httpx.Response(200, json=["office"])
            case "POST", "/run_sse":
                return self._run(json.loads(request.content))
            case "GET", _ if self.session is None:
                return httpx.Response(404, json={"error": "Session not found"})
            case "POST", _:
                self.session = {"events": [], "state": {}}
        return httpx.Response(200, json=self.session)

    def _run(self, body: dict[str, Any]) -> httpx.Response:
        self.posted.append(body)
        if (failure := self.fail(body)) is not None:
            return failure
        return self.play(body)

    def play(self, body: dict[str, Any]) -> httpx.Response:
        """Do what was recorded, with the mark of the run that is played."""
        answer = "functionResponse" in body["newMessage"]["parts"][0]
        turn = json.loads(json.dumps(self.record["answered" if answer else "asked"]))
        mark = self.posted[0].get("stateDelta", {}).get("signoff_run")
        turn["session"]["events"][0]["actions"]["stateDelta"] = {"signoff_run": mark}
        self.session = turn["session"]
        return httpx.Response(
            200, text=turn["stream"], headers={"Content-Type": "text/event-stream"}
        )
