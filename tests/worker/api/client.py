"""A client of the API as other people write it, and plants that serve the API."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from promises.plant import ROOT, Plant, plant

CONFIRM = "adk_request_confirmation"
LOCAL = 'adk = true\nlocal_person = "mara"'
AGENTS = (
    ROOT / "examples" / "agents",
    ROOT / "tests" / "worker" / "agents",
    ROOT / "tests" / "worker" / "remote" / "agents",
)


@dataclass
class Site:
    """A plant whose gateway serves the API, and a client of it."""

    plant: Plant
    http: httpx.AsyncClient

    @property
    def url(self) -> str:
        """The URL of the gateway."""
        return f"http://127.0.0.1:{self.plant.supervisor.children['gateway'].report['port']}"

    async def session(self, app: str, user: str = "user", **headers: str) -> str:
        """Make a session and return its id."""
        made = await self.http.post(f"/apps/{app}/users/{user}/sessions", headers=headers)
        assert made.status_code == 200, made.text
        return str(made.json()["id"])

    async def say(
        self, app: str, session: str, text: str, user: str = "user", **headers: str
    ) -> list[dict[str, Any]]:
        """Send a message to an agent, and return the events of its turn."""
        body = {
            "appName": app,
            "userId": user,
            "sessionId": session,
            "newMessage": {"role": "user", "parts": [{"text": text}]},
        }
        return events_of(await self.http.post("/run_sse", json=body, headers=headers))

    async def answer(
        self, app: str, session: str, call: str, response: object, user: str = "user", **more: Any
    ) -> httpx.Response:
        """Answer a confirmation."""
        body = answer_body(app, session, call, response, user)
        return await self.http.post("/run_sse", json=body, **more)


def answer_body(
    app: str, session: str, call: str, response: object, user: str = "user"
) -> dict[str, Any]:
    """Return an answer, with keys as in the example of ADK's documentation."""
    said = {"id": call, "name": CONFIRM, "response": response}
    return {
        "app_name": app,
        "user_id": user,
        "session_id": session,
        "new_message": {"role": "user", "parts": [{"function_response": said}]},
    }


def events_of(response: httpx.Response) -> list[dict[str, Any]]:
    """Return the events of a stream."""
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("text/event-stream")
    return [json.loads(line[5:]) for line in response.text.splitlines() if line[:5] == "data:"]


def calls_of(events: list[dict[str, Any]]) -> list[str]:
    """Return the ids of the confirmations that events ask for."""
    return [
        part["functionCall"]["id"]
        for event in events
        for part in event.get("content", {}).get("parts", [])
        if part.get("functionCall", {}).get("name") == CONFIRM
    ]


def words_of(events: list[dict[str, Any]]) -> str:
    """Return the last text in events."""
    texts = [
        part["text"]
        for event in events
        for part in event.get("content", {}).get("parts", [])
        if "text" in part
    ]
    return texts[-1] if texts else ""


def lines_of(plant: Plant) -> list[dict[str, Any]]:
    """Return what the agents have written into their journal."""
    journal = plant.folder / "journal.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return [json.loads(line) for line in lines]


@asynccontextmanager
async def site(
    folder: Path,
    *processes: str,
    gateway: str = LOCAL,
    agents: Sequence[Path] = AGENTS,
) -> AsyncIterator[Site]:
    """Make an installation and a client of its API.

    Args:
        folder: The folder of the installation.
        *processes: The processes to start; all if there are none.
        gateway: The settings of the gateway.
        agents: The folders of its agents; those of the examples and the tests by default.
    """
    linked = folder / "agents"
    linked.mkdir()
    for source in agents:
        for one in source.iterdir():
            if one.is_dir() and not one.name.startswith(("_", ".")):
                (linked / one.name).symlink_to(one)
    processes = processes or ("worker", "channels", "gateway")
    async with (
        plant(folder, *processes, agents=linked, gateway=gateway) as here,
        httpx.AsyncClient(timeout=60) as http,
    ):
        made = Site(here, http)
        http.base_url = httpx.URL(made.url)
        yield made
