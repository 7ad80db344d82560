"""The interface of a peer: a unit is a request that is opened, answered and done.

This module and the peers' modules run in the environment of the peer, without Signoff.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from contextlib import AsyncExitStack
from pathlib import Path
from typing import ClassVar

from benchmarks.fleet import Fleet

PAYLOAD = {
    "tool": "reimburse",
    "args": {"amount": 2500.0, "purpose": "the conference"},
    "hint": "Please approve or reject the tool call reimburse() by responding with a "
    "FunctionResponse.",
    "message": "Reimburse me $2500 for the conference",
}
"""The content of a request, the same as in the benchmarks of Signoff."""

_PATIENCE = 60.0


class Peer(ABC):
    """One product with its servers.

    Args:
        folder: The folder for its files.
        fleet: Starts the processes that print lines on standard output; they stop with it.

    Attributes:
        at_once: The number of concurrent units in a round.
        pause: The maximum seconds that a single request waits for its answer.
        ends: Cleans up everything at the end.
    """

    at_once: ClassVar[int] = 32
    pause: ClassVar[float] = 0.02

    def __init__(self, folder: Path, fleet: Fleet) -> None:
        self.folder = folder
        self.fleet = fleet
        self.ends = AsyncExitStack()

    @abstractmethod
    async def start(self) -> None:
        """Start everything, and return when requests are accepted."""

    @abstractmethod
    async def open(self) -> str:
        """Open a request, and return its id when it is stored and waits for its answer."""

    @abstractmethod
    async def answer(self, request: str) -> int:
        """Answer a request, and wait until its work has ended.

        Returns:
            The monotonic time in nanoseconds at which the work continued.
        """

    async def settle(self) -> None:  # noqa: B027 -- most peers have nothing to do
        """Wait until no work is left."""

    @abstractmethod
    async def stored(self) -> int:
        """Return the bytes of its store."""


class Arrivals:
    """Times of events from other processes, by id; each is waited for once."""

    def __init__(self) -> None:
        self._moments: dict[str, asyncio.Future[int]] = {}

    def tell(self, name: str, moment: int | None = None) -> None:
        """Record that an event has arrived at a monotonic time in nanoseconds, or now."""
        found = self._future(name)
        if not found.done():
            found.set_result(time.monotonic_ns() if moment is None else moment)

    async def of(self, name: str) -> int:
        """Wait until it has arrived, and return the time."""
        moment = await self._future(name)
        del self._moments[name]
        return moment

    def _future(self, name: str) -> asyncio.Future[int]:
        if name not in self._moments:
            self._moments[name] = asyncio.get_running_loop().create_future()
        return self._moments[name]


class Postgres:
    """A PostgreSQL with its defaults, in a separate folder.

    PostgreSQL does not run as root; then it runs as the user that its package has created.

    Args:
        folder: The folder of its data and sockets; it must not exist yet.

    Raises:
        FileNotFoundError: PostgreSQL is not installed.
    """

    def __init__(self, folder: Path) -> None:
        self.port = free_port()
        self._as = {"user": "postgres", "group": "postgres"} if os.geteuid() == 0 else {}
        self._folder = folder
        folder.mkdir()
        if self._as:
            shutil.chown(folder, **self._as)
        self._call("initdb", "-D", folder / "data", "--auth=trust", "--username=bench")
        self._process = self._popen()

    @property
    def url(self) -> str:
        """The URL of its database."""
        return f"postgresql://bench@127.0.0.1:{self.port}/postgres"

    async def ready(self) -> None:
        """Wait until it answers."""
        await listening(self.port)

    async def size(self) -> int:
        """Return the bytes of its database, without the write-ahead log."""
        text = await asyncio.to_thread(
            self._call, "psql", self.url, "-Atc", "SELECT pg_database_size('postgres')"
        )
        return int(text)

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()

    def _popen(self) -> subprocess.Popen[bytes]:
        command: list[str | Path] = [
            _postgres("postgres"),
            *("-D", self._folder / "data", "-p", str(self.port), "-h", "127.0.0.1"),
            *("-c", f"unix_socket_directories={self._folder}"),
        ]
        return subprocess.Popen(
            command,
            cwd="/",
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            user=self._as.get("user"),
            group=self._as.get("group"),
        )

    def _call(self, program: str, *arguments: str | Path) -> str:
        done = subprocess.run(
            [_postgres(program), *arguments],
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=self._as.get("user"),
            group=self._as.get("group"),
        )
        if done.returncode:
            raise RuntimeError(f"{program}: {done.stderr[-500:]}")
        return done.stdout


def _postgres(program: str) -> str:
    """Return the path of a PostgreSQL program: on PATH, or in the folder of Debian's package."""
    found = sorted(
        Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda one: int(one.parts[-3])
    )
    path = str(found[-1]) if found else shutil.which(program)
    if path is None:
        raise FileNotFoundError("PostgreSQL is not installed (apt-get install postgresql).")
    return path


def free_port() -> int:
    """Return a free port of the loopback address."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


async def listening(port: int) -> None:
    """Wait until a server listens on a port of the loopback address.

    Raises:
        TimeoutError: No server listens.
    """
    async with asyncio.timeout(_PATIENCE):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.05)
            else:
                writer.close()
                return


def beside(program: str) -> str:
    """Return the path of a program that is installed in this environment."""
    return str(Path(sys.prefix) / "bin" / program)


def size_of(folder: Path) -> int:
    """Return the bytes of the files of a folder, without reserved space."""
    return sum(one.lstat().st_size for one in folder.rglob("*") if one.is_file())
