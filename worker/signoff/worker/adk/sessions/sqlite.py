"""ADK's SQLite session service, for many sessions at the same time."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite
from google.adk.events.event import Event
from google.adk.sessions.session import Session
from google.adk.sessions.sqlite_session_service import SqliteSessionService

T = TypeVar("T")

_TRIES = 40
_CONNECTIONS = 8


class PatientSqliteSessionService(SqliteSessionService):
    """Serializes writes, waits for other processes that write, and keeps its connections.

    ADK's service opens a connection with its own thread for every operation. With more than about
    thirty concurrent sessions, operations fail with "database is locked". Here the writers of a
    process queue up, and readers do not wait for them (write-ahead log). If another process holds
    the lock, the operation is tried again: a refused write has changed nothing.

    Args:
        path: The database file; its folder is created.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as database:
            # The file keeps this setting.
            database.execute("PRAGMA journal_mode=WAL")
        super().__init__(str(path))
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._idle: list[aiosqlite.Connection] = []

    def _is_migration_needed(self) -> bool:
        # ADK's method leaves its connection open (google.adk.sessions.sqlite_session_service),
        # which causes a ResourceWarning since Python 3.13.
        with closing(sqlite3.connect(self._db_path)) as database:
            columns = [name for _, name, *_ in database.execute("PRAGMA table_info(events)")]
        return bool(columns) and "event_data" not in columns

    async def create_session(self, **kwargs: Any) -> Session:  # noqa: ANN401 -- as ADK has it
        """Create a session; see SqliteSessionService."""
        return await self._write(lambda: super(type(self), self).create_session(**kwargs))

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event; see SqliteSessionService."""
        return await self._write(lambda: super(type(self), self).append_event(session, event))

    async def get_session(self, **kwargs: Any) -> Session | None:  # noqa: ANN401 -- as ADK has it
        """Return a session; see SqliteSessionService."""
        return await _patiently(lambda: super(type(self), self).get_session(**kwargs))

    async def close(self) -> None:
        """Close the connections."""
        while self._idle:
            await self._idle.pop().close()
        await super().close()

    @asynccontextmanager
    async def _get_db_connection(self) -> AsyncIterator[aiosqlite.Connection]:
        """Lend a connection to one operation, preferably the one that was used last.

        This replaces ADK's method (google.adk.sessions.sqlite_session_service), which opens a
        connection each time. If an operation fails, its connection is closed, which rolls back all
        uncommitted changes.
        """
        async with self._slots:
            connection = self._idle.pop() if self._idle else await self._open()
            try:
                yield connection
            except BaseException:
                await connection.close()
                raise
            self._idle.append(connection)

    async def _open(self) -> aiosqlite.Connection:
        async with super()._get_db_connection() as first:
            del first  # it has created the tables
        connection = aiosqlite.connect(self._db_connect_path, uri=self._db_connect_uri)
        # A process that ends without closing the connection must not wait for its thread.
        connection._thread.daemon = True  # noqa: SLF001 -- as ADK does for databases in memory
        await connection
        connection.row_factory = aiosqlite.Row
        await connection.execute("PRAGMA foreign_keys = ON")
        return connection

    async def _write(self, do: Callable[[], Awaitable[T]]) -> T:
        async with self._writing:
            return await _patiently(do)


async def _patiently(do: Callable[[], Awaitable[T]]) -> T:
    for _ in range(_TRIES - 1):
        try:
            return await do()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) and "busy" not in str(error):
                raise
        # Another process is writing, and does not signal when it has finished.
        await asyncio.sleep(random.uniform(0.01, 0.1))  # noqa: S311 -- jitter
    return await do()
