"""Redis as a store of versioned records, leases and scripts; it knows no approvals."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from importlib.resources import files
from typing import Any, Protocol, Self, cast

from signoff.broker.ledger.pipeline import Command, Wire
from signoff.broker.ledger.redis_types import Commands
from signoff.broker.server.address import SCHEME, connect_anew, open_pool
from signoff.broker.server.redis_py import redis
from signoff.core.base.errors import LedgerUnavailable

_FILES = {"session_open": "session_read"}
"""Scripts that stand in the file of another one: they differ in what has to be on a replica."""

_SCRIPTS = {
    name: files("signoff.broker").joinpath("lua", f"{_FILES.get(name, name)}.lua").read_text()
    for name in (
        "commit",
        "claim",
        "claim_runs",
        "take",
        "extend",
        "release",
        "due",
        "overdue",
        "pair",
        "beat",
        "measure",
        "pending",
        "trail",
        "behind",
        "count",
        "throttle",
        "refund",
        "slots",
        "rest",
        "wake",
        "prune",
        "compact",
        "dump",
        "session_make",
        "session_append",
        "session_read",
        "session_open",
        "session_drop",
        "search_append",
    )
}
_SHAS = {
    name: hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    for name, text in _SCRIPTS.items()
}


_DURABLE = frozenset({"commit", "session_make", "session_append", "session_open"})
"""What counts only when a replica has it, where one is waited for."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_RETRIES = 5
_RETRIES_IN_FAILOVER = 10
"""Sentinels take a few seconds to name another primary."""
# By name: some of them are not below RedisError.
_FOREIGN: tuple[type[Exception], ...] = tuple(
    kind
    for kind in vars(redis.exceptions).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)


def parse_record(text: str | None) -> tuple[int, str] | None:
    """Return version and data of a record as it is kept; None stays None."""
    if text is None:
        return None
    # The mark between them is that of the commit which wrote it; see commit.lua.
    version, _, data = text.split(" ", 2)
    return int(version), data


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
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    try:
        yield
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError) as error:
        raise LedgerUnavailable(
            f"Redis cannot be reached: {_sentence(error)} Is it running at the configured [redis] "
            "url? `signoff doctor` looks into it."
        ) from error
    except _FOREIGN as error:
        raise LedgerUnavailable(
            f"Redis did not do what was asked: {_sentence(error)} `signoff doctor` looks into how "
            "it is set, and whether it has room."
        ) from error
    finally:
        # redis-py sends by asyncio.wait_for, which in Python 3.11 swallows a cancellation that
        # comes as the sending ends; a cancelled task would work on.
        if task and task.cancelling() > cancelled_before:
            raise asyncio.CancelledError


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.') or type(error).__name__}."


def to_ms(moment: datetime) -> int:
    """Return whole milliseconds since the epoch."""
    return (moment - _EPOCH) // _MS


def to_us(moment: datetime) -> int:
    """Return microseconds since the epoch: a score that keeps the order of what comes close."""
    # A division of durations would take twice as long, for each entry of an index.
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(score: float) -> datetime:
    """Return the moment of a score that `to_us` made."""
    return _EPOCH + timedelta(microseconds=score)


def to_ms_after(moment: datetime) -> int:
    """Return the first whole millisecond since the epoch that is not before this moment."""
    return -((_EPOCH - moment) // _MS)


def _score(first: list[Any]) -> float | None:
    """Return the score of a member, which comes beside it (RESP2) or in a pair with it (RESP3)."""
    if not first:
        return None
    return float(first[0][1] if isinstance(first[0], list) else first[1])


class Store:
    """Versioned records and scripts under one key prefix.

    Args:
        client: An asyncio client that decodes responses.
        prefix: Put before every key; the braces keep all keys in one slot of a Redis cluster.
        clock: Used instead of the Redis server's clock, for tests.
        replica: Whether a commit counts only when a replica has it too.
    """

    def __init__(
        self,
        client: redis.asyncio.Redis,
        *,
        prefix: str = "{signoff}:",
        clock: Clock | None = None,
        replica: bool = False,
    ) -> None:
        self.client = client
        self._commands = cast("Commands", client)
        self._wire = Wire(
            self._commands,
            mark=f"{prefix}replicated" if replica else "",
            connect_anew=partial(connect_anew, client.connection_pool),
        )
        self.prefix = prefix
        self.replica = replica
        self._clock = clock

    @classmethod
    def open(
        cls,
        url: str,
        *,
        prefix: str = "{signoff}:",
        clock: Clock | None = None,
        size: int = 64,
        replica: bool = False,
    ) -> Self:
        """Return a store on a pool that makes callers wait when its connections are all in use.

        Args:
            url: See `signoff.broker.server.address.open_pool`.
            prefix: See the class.
            clock: See the class.
            size: The most connections to have.
            replica: See the class.
        """
        # A commit that was sent and whose answer was lost may have been carried out. Sending it
        # again is safe: the script knows its own commit by the mark that it left.
        retries = _RETRIES_IN_FAILOVER if url.startswith(SCHEME) else _RETRIES
        pool = open_pool(
            url,
            max_connections=size,
            timeout=20,
            decode_responses=True,
            retry=redis.asyncio.retry.Retry(
                redis.backoff.ExponentialWithJitterBackoff(base=0.05, cap=1), retries
            ),
        )
        client = redis.asyncio.Redis(connection_pool=pool)
        return cls(client, prefix=prefix, clock=clock, replica=replica)

    async def close(self) -> None:
        """Close all connections."""
        await self.client.aclose()
        await self.client.connection_pool.aclose()

    async def now(self) -> datetime:
        """Return the present by the ledger's clock, in UTC."""
        if self._clock is not None:
            return self._clock.now()
        return self.moment(*await self._one("TIME"))

    def moment(self, seconds: str | int, micros: str | int) -> datetime:
        """Return the present, for which the server says that it is this time."""
        if self._clock is not None:
            return self._clock.now()
        return datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(micros))

    def now_ms(self) -> int:
        """Return what scripts take as the present: 0 lets them ask the server."""
        return 0 if self._clock is None else to_ms(self._clock.now())

    async def scripts(self, name: str, calls: Sequence[Sequence[str | int]]) -> list[Any]:
        """Run one script for each list of arguments, in one round trip.

        Each call is atomic; one that fails does not keep the others from running.
        """
        with translated():
            results = await self._pipelined(name, calls)
            unknown = [
                place
                for place, one in enumerate(results)
                if isinstance(one, redis.exceptions.NoScriptError)
            ]
            if unknown:
                # A Redis that was started anew has no scripts. What it did do is not done twice.
                load = ("SCRIPT", "LOAD", _SCRIPTS[name])
                again = await self._pipelined(name, [calls[place] for place in unknown], load)
                for place, one in zip(unknown, again[1:], strict=True):
                    results[place] = one
            for one in results:
                if isinstance(one, Exception):
                    raise one
        return results

    async def script(self, name: str, *args: str | int) -> Any:  # noqa: ANN401 -- as Redis replies
        """Run one script once."""
        return (await self.scripts(name, [args]))[0]

    async def _pipelined(
        self, name: str, calls: Sequence[Sequence[str | int]], *before: Command
    ) -> list[Any]:
        start = ("EVALSHA", _SHAS[name], 1, self.prefix)
        commands = [*before, *((*start, *args) for args in calls)]
        # Leases and counters that a failover loses are lost to everybody: commits are fenced.
        return await self._wire.send(commands, durable=name in _DURABLE)

    async def _one(self, *command: str | int) -> Any:  # noqa: ANN401 -- as Redis replies
        return (await self._all(command))[0]

    async def _all(self, *commands: tuple[str | int, ...]) -> list[Any]:
        with translated():
            replies = await self._wire.send(commands)
            for reply in replies:
                if isinstance(reply, Exception):
                    raise reply
        return replies

    async def read(self, keys: Sequence[str]) -> list[tuple[int, str] | None]:
        """Return version and data of each record, None where there is none."""
        if not keys:
            return []
        found = await self._one("MGET", *(self.prefix + key for key in keys))
        return [parse_record(text) for text in found]

    async def read_now(self, keys: Sequence[str]) -> tuple[list[tuple[int, str] | None], datetime]:
        """Read records as `read` does, and the present, in one round trip."""
        found, clock = await self._all(("MGET", *(self.prefix + key for key in keys)), ("TIME",))
        return [parse_record(text) for text in found], self.moment(*clock)

    async def members(
        self, key: str, *, newest_first: bool = False, limit: int | None = None
    ) -> list[str]:
        """Return the members of an index, in the order of their scores."""
        if limit is not None and limit < 1:
            return []
        last = -1 if limit is None else limit - 1
        with translated():
            return await self._commands.zrange(self.prefix + key, 0, last, desc=newest_first)

    async def scored(self, keys: Sequence[str]) -> list[dict[str, float]]:
        """Return the members of several indexes with their scores."""
        with translated():
            found = [
                await self._commands.zrange(self.prefix + key, 0, -1, desc=False, withscores=True)
                for key in keys
            ]
        return [{member: float(score) for member, score in pairs} for pairs in found]

    async def scores(self, key: str, members: Sequence[str]) -> list[float | None]:
        """Return the score of each of these in an index; None for one that is not in it."""
        if not members:
            return []
        found = await self._one("ZMSCORE", self.prefix + key, *members)
        return [None if one is None else float(one) for one in found]

    async def above(self, key: str, score: int) -> list[str]:
        """Return the members of an index with a higher score, the lowest first."""
        with translated():
            return await self._commands.zrangebyscore(self.prefix + key, f"({score}", "+inf")

    async def below(self, key: str, score: float, *, limit: int) -> list[str]:
        """Return the first members of an index whose score is not above this one."""
        with translated():
            return await self._commands.zrangebyscore(
                self.prefix + key, "-inf", score, start=0, num=limit
            )

    async def extents(self, keys: Sequence[str]) -> list[tuple[int, float | None]]:
        """Return how many members each index has, and its lowest score; None where it is empty."""
        asked = [
            command
            for key in keys
            for command in (
                ("ZCARD", self.prefix + key),
                ("ZRANGE", self.prefix + key, 0, 0, "WITHSCORES"),
            )
        ]
        found = await self._all(*asked) if asked else []
        pairs = zip(found[::2], found[1::2], strict=True)
        return [(int(count), _score(first)) for count, first in pairs]

    async def behind(
        self,
        key: str,
        *,
        before: tuple[int, str] | None = None,
        limit: int,
        rising: bool = False,
        by: str = "",
    ) -> list[tuple[int, str]]:
        """Return scores and members of an index, the highest first.

        Reading on behind the last one shows each one once, whatever is added above.

        Args:
            key: The index.
            before: Score and member of the place to go on behind; None begins with the first.
            limit: The most to return.
            rising: Whether the lowest comes first.
            by: Another index, whose scores count in place of its own; what is not there is left
                out. It takes Redis as long as the smaller of the two is.
        """
        place = ("", "") if before is None else before
        order = "up" if rising else "down"
        flat = await self.script("behind", key, limit, *place, order, by)
        return [(int(score), one) for one, score in zip(flat[::2], flat[1::2], strict=True)]

    async def prefixed(self, key: str, start: str) -> list[str]:
        """Return the members of an index of equal scores that begin with this text."""
        with translated():
            return await self._commands.zrangebylex(
                self.prefix + key, f"[{start}", f"[{start}\U0010ffff"
            )

    async def keys(self, start: str, kind: str | None = None) -> list[str]:
        """Return the keys that begin with this text, sorted; the prefix is taken off.

        Args:
            start: The text.
            kind: ``string``, ``hash``, ``zset``: only keys of this type.
        """
        pattern = re.sub(r"([\\*?\[\]])", r"\\\1", self.prefix + start) + "*"
        with translated():
            found = {
                key.removeprefix(self.prefix)
                # Most of the time is the way there and back: a thousand take a tenth of a ms.
                async for key in self._commands.scan_iter(match=pattern, count=10_000, _type=kind)
            }
        return sorted(found)

    @asynccontextmanager
    async def translated_client(self) -> AsyncIterator[Commands]:
        """Lend the client, with its errors translated."""
        with translated():
            yield self._commands
