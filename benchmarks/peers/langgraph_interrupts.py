"""LangGraph: a node that interrupts, a checkpointer, and `Command(resume=...)`."""

from __future__ import annotations

import os
import secrets
import sqlite3
import time
from typing import Any, TypedDict

import psutil
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from psycopg import AsyncConnection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.peers.port import PAYLOAD, Peer, Postgres


class _State(TypedDict, total=False):
    request: dict[str, object]
    resumed: int


def _ask(state: _State) -> _State:
    interrupt(state["request"])
    return {"resumed": time.monotonic_ns()}


def _graph(saver: BaseCheckpointSaver[Any]) -> Any:  # noqa: ANN401 -- the library has no types here
    graph = StateGraph(_State)
    graph.add_node("ask", _ask)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", END)
    return graph.compile(checkpointer=saver)


def _thread(name: str) -> dict[str, dict[str, str]]:
    return {"configurable": {"thread_id": name}}


class Memory(Peer):
    """Everything is in the memory of one process, and one unit runs at a time."""

    async def start(self) -> None:
        """Make the graph."""
        self._graph = _graph(await self._saver())

    async def _saver(self) -> BaseCheckpointSaver[Any]:
        return InMemorySaver()

    async def open(self) -> str:
        """Run the graph to its interrupt."""
        name = secrets.token_hex(8)
        self._graph.invoke({"request": PAYLOAD}, _thread(name))
        return name

    async def answer(self, request: str) -> int:
        """Run the graph to its end."""
        found = self._graph.invoke(Command(resume={"approved": True}), _thread(request))
        return int(found["resumed"])

    async def stored(self) -> int:
        """Return the memory that only this process uses."""
        return int(psutil.Process(os.getpid()).memory_full_info().uss)


class Sqlite(Memory):
    """The same with the checkpoints in a file."""

    async def _saver(self) -> BaseCheckpointSaver[Any]:
        self._file = sqlite3.connect(self.folder / "checkpoints.db", check_same_thread=False)
        self.ends.callback(self._file.close)
        saver: BaseCheckpointSaver[Any] = SqliteSaver(self._file)
        return saver

    async def stored(self) -> int:
        """Return the bytes of the file."""
        self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return (self.folder / "checkpoints.db").stat().st_size


class OnPostgres(Peer):
    """Checkpoints in PostgreSQL, over a pool of connections."""

    async def start(self) -> None:
        """Start PostgreSQL and make the graph."""
        self._server = Postgres(self.folder / "postgres")
        self.ends.callback(self._server.stop)
        await self._server.ready()
        self._pool: AsyncConnectionPool[AsyncConnection[dict[str, Any]]] = AsyncConnectionPool(
            self._server.url,
            min_size=8,
            max_size=8,
            open=False,
            kwargs={"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row},
        )
        await self._pool.open()
        self.ends.push_async_callback(self._pool.close)
        saver = AsyncPostgresSaver(self._pool)
        await saver.setup()
        self._graph = _graph(saver)

    async def open(self) -> str:
        """Run the graph to its interrupt."""
        name = secrets.token_hex(8)
        await self._graph.ainvoke({"request": PAYLOAD}, _thread(name))
        return name

    async def answer(self, request: str) -> int:
        """Run the graph to its end."""
        found = await self._graph.ainvoke(Command(resume={"approved": True}), _thread(request))
        return int(found["resumed"])

    async def stored(self) -> int:
        """Return the bytes of the database."""
        return await self._server.size()
