"""A Redis primary with replicas and Sentinels, all real processes on loopback."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from ports import free_port
from services import wait_for_redis
from signoff.broker.server.embedded import find_server

PATIENCE = 300.0
NAME = "ledger"


class Server:
    """A Redis server that can be killed and started again with its data."""

    def __init__(self, folder: Path, program: Path, *arguments: str, **settings: str) -> None:
        self.port = int(settings.get("port", free_port()))
        self.file = folder / f"{self.port}.conf"
        self._program = program
        self._arguments = arguments
        data = folder / str(self.port)
        data.mkdir()
        lines = {
            "port": str(self.port),
            "bind": "127.0.0.1",
            "dir": str(data),
            "logfile": str(data / "log"),
            **settings,
        }
        self.file.write_text(
            "".join(f"{key.replace('_', '-')} {one}\n" for key, one in lines.items())
        )
        self.process: subprocess.Popen[bytes] | None = None
        self.client = redis.Redis(
            port=self.port, decode_responses=True, retry=Retry(ConstantBackoff(0.05), 400)
        )

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = [str(self._program), str(self.file), *self._arguments]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        wait_for_redis(f"redis://127.0.0.1:{self.port}")

    def signal(self, number: int) -> None:
        """Send it a signal; after SIGKILL, wait until it has ended."""
        assert self.process is not None
        self.process.send_signal(number)
        if number == signal.SIGKILL:
            self.process.wait()

    def stop(self) -> None:
        """Kill it."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.client.close()


def following(server: Server) -> int:
    """Return how many replicas are in sync with a server; 0 if it is not a primary."""
    about: Any = server.client.info("replication")
    rows = [one for name, one in about.items() if name[:5] == "slave" and isinstance(one, dict)]
    return sum(one["state"] == "online" for one in rows) if about["role"] == "master" else 0


class Group:
    """A primary, its replicas, and optional Sentinels that watch them."""

    def __init__(self, servers: Sequence[Server], sentinels: Sequence[Server]) -> None:
        self.servers = servers
        self.sentinels = sentinels
        self._dead = servers[0]

    @property
    def url(self) -> str:
        """The URL that Signoff uses to find the current primary."""
        hosts = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        return f"sentinel://{hosts}/0?master={NAME}"

    def primary(self) -> Server:
        """Return the server that the Sentinels name as the primary."""
        row: Any = self.sentinels[0].client.sentinel_get_master_addr_by_name(NAME)
        return next(one for one in self.servers if one.port == int(row[1]))

    def attached(self) -> int:
        """Return how many replicas follow the first server."""
        return following(self.servers[0])

    async def fail_over(self) -> None:
        """Kill the primary, and wait until another one is named and has a replica."""
        old = self.primary()
        old.signal(signal.SIGKILL)
        await self._until(lambda: self.primary() is not old)
        new = self.primary()
        await self._until(lambda: following(new) > 0)
        self._dead = old

    def restart(self) -> None:
        """Restart the killed server; for some seconds it still acts as the primary."""
        self._dead.start()

    async def recover(self) -> None:
        """Restart the killed server, and wait until it replicates the new primary."""
        self.restart()
        await self._until(lambda: following(self.primary()) == len(self.servers) - 1)

    async def _until(self, wanted: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not await asyncio.to_thread(wanted):
            assert time.monotonic() < deadline, "the Sentinels do not agree"
            await asyncio.sleep(0.05)


@contextmanager
def replicated(
    folder: Path, *, replicas: int = 1, sentinels: int = 0, program: Path | None = None
) -> Iterator[Group]:
    """Start a primary, replicas and Sentinels; yield them when the replicas are in sync."""
    program = program or find_server()
    kept = {
        "appendonly": "yes",
        "appendfsync": "always",
        "save": '""',
        "repl_diskless_sync_delay": "0",
    }
    servers = [Server(folder, program, **kept)]
    first = servers[0].port
    follow = {"replicaof": f"127.0.0.1 {first}"}
    servers += [Server(folder, program, **kept, **follow) for _ in range(replicas)]
    watching = [Server(folder, program, "--sentinel") for _ in range(sentinels)]
    for one in watching:
        # Sentinels take a second to connect to a new primary; they must not consider it dead.
        rules = (
            f"monitor {NAME} 127.0.0.1 {first} {sentinels // 2 + 1}",
            f"down-after-milliseconds {NAME} 2000",
            f"failover-timeout {NAME} 3000",
        )
        with one.file.open("a") as file:
            file.write("".join(f"sentinel {rule}\n" for rule in rules))
    group = Group(servers, watching)
    try:
        for one in servers:
            one.start()
        deadline = time.monotonic() + PATIENCE
        while group.attached() < replicas:
            assert time.monotonic() < deadline, "the replicas do not follow"
            time.sleep(0.02)
        for one in watching:
            one.start()
            with suppress(redis.ResponseError):  # before Redis 7
                # A restarted server becomes a replica after 2 s instead of 10.
                periods = ("publish-period", 500, "info-period", 1000)
                one.client.execute_command("SENTINEL DEBUG", *periods)  # type: ignore[no-untyped-call]
        while any(not _knows(one, replicas, sentinels) for one in watching):
            assert time.monotonic() < deadline, "the Sentinels do not find each other"
            time.sleep(0.05)
        yield group
    finally:
        for one in (*watching, *servers):
            one.stop()


def _knows(sentinel: Server, replicas: int, sentinels: int) -> bool:
    state: Any = sentinel.client.sentinel_master(NAME)
    found = int(state["num-slaves"]), int(state["num-other-sentinels"])
    return found == (replicas, sentinels - 1)
