"""An API server in memory that plays a recording, or fails as the test wants."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

RECORDED = Path(__file__).parent / "fixtures" / "adk-js-2.0.0"


class FakeServer:
    """Implements ADK's REST API with a recording.

    Args:
        case: The recording.

    Attributes:
        session: The session; None before it is created.
        posted: The bodies that were posted to `/run_sse`.
        headers: The headers of every request.
        fail: A response to a message instead of the recording; None plays the recording.
        on_look: Called before the session is returned.
        no_route: The response of a proxy that knows no server; None passes requests on.
        no_session: The response to requests for a missing session.
        version: The result of `/version`.
    """

    def __init__(self, case: str) -> None:
        self.record = json.loads((RECORDED / f"{case}.json").read_text(encoding="utf-8"))
        self.session: dict[str, Any] | None = None
        self.posted: list[dict[str, Any]] = []
        self.headers: list[httpx.Headers] = []
        self.fail: Callable[[dict[str, Any]], httpx.Response | None] = lambda _: None
        self.on_look: Callable[[], None] = lambda: None
        self.no_route: httpx.Response | None = None
        self.no_session = httpx.Response(404, json={"error": "Session not found"})
        self.version: dict[str, str] = {"version": "2.0.0"}

    @property
    def transport(self) -> httpx.MockTransport:
        """The network to it."""
        return httpx.MockTransport(self._handle)

    def _handle(self, request: httpx.Request) -> httpx.Response:
        self.headers.append(request.headers)
        if self.no_route is not None:
            return self.no_route
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
                return self.no_session
            case "POST", _:
                self.session = {"events": [], "state": {}}
        return httpx.Response(200, json=self.session)

    def _run(self, body: dict[str, Any]) -> httpx.Response:
        self.posted.append(body)
        if (failure := self.fail(body)) is not None:
            return failure
        return self.play(body)

    def play(self, body: dict[str, Any]) -> httpx.Response:
        """Play the recording with the mark of the current run."""
        answer = "functionResponse" in body["newMessage"]["parts"][0]
        turn = json.loads(json.dumps(self.record["answered" if answer else "asked"]))
        mark = self.posted[0].get("stateDelta", {}).get("signoff_run")
        turn["session"]["events"][0]["actions"]["stateDelta"] = {"signoff_run": mark}
        self.session = turn["session"]
        return httpx.Response(
            200, text=turn["stream"], headers={"Content-Type": "text/event-stream"}
        )
