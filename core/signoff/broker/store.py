"""Redis as a store of versioned records, leases and scripts; it knows no approvals."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from typing import Any, Protocol, Self

import redis.asyncio
import redis.exceptions
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialWithJitterBackoff

from signoff.core.errors import LedgerUnavailable

_SCRIPTS = {
    name: files("signoff.broker").joinpath("lua", f"{name}.lua").read_text()
    for name in ("commit", "claim", "extend", "release", "due", "overdue")
}
_SHAS = {
    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in _SCRIPTS.items()
}


class Clock(Protocol):
    """Something that tells the time; without one, the Redis server does."""

    def now(self) -> datetime:
        """Return the present, in UTC."""


@contextmanager
def translated() -> Iterator[None]:
    """Turn what redis-py raises into the errors of Signoff.

    Raises:
        LedgerUnavailable: Redis cannot be reached, refuses, or is out of memory.
    """
    try:
        yield
    except redis.exceptions.RedisError as error:
        raise LedgerUnavailable(
            f"Redis did not do what was asked: {error}. Is it running at the configured "
            "[redis] url, and does it have room? `signoff doctor` looks into it."
        ) from error
    except OSError as error:
        raise LedgerUnavailable(
            f"Redis cannot be reached: {error}. Check [redis] url; `signoff doctor` looks into it."
        ) from error


def to_ms(moment: datetime) -> int:
    """Return milliseconds since the epoch."""
    return int(moment.timestamp() * 1000)


class Store:
    """Versioned records and scripts under one key prefix.

    Args:
        client: An asyncio client that decodes responses.
        prefix: Put before every key; the braces keep all keys in one slot of a Redis cluster.
        clock: Used instead of the Redis server's clock, for tests.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        *,
        prefix: str = "{signoff}:",
        clock: Clock | None = None,
    ) -> None:
        self.client = client
        self.prefix = prefix
        self._clock = clock

    @classmethod
    def open(
        cls, url: str, *, prefix: str = "{signoff}:", clock: Clock | None = None, size: int = 64
    ) -> Self:
        """Return a store on a pool that makes callers wait when its connections are all in use.

        Args:
            url: ``redis://…``, ``rediss://…`` or ``unix://…``.
            prefix: See the class.
            clock: See the class.
            size: The most connections to have.
        """
        # A commit that was sent and whose answer was lost may have been carried out. Sending it
        # again is safe: its versions no longer match, and the caller reads and decides again.
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url,
            max_connections=size,
            timeout=20,
            decode_responses=True,
            retry=Retry(ExponentialWithJitterBackoff(base=0.05, cap=1), 5),
        )
        return cls(redis.asyncio.Redis(connection_pool=pool), prefix=prefix, clock=clock)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.aclose()
        await self.client.connection_pool.aclose()

    async def now(self) -> datetime:
        """Return the present by the ledger's clock, in UTC."""
        if self._clock is not None:
            return self._clock.now()
        with translated():
            seconds, micros = await self.client.time()
        return datetime.fromtimestamp(seconds, UTC) + timedelta(microseconds=micros)

    def now_ms(self) -> int:
        """Return what scripts take as the present: 0 lets them ask the server."""
        return 0 if self._clock is None else to_ms(self._clock.now())

    async def scripts(self, name: str, calls: Sequence[Sequence[str | int]]) -> list[Any]:
        """Run one script for each list of arguments, in one round trip.

        Each call is atomic by itself; one that fails does not keep the others from running.
        """
        with translated():
            results = await self._pipelined(name, calls)
            if any(isinstance(one, redis.exceptions.NoScriptError) for one in results):
                await self.client.script_load(_SCRIPTS[name])
                results = await self._pipelined(name, calls)
            for one in results:
                if isinstance(one, Exception):
                    raise one
        return results

    async def script(self, name: str, *args: str | int) -> Any:  # noqa: ANN401 -- as Redis replies
        """Run one script once."""
        return (await self.scripts(name, [args]))[0]

    async def _pipelined(self, name: str, calls: Sequence[Sequence[str | int]]) -> list[Any]:
        async with self.client.pipeline(transaction=False) as pipe:
            for args in calls:
                pipe.evalsha(_SHAS[name], 1, self.prefix, *args)
            return await pipe.execute(raise_on_error=False)

    async def read(self, keys: Sequence[str]) -> list[tuple[int, str] | None]:
        """Return version and data of each record, None where there is none."""
        if not keys:
            return []
        with translated():
            found = await self.client.mget([self.prefix + key for key in keys])
        records: list[tuple[int, str] | None] = []
        for text in found:
            if text is None:
                records.append(None)
            else:
                version, _, data = text.partition(" ")
                records.append((int(version), data))
        return records

    async def members(
        self, key: str, *, newest_first: bool = False, limit: int | None = None
    ) -> list[str]:
        """Return the members of an index, in the order of their scores."""
        last = -1 if limit is None else limit - 1
        with translated():
            return list(
                await self.client.zrange(self.prefix + key, 0, last, desc=newest_first)
            )

    async def prefixed(self, key: str, start: str) -> list[str]:
        """Return the members of an index of equal scores that begin with this text."""
        with translated():
            return list(
                await self.client.zrangebylex(
                    self.prefix + key, f"[{start}", f"[{start}\U0010ffff"
                )
            )

    @asynccontextmanager
    async def translated_client(self) -> AsyncIterator[redis.asyncio.Redis]:
        """Lend the client, with its errors translated."""
        with translated():
            yield self.client
