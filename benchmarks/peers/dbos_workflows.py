"""DBOS on PostgreSQL: a workflow that receives a message."""

from __future__ import annotations

import secrets
import time
from typing import Any

from dbos import DBOS, SetWorkflowID

from benchmarks.peers.port import PAYLOAD, Arrivals, Peer, Postgres

_DAY = 86_400.0
_waiting = Arrivals()


@DBOS.workflow()
async def _ask(request: dict[str, object]) -> int:
    del request
    _waiting.tell(str(DBOS.workflow_id))
    await DBOS.recv_async("decision", timeout_seconds=_DAY)
    return time.monotonic_ns()


class Workflows(Peer):
    """Workflows, messages and PostgreSQL; the workflows run in the sending process."""

    async def start(self) -> None:
        """Start PostgreSQL and DBOS."""
        self._server = Postgres(self.folder / "postgres")
        self.ends.callback(self._server.stop)
        await self._server.ready()
        DBOS(
            config={
                "name": "bench",
                "system_database_url": self._server.url,
                "log_level": "ERROR",
            }
        )
        DBOS.launch()
        self.ends.callback(DBOS.destroy)
        self._handles: dict[str, Any] = {}

    async def open(self) -> str:
        """Start a workflow; it is stored before it runs."""
        name = secrets.token_hex(8)
        with SetWorkflowID(name):
            self._handles[name] = await DBOS.start_workflow_async(_ask, PAYLOAD)
        await _waiting.of(name)
        return name

    async def answer(self, request: str) -> int:
        """Send the message, and wait for the workflow's end."""
        await DBOS.send_async(request, {"approved": True}, topic="decision")
        return int(await self._handles.pop(request).get_result())

    async def stored(self) -> int:
        """Return the bytes of the database."""
        return await self._server.size()
