"""ADK's SQLite session service, for more than a few sessions at once."""

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
    """Writes one after the other, waits for other processes that write, and keeps connections.

    ADK's service opens a connection for every operation, with a thread of its own; beyond some
    thirty sessions at once they fail with "database is locked". Here the writers of a process queue
    up, readers do not wait for them (write-ahead log), and a lock of another process is tried
    again: a write that was turned away has left nothing behind.

    Args:
        path: The database file; its folder is made.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=30)) as database:
            # A property of the file: setting it once is enough.
            database.execute("PRAGMA journal_mode=WAL")
        super().__init__(str(path))
        self._writing = asyncio.Lock()
        self._slots = asyncio.Semaphore(_CONNECTIONS)
        self._idle: list[aiosqlite.Connection] = []

    def _is_migration_needed(self) -> bool:
        # ADK's own leaves its connection open (google.adk.sessions.sqlite_session_service), which
        # is a ResourceWarning from Python 3.13 on.
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
        """Lend a connection to one operation: the one that was used last, or another one.

        In the place of ADK's (google.adk.sessions.sqlite_session_service), which opens one each
        time. One that an operation has failed on is closed, with all that was not committed.
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
            del first  # it has made the tables
        connection = aiosqlite.connect(self._db_connect_path, uri=self._db_connect_uri)
        # A process that ends without closing it must not wait for its thread.
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
        # Another process writes; there is no signal for its end.
        await asyncio.sleep(random.uniform(0.01, 0.1))  # noqa: S311 -- jitter
    return await do()
