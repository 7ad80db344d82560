"""Temporal's development server on SQLite: a workflow that waits for a signal."""

from __future__ import annotations

import asyncio
import secrets
import time
from typing import Any

from temporalio import workflow
from temporalio.client import Client, WorkflowHandle
from temporalio.worker import Worker

from benchmarks.peers.port import PAYLOAD, Peer, beside, free_port, listening

_QUEUE = "bench"


@workflow.defn
class Ask:
    """Waits for the decision."""

    def __init__(self) -> None:
        self._decision: dict[str, bool] | None = None

    @workflow.run
    async def run(self, request: dict[str, Any]) -> int:
        """Return when the workflow continued."""
        del request
        await workflow.wait_condition(lambda: self._decision is not None)
        with workflow.unsafe.sandbox_unrestricted():
            return time.monotonic_ns()

    @workflow.signal
    def decide(self, decision: dict[str, bool]) -> None:
        """Accept the decision."""
        self._decision = decision


class DevelopmentServer(Peer):
    """The server that the command line starts; the worker runs in the signalling process."""

    pause = 0.2

    async def start(self) -> None:
        """Start the server and a worker."""
        port = free_port()
        self._file = self.folder / "temporal.db"
        await self.fleet.run(
            "temporal",
            *(beside("temporal"), "server", "start-dev", "--headless", "--log-level", "error"),
            *("--ip", "127.0.0.1", "--port", str(port), "--db-filename", str(self._file)),
        )
        await listening(port)
        self._client = await _connected(f"127.0.0.1:{port}")
        worker = Worker(self._client, task_queue=_QUEUE, workflows=[Ask])
        await self.ends.enter_async_context(worker)
        self._handles: dict[str, WorkflowHandle[Ask, int]] = {}
        await self.answer(await self.open())

    async def open(self) -> str:
        """Start a workflow; it is stored before this returns."""
        name = secrets.token_hex(8)
        self._handles[name] = await self._client.start_workflow(
            Ask.run, PAYLOAD, id=name, task_queue=_QUEUE
        )
        return name

    async def answer(self, request: str) -> int:
        """Send the signal, and wait for the workflow's end."""
        handle = self._handles.pop(request)
        await handle.signal(Ask.decide, {"approved": True})
        return int(await handle.result())

    async def stored(self) -> int:
        """Return the bytes of the database file and of its log."""
        files = self.folder.glob(f"{self._file.name}*")
        return sum(one.stat().st_size for one in files)


async def _connected(address: str) -> Client:
    async with asyncio.timeout(60):
        while True:
            try:
                client = await Client.connect(address)
                await client.count_workflows()
            except RuntimeError:  # RPCError too: the server accepts requests before it is ready
                await asyncio.sleep(0.2)
            else:
                return client
