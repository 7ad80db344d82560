"""awaithumans: its development server on SQLite, used over HTTP as its client does."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time

import httpx

from benchmarks.peers.port import PAYLOAD, Peer, beside, free_port, listening

_TOKEN = secrets.token_hex(16)
_SCHEMA = {"type": "object", "properties": {"approved": {"type": "boolean"}}}
_POLL = 25


class Tasks(Peer):
    """A task that the client polls for; the server checks once a second."""

    at_once = 4
    """With more at the same time, its SQLite has failed here with "database is locked"."""
    pause = 2.0

    async def start(self) -> None:
        """Start the server."""
        port = free_port()
        self._file = self.folder / "awaithumans.db"
        await self.fleet.run(
            "awaithumans",
            *(beside("awaithumans"), "dev", "--host", "127.0.0.1", "--port", str(port)),
            *("--db-path", str(self._file), "--log-level", "ERROR"),
            environment={"AWAITHUMANS_ADMIN_API_TOKEN": _TOKEN},
            folder=self.folder,
        )
        await listening(port)
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}/api",
            headers={"Authorization": f"Bearer {_TOKEN}"},
            timeout=60,
            # The server closes a connection that is idle for five seconds.
            limits=httpx.Limits(max_connections=None, keepalive_expiry=2),
        )
        self.ends.push_async_callback(self._http.aclose)
        self._polls: dict[str, asyncio.Task[int]] = {}
        await self.answer(await self.open())

    async def open(self) -> str:
        """Create a task, and start to poll for its answer."""
        body = {
            "task": "Approve reimburse",
            "payload": PAYLOAD,
            "payload_schema": {"type": "object"},
            "response_schema": _SCHEMA,
            "timeout_seconds": 86_400,
            "idempotency_key": secrets.token_hex(16),
        }
        task = str((await self._said("POST", "/tasks", body))["id"])
        self._polls[task] = asyncio.create_task(self._poll(task))
        return task

    async def answer(self, request: str) -> int:
        """Complete the task, and wait until the poll returns."""
        await self._said("POST", f"/tasks/{request}/complete", {"response": {"approved": True}})
        return await self._polls.pop(request)

    async def stored(self) -> int:
        """Return the bytes of the database file."""
        for one in self._polls.values():
            one.cancel()
        with sqlite3.connect(self._file) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return self._file.stat().st_size

    async def _poll(self, task: str) -> int:
        while True:
            found = await self._said("GET", f"/tasks/{task}/poll?timeout={_POLL}")
            if found["status"] == "completed":
                return time.monotonic_ns()

    async def _said(
        self, method: str, path: str, body: dict[str, object] | None = None
    ) -> dict[str, object]:
        reply = await self._http.request(method, path, json=body)
        reply.raise_for_status()
        found: dict[str, object] = reply.json()
        return found
