"""Sends the commands of concurrent coroutines to Redis in one round trip."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import hiredis

from signoff.broker.server.redis_py import redis
from signoff.core.base.errors import LedgerUnavailable

Command = tuple[str | int | bytes, ...]

_MOST = 256
"""The most commands in one round trip; more would delay all of them."""

_AT_ONCE = 2
"""Round trips at the same time: a short read does not wait until a large commit is on the disk."""

_PATIENCE_MS = 3000
"""How long a commit waits for the replica: less than the socket timeout of the client."""

_PROOFS = 3
"""How often to ask, if the server does not know the command or has more replicas than asked for."""

_IN_SYNC = re.compile(r"^slave\d+:.*\bstate=online\b", re.MULTILINE)
"""A replica in sync with the primary, in the reply to INFO."""


class _Call(NamedTuple):
    packed: Sequence[bytes]
    answer: asyncio.Future[list[Any]]
    durable: bool


class Wire:
    """Collects the commands that are called during round trips, and sends them in the next one.

    Two thirds of the cost of a small command is its round trip: the task switches and system calls
    on both sides and, with `appendfsync always`, a write to the disk. A call is sent at once if
    fewer than two round trips are under way.

    The commands stay separate: they are not a transaction, and if one fails, the others do not.
    Those of one caller are carried out in order, and those of different callers in any order.

    redis-py's own pipeline would encode each command in Python, and takes twice as long for one.

    Args:
        pool: The connections, which decode any reply. If one breaks, the round trip is repeated as
            a whole, so each command must be safe to send again.
        mark: A key that is written before waiting for replicas; "" does not wait. WAIT only covers
            the writes of its own connection. A commit that is recognised on another connection, or
            that was refused because an earlier one was carried out, writes nothing itself.
        connect_anew: Called when the server may no longer be the primary.
    """

    def __init__(
        self,
        pool: redis.asyncio.ConnectionPool,
        *,
        mark: str = "",
        connect_anew: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._pool = pool
        self._mark = mark
        self._connect_anew = connect_anew
        self._on_disk = True
        self._replicas = 1
        self._calls: list[_Call] = []
        self._flights: set[asyncio.Task[None]] = set()

    async def send(self, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        """Return the replies as Redis sends them; one that refuses a command is an exception.

        If a caller is cancelled before its commands are sent, they are not sent.

        Args:
            commands: The commands.
            durable: Whether replicas must confirm the writes, if the store waits for replicas.

        Raises:
            RedisError, OSError: Redis cannot be reached.
            LedgerUnavailable: No replica has confirmed the writes. They may persist nevertheless.
            UnicodeError: A text of a command has no UTF-8 form.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        self._calls.append(_Call(_packed(commands), answer, durable and bool(self._mark)))
        # Those of an earlier event loop will never be done.
        self._flights = {one for one in self._flights if not one.done() and one.get_loop() is loop}
        if len(self._flights) < _AT_ONCE:
            self._flights.add(loop.create_task(self._fly(), name="signoff-wire"))
        return await answer

    async def _fly(self) -> None:
        while calls := self._board():
            try:
                await self._round_trip(calls)
            except (redis.exceptions.RedisError, OSError) as error:
                _fail(calls, error)
            except BaseException as error:
                _fail(calls, error)
                raise

    def _board(self) -> list[_Call]:
        """Take the calls of the next round trip, the oldest first."""
        calls: list[_Call] = []
        room = _MOST
        while self._calls and (not calls or len(self._calls[0].packed) <= room):
            call = self._calls.pop(0)
            if not call.answer.done():
                calls.append(call)
                room -= len(call.packed)
        return calls

    async def _round_trip(self, calls: Sequence[_Call]) -> None:
        durable = any(call.durable for call in calls)
        packed = [command for call in calls for command in call.packed]
        replies = await self._exchange([*packed, *self._proof()] if durable else packed)
        missing = await self._missing(replies) if durable else None
        if self._connect_anew and (missing or any(_is_from_replica(one) for one in replies)):
            await self._connect_anew()
        start = 0
        for call in calls:
            end = start + len(call.packed)
            if call.durable and missing is not None:
                _fail([call], missing)
            elif not call.answer.done():
                call.answer.set_result(replies[start:end])
            start = end

    async def _exchange(self, packed: Sequence[bytes]) -> list[Any]:
        """Send commands on one connection and return their replies."""
        connection: redis.asyncio.Connection
        connection = await self._pool.get_connection()  # type: ignore[no-untyped-call]

        async def ask() -> list[Any]:
            await connection.send_packed_command(packed)
            return await _replies(connection, len(packed))

        try:
            return await connection.retry.call_with_retry(ask, lambda _: connection.disconnect())
        finally:
            await self._pool.release(connection)

    def _proof(self) -> list[bytes]:
        """Return commands that wait until the replicas have the writes, on disk if it can tell."""
        wait: Command = ("WAIT", self._replicas, _PATIENCE_MS)
        if self._on_disk:
            wait = ("WAITAOF", 1, self._replicas, _PATIENCE_MS)
        return _packed([("SET", self._mark, "1"), ("INFO", "replication"), wait])

    async def _missing(self, replies: list[Any]) -> LedgerUnavailable | None:
        """Return why a round trip does not count, None if the replicas have confirmed it.

        All attached replicas must confirm: Sentinels choose the next primary by what they knew of
        the replicas some seconds ago, so they could choose one that is behind.
        """
        why = "no replica of Redis confirmed it in time"
        for _ in range(_PROOFS):
            marked, info, reply = replies[-3:]
            if isinstance(marked, Exception):
                # A replica left after the commit was written, and it may become the next primary.
                why = f"Redis refused to write: {marked}"
                break
            need = max(1, len(_IN_SYNC.findall(info)) if isinstance(info, str) else 0)
            asked, self._replicas = self._replicas, need
            if not isinstance(reply, Exception):
                local, confirmed = reply if isinstance(reply, list) else (1, reply)
                if local and confirmed >= need:
                    return None
                if asked >= need:
                    break
            elif self._on_disk and "unknown command" in str(reply).lower():
                # Before Redis 7.2, a replica can only confirm that the writes are in memory.
                self._on_disk = False
            else:
                why = f"Redis cannot wait for its replicas: {reply}"
                break
            replies = await self._exchange(self._proof())
        return LedgerUnavailable(
            f'The commit may be lost: {why}. [redis] durability is "replica", so a commit only '
            "counts when the replicas have it. `signoff doctor` checks whether there is a replica."
        )


async def _replies(connection: redis.asyncio.Connection, count: int) -> list[Any]:
    """Return replies. Each may take as long as the connection's time-out, less a second.

    redis-py would start a timer for each reply, which takes as long as reading it.

    Raises:
        RedisError, OSError: Redis does not answer.
    """
    loop, patience, replies = asyncio.get_running_loop(), connection.socket_timeout, list[Any]()
    try:
        async with asyncio.timeout(patience) as timer:
            for _ in range(count):
                try:
                    replies.append(await connection.read_response(timeout=math.inf))
                except redis.exceptions.ResponseError as error:
                    replies.append(error)
                end = timer.when()
                if patience and end and end < (latest := loop.time() + patience) - 1:
                    timer.reschedule(latest)
    except TimeoutError:
        raise redis.exceptions.TimeoutError("it did not answer in time") from None
    return replies


def _packed(commands: Sequence[Command]) -> list[bytes]:
    # The stub of hiredis allows a single word only.
    return [hiredis.pack_command(command) for command in commands]  # type: ignore[arg-type]


def _is_from_replica(reply: object) -> bool:
    # Before Redis 7, the error of a script has READONLY somewhere in its text.
    return isinstance(reply, redis.exceptions.ReadOnlyError) or (
        isinstance(reply, redis.exceptions.ResponseError) and "READONLY" in str(reply)
    )


def _fail(calls: Sequence[_Call], error: BaseException) -> None:
    for call in calls:
        if not call.answer.done():
            if isinstance(error, asyncio.CancelledError):
                call.answer.cancel()
            else:
                call.answer.set_exception(error)
