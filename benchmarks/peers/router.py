"""Signoff without an agent as a peer, with the parts of `benchmarks.chain`."""

from __future__ import annotations

import asyncio

from benchmarks.chain import Client
from benchmarks.office import open_pause
from benchmarks.peers.port import Arrivals, Peer
from benchmarks.process import quieten
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.server.redis_py import redis
from signoff.cli.composition.process import collect_less


class Signoff(Peer):
    """Channels and a worker in one process each, and their Redis."""

    at_once = 1_000

    async def start(self) -> None:
        """Start Redis and the two processes."""
        quieten()
        redis_server = EmbeddedRedis(self.folder / "redis", fsync="always")
        self._redis = self.ends.enter_context(redis_server)
        channels, worker = [
            await self.fleet.start(role, self._redis.url) for role in ("channels", "executor")
        ]
        await asyncio.gather(channels.ready(), worker.ready())
        self._client = Client(self._redis.url, channels)
        self.ends.push_async_callback(self._client.ledger.close)
        # This process opens and decides, as a worker and a gateway do.
        collect_less()
        self._cards, self._ends = Arrivals(), Arrivals()
        self._runs: dict[str, str] = {}
        channels.hear = lambda words: self._cards.tell(words[1])
        worker.hear = lambda words: self._ends.tell(words[1], int(words[2]))

    async def open(self) -> str:
        """Commit a pause, and wait for its card."""
        opened = open_pause(await self._client.ledger.now())
        await self._client.ledger.commit(opened.change)
        await self._cards.of(opened.approval.id)
        self._runs[opened.approval.id] = opened.run.id
        return opened.approval.id

    async def answer(self, request: str) -> int:
        """Approve it, and wait for the resume."""
        await self._client.approve(request)
        return await self._ends.of(self._runs.pop(request))

    async def settle(self) -> None:
        """Wait until no stage has work, because a run's end is committed after its resume."""
        await self._client.quiet()

    async def stored(self) -> int:
        """Return the bytes of data in Redis."""
        return used(self._redis.url)


def used(url: str) -> int:
    """Return the bytes that Redis has allocated for data."""
    with redis.Redis.from_url(url) as client:
        client.execute_command("MEMORY", "PURGE")
        info = client.info("memory")
    aside = ("mem_clients_normal", "mem_aof_buffer", "mem_replication_backlog")
    return int(info["used_memory"]) - sum(int(info[name]) for name in aside)
