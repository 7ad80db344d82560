"""A store of versioned records, leases and scripts in Redis, without knowledge of approvals."""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from importlib.resources import files
from typing import Any, Final, Protocol, Self, cast

from signoff.broker.ledger.packing import unpack
from signoff.broker.ledger.pipeline import Command, Wire
from signoff.broker.ledger.redis_types import RedisClient
from signoff.broker.server.address import connect_anew, fails_over, open_pool
from signoff.broker.server.cluster import ClusterPool
from signoff.broker.server.redis_py import redis
from signoff.broker.server.tls import NotRedis
from signoff.core.base.errors import LedgerUnavailable

_FILES = {"session_open": "session_read"}
"""Scripts that share the file of another one, and differ only in whether a replica must confirm."""


@cache
def _source(name: str) -> str:
    """Return the text of a script; most commands need few of the thirty."""
    folder = files("signoff.broker").joinpath("lua")
    text = folder.joinpath(f"{_FILES.get(name, name)}.lua").read_text("utf-8")
    if " forbidden(" not in text:
        return text
    return folder.joinpath("forbidden.lua").read_text("utf-8") + text


@cache
def _sha(name: str) -> str:
    """Return the hash by which Redis knows a script."""
    return hashlib.sha1(_source(name).encode(), usedforsecurity=False).hexdigest()


_DURABLE = frozenset({"commit", "session_make", "session_append", "session_open"})
"""Scripts whose writes a replica must confirm, if the store waits for one."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MS = timedelta(milliseconds=1)
_RETRIES = 5
_RETRIES_IN_FAILOVER = 10
"""Sentinels and clusters take a few seconds to name another primary."""
# Listed by name, because some of them are not subclasses of RedisError.
_FOREIGN: tuple[type[Exception], ...] = tuple(
    kind
    for kind in vars(redis.exceptions).values()
    if isinstance(kind, type) and issubclass(kind, Exception)
)


class Version(int):
    """The version of a record, with the mark of the commit that wrote it.

    After a failover, the new primary may have another record of the same version than the old one
    had. The marks tell them apart.

    Args:
        number: The version.
        mark: The mark; "" if it is not known.
    """

    mark: str

    def __new__(cls, number: int | str, mark: str = "") -> Self:
        """Return a version with its mark."""
        made = super().__new__(cls, number)
        made.mark = mark
        return made


def mark_of(version: object) -> str:
    """Return the mark of the commit that wrote this version of a record, "" if it is not known."""
    return version.mark if isinstance(version, Version) else ""


def parse_record(text: str | None) -> tuple[int, str] | None:
    """Return the version, a `Version`, and the data of a stored record; None for None.

    Packed data is unpacked. A value that is not a record has version -1, which no commit replaces,
    and no JSON as data.
    """
    if text is None:
        return None
    try:
        version, mark, data = text.split(" ", 2)
        return Version(version, mark), unpack(data)
    except ValueError:
        return -1, f"not a record: {text}"


class Clock(Protocol):
    """A clock that replaces that of the Redis server."""

    def now(self) -> datetime:
        """Return the present, in UTC."""


@contextmanager
def translated() -> Iterator[None]:
    """Translate the exceptions of redis-py into errors of Signoff.

    Raises:
        LedgerUnavailable: Redis cannot be reached, refuses, or is out of memory.
    """
    task = asyncio.current_task()
    cancelled_before = task.cancelling() if task else 0
    try:
        yield
    except redis.exceptions.AuthenticationError as error:
        # Without a password, Redis answers with a sentence about the protocol.
        why = "It wants a password." if "HELLO" in str(error) else _sentence(error)
        raise LedgerUnavailable(
            f"Redis refuses the login: {why} Put its user and password into [redis] "
            "url: redis://user:password@host:port/0."
        ) from error
    except NotRedis as error:
        raise LedgerUnavailable(str(error)) from error
    except (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError) as error:
        raise LedgerUnavailable(
            f"Redis cannot be reached: {_sentence(error)} Is it running at the configured [redis] "
            "url? `signoff doctor` checks it."
        ) from error
    except _FOREIGN as error:
        remedy = "`signoff doctor` checks its settings and its memory."
        if _is_forbidden(error):
            remedy = (
                "Give each process the URL of its own Redis user, and load the ACL file that "
                "`signoff redis acl` of this release writes."
            )
        raise LedgerUnavailable(f"Redis refused a command: {_sentence(error)} {remedy}") from error
    finally:
        # redis-py sends with asyncio.wait_for. In Python 3.11 this swallows a cancellation that
        # comes when the sending ends, so the cancelled task would go on.
        if task and task.cancelling() > cancelled_before:
            raise asyncio.CancelledError


_FORBIDDEN_IN_SCRIPT: Final = ("The user executing the script can't", "ACL failure in script")
"""What the error for a command in a script says, which has no code of its own: in Redis 7.0, and in
Redis 7.2 and later and Valkey."""


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.') or type(error).__name__}."


def _is_forbidden(error: Exception) -> bool:
    forbidden = isinstance(error, redis.exceptions.NoPermissionError)
    return forbidden or any(one in str(error) for one in _FORBIDDEN_IN_SCRIPT)


def to_ms(moment: datetime) -> int:
    """Return whole milliseconds since the epoch."""
    return (moment - _EPOCH) // _MS


def to_us(moment: datetime) -> int:
    """Return microseconds since the epoch: a score that keeps the order of close moments."""
    # Twice as fast as dividing durations, which counts for each entry of an index.
    since = moment - _EPOCH
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def from_us(score: float) -> datetime:
    """Return the moment of a score from `to_us`."""
    return _EPOCH + timedelta(microseconds=score)


def to_ms_after(moment: datetime) -> int:
    """Return milliseconds since the epoch, rounded up."""
    return -((_EPOCH - moment) // _MS)


def _score(first: list[Any]) -> float | None:
    """Return the score of a member, which follows it (RESP2) or is in a pair with it (RESP3)."""
    if not first:
        return None
    return float(first[0][1] if isinstance(first[0], list) else first[1])


class Store:
    """Versioned records and scripts under one key prefix.

    Args:
        client: An asyncio client that decodes responses; see `open_pool`.
        prefix: The prefix of every key; the braces keep all keys in one slot of a Redis Cluster.
        clock: Used instead of the Redis server's clock, for tests.
        replica: Whether a replica must confirm each commit.
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
        self._commands = cast("RedisClient", client)
        self._wire = Wire(
            client.connection_pool,
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
        retries: int | None = None,
    ) -> Self:
        """Return a store with a connection pool; if all connections are in use, callers wait.

        Args:
            url: See `signoff.broker.server.address.open_pool`.
            prefix: See the class.
            clock: See the class.
            size: The most connections.
            replica: See the class.
            retries: How often a command is sent again if Redis cannot be reached; None retries
                more often with Sentinels and clusters, which take some time to fail over.
        """
        # If the reply to a commit is lost, the commit may have been carried out. Sending it again
        # is safe, because the script recognises it by the mark that it left.
        if retries is None:
            retries = _RETRIES_IN_FAILOVER if fails_over(url) else _RETRIES
        pool = open_pool(
            url,
            prefix=prefix,
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
        """Return the present, given the reply of the server to TIME."""
        if self._clock is not None:
            return self._clock.now()
        return datetime.fromtimestamp(int(seconds), UTC) + timedelta(microseconds=int(micros))

    def later(self, moment: datetime, seconds: float) -> datetime:
        """Return the present, so many seconds after a moment of the ledger's clock."""
        return self._clock.now() if self._clock else moment + timedelta(seconds=seconds)

    def now_ms(self) -> int:
        """Return the present in milliseconds for scripts; 0 makes them ask the server."""
        return 0 if self._clock is None else to_ms(self._clock.now())

    async def scripts(self, name: str, calls: Sequence[Sequence[str | int | bytes]]) -> list[Any]:
        """Run one script for each list of arguments, in one round trip.

        Each call is atomic, and runs even if another one fails.
        """
        with translated():
            results = await self._pipelined(name, calls)
            unknown = [
                place
                for place, one in enumerate(results)
                if isinstance(one, redis.exceptions.NoScriptError)
            ]
            if unknown:
                # A restarted Redis has no scripts. Only the calls that failed are repeated.
                load = ("SCRIPT", "LOAD", _source(name))
                again = await self._pipelined(name, [calls[place] for place in unknown], load)
                for place, one in zip(unknown, again[1:], strict=True):
                    results[place] = one
            for one in results:
                if isinstance(one, Exception):
                    raise one
        return results

    async def script(self, name: str, *args: str | int | bytes) -> Any:  # noqa: ANN401 -- as Redis replies
        """Run one script once."""
        return (await self.scripts(name, [args]))[0]

    async def _pipelined(
        self, name: str, calls: Sequence[Sequence[str | int | bytes]], *before: Command
    ) -> list[Any]:
        start = ("EVALSHA", _sha(name), 1, self.prefix)
        commands = [*before, *((*start, *args) for args in calls)]
        # A failover may lose leases and counters, which is safe because commits are fenced.
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
        """Return the version and data of each record, None for a missing one."""
        if not keys:
            return []
        found = await self._one("MGET", *(self.prefix + key for key in keys))
        return [parse_record(text) for text in found]

    async def read_now(self, keys: Sequence[str]) -> tuple[list[tuple[int, str] | None], datetime]:
        """Return records as `read` does, and the present, in one round trip."""
        if not keys:
            return [], await self.now()
        found, clock = await self._all(("MGET", *(self.prefix + key for key in keys)), ("TIME",))
        return [parse_record(text) for text in found], self.moment(*clock)

    async def push(self, texts: Sequence[tuple[str, str]]) -> None:
        """Add texts to the left ends of lists, in one round trip.

        Args:
            texts: The key of a list, to which the prefix is not added, and a text, in pairs.
        """
        await self._all(*(("LPUSH", key, text) for key, text in texts))

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
        """Return the score of each member in an index, None for one that is not in it."""
        if not members:
            return []
        found = await self._one("ZMSCORE", self.prefix + key, *members)
        return [None if one is None else float(one) for one in found]

    async def above(self, key: str, score: int) -> list[str]:
        """Return the members of an index with a higher score, the lowest first."""
        with translated():
            return await self._commands.zrangebyscore(self.prefix + key, f"({score}", "+inf")

    async def below(self, key: str, score: float, *, limit: int) -> list[str]:
        """Return the first members of an index with at most this score."""
        with translated():
            return await self._commands.zrangebyscore(
                self.prefix + key, "-inf", score, start=0, num=limit
            )

    async def sizes(self, keys: Collection[str]) -> list[int]:
        """Return the number of members of each index, 0 for one that does not exist."""
        return await self._all(*(("ZCARD", self.prefix + key) for key in keys)) if keys else []

    async def extents(self, keys: Sequence[str]) -> list[tuple[int, float | None]]:
        """Return the size and the lowest score of each index; the score is None if it is empty."""
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
        """Return a page of scores and members of an index, the highest score first.

        Continuing after the last member returns each member once, even if others are added.

        Args:
            key: The index.
            before: The score and member after which to continue; None starts at the beginning.
            limit: The most to return.
            rising: Whether the lowest score comes first.
            by: Another index whose scores are used instead. Members that are not in both are left
                out. The cost is proportional to the smaller index.
        """
        place = ("", "") if before is None else before
        order = "up" if rising else "down"
        flat = await self.script("behind", key, limit, *place, order, by)
        return [(int(score), one) for one, score in zip(flat[::2], flat[1::2], strict=True)]

    async def prefixed(self, key: str, start: str) -> list[str]:
        """Return the members with this prefix of an index in which all scores are equal."""
        with translated():
            return await self._commands.zrangebylex(
                self.prefix + key, f"[{start}", f"[{start}\U0010ffff"
            )

    def pattern(self, start: str = "") -> str:
        """Return the pattern of all keys that begin with a text, after the prefix of the store."""
        return re.sub(r"([\\*?\[\]])", r"\\\1", self.prefix + start) + "*"

    async def keys(self, start: str, kind: str | None = None) -> list[str]:
        """Return the keys that begin with a text, sorted and without the prefix of the store.

        A cursor of SCAN is only valid on the server that returned it, so the scan starts again if
        another server has taken over. Each step also names a key, so that a cluster refuses it
        while the slot is moving or after it has moved.

        Args:
            start: The text.
            kind: Return only keys of this type: ``string``, ``hash`` or ``zset``.
        """
        pattern = self.pattern(start)
        # Most of the time is the round trip: a thousand keys take a tenth of a millisecond.
        options = ("MATCH", pattern, "COUNT", 10_000, *(("TYPE", kind) if kind else ()))
        found: set[str] = set()
        cursor, server = 0, ""
        with translated():
            while cursor or not server:
                async with self._commands.pipeline(transaction=True) as pipe:
                    pipe.execute_command("EXISTS", self.prefix)
                    pipe.execute_command("SCAN", cursor, *options)
                    pipe.execute_command("INFO", "server")
                    _, (behind, page), about = await pipe.execute()
                # A hosted Redis may not reveal it.
                asked = about.get("run_id", "unknown")
                if server not in {"", asked}:
                    found, cursor, server = set(), 0, ""
                    continue
                found.update(key.removeprefix(self.prefix) for key in page)
                cursor, server = int(behind), asked
        return sorted(found)

    @property
    def in_cluster(self) -> bool:
        """Whether the ledger is in a cluster, where other slots may hold other data."""
        return isinstance(self.client.connection_pool, ClusterPool)

    @asynccontextmanager
    async def translated_client(self) -> AsyncIterator[RedisClient]:
        """Yield the client, with its errors translated."""
        with translated():
            yield self._commands
