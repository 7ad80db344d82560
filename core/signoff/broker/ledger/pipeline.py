"""One round trip for what many coroutines of a process ask of Redis at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from signoff.broker.ledger.redis_types import Commands, Pipeline
from signoff.broker.server.redis_py import redis
from signoff.core.base.errors import LedgerUnavailable

Command = tuple[str | int, ...]

_MOST = 256
"""Commands in one round trip; more would make everybody wait for everybody."""

_PATIENCE_MS = 3000
"""How long a commit waits for the replica; under the socket timeout of the client."""


_PROOFS = 3
"""How often to ask, where the server knows less than was asked, or has more replicas."""


class _Call(NamedTuple):
    commands: Sequence[Command]
    answer: asyncio.Future[list[Any]]
    durable: bool


class Wire:
    """Sends the commands of those who call while a round trip is under way together in the next.

    Two thirds of what a small command costs is the round trip around it: the task switches and
    system calls on both sides and, with `appendfsync always`, a write to the disk. Who calls alone
    is sent at once.

    The commands stay separate: they are not a transaction, and one that fails fails alone.

    Args:
        client: Its retries apply to a round trip as a whole, so each command must bear to be sent
            again.
        mark: A key that is written before replicas are waited for; "" waits for none. WAIT looks at
            what its own connection has written: a commit that is recognised on another connection,
            or was refused because an earlier one was done, writes nothing itself.
        connect_anew: Called when the server seems not to be the primary any more.
    """

    def __init__(
        self,
        client: Commands,
        *,
        mark: str = "",
        connect_anew: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self._client = client
        self._mark = mark
        self._connect_anew = connect_anew
        self._on_disk = True
        self._replicas = 1
        self._calls: list[_Call] = []
        self._flight: asyncio.Task[None] | None = None

    async def send(self, commands: Sequence[Command], *, durable: bool = False) -> list[Any]:
        """Return the replies; a command that Redis refused has its exception there.

        A caller who is cancelled before their commands have gone out has sent nothing.

        Args:
            commands: What to send.
            durable: Whether a replica has to have what was written, where one is waited for.

        Raises:
            RedisError, OSError: Redis cannot be reached.
            LedgerUnavailable: No replica has confirmed what was written. It may stay written.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        self._calls.append(_Call(commands, answer, durable and bool(self._mark)))
        flight = self._flight
        if flight is None or flight.done() or flight.get_loop() is not loop:
            self._flight = loop.create_task(self._fly(), name="signoff-wire")
        return await answer

    async def _fly(self) -> None:
        while calls := self._board():
            try:
                await self._round_trip(calls)
            except (redis.exceptions.DataError, UnicodeError):
                # Something that cannot be put on the wire; nothing has gone out. Whose is it?
                for call in calls:
                    await self._alone(call)
            except (redis.exceptions.RedisError, OSError) as error:
                _fail(calls, error)
            except BaseException as error:
                _fail(calls, error)
                raise

    def _board(self) -> list[_Call]:
        """Take the calls of the next round trip, the oldest first."""
        calls: list[_Call] = []
        room = _MOST
        while self._calls and (not calls or len(self._calls[0].commands) <= room):
            call = self._calls.pop(0)
            if not call.answer.done():
                calls.append(call)
                room -= len(call.commands)
        return calls

    async def _alone(self, call: _Call) -> None:
        try:
            await self._round_trip([call])
        except (redis.exceptions.RedisError, OSError, UnicodeError) as error:
            _fail([call], error)

    async def _round_trip(self, calls: Sequence[_Call]) -> None:
        durable = any(call.durable for call in calls)
        async with self._client.pipeline(transaction=False) as pipe:
            for call in calls:
                for command in call.commands:
                    pipe.execute_command(*command)
            if durable:
                self._prove(pipe)
            replies = await pipe.execute(raise_on_error=False)
        missing = await self._missing(replies) if durable else None
        if self._connect_anew and (missing or any(_is_from_replica(one) for one in replies)):
            await self._connect_anew()
        start = 0
        for call in calls:
            end = start + len(call.commands)
            if call.durable and missing is not None:
                _fail([call], missing)
            elif not call.answer.done():
                call.answer.set_result(replies[start:end])
            start = end

    def _prove(self, pipe: Pipeline) -> None:
        """Wait until the replicas have it, and, where the server can say so, have it on disk."""
        pipe.execute_command("SET", self._mark, "1")
        pipe.execute_command("INFO", "replication")
        if self._on_disk:
            pipe.execute_command("WAITAOF", 1, self._replicas, _PATIENCE_MS)
        else:
            pipe.execute_command("WAIT", self._replicas, _PATIENCE_MS)

    async def _missing(self, replies: list[Any]) -> LedgerUnavailable | None:
        """Return why a round trip does not count; None when the replicas have confirmed it.

        All that are attached have to: Sentinels choose among them by what they knew of each some
        seconds ago, so one of two that is behind could become the primary.
        """
        why = "no replica of Redis has confirmed it in time"
        for _ in range(_PROOFS):
            marked, info, reply = replies[-3:]
            if isinstance(marked, Exception):
                # Behind the writing a replica has left: it may be the next primary.
                why = f"Redis has refused to write: {marked}"
                break
            need = max(1, _attached(info))
            asked, self._replicas = self._replicas, need
            if not isinstance(reply, Exception):
                local, confirmed = reply if isinstance(reply, list) else (1, reply)
                if local and confirmed >= need:
                    return None
                if asked >= need:
                    break
            elif self._on_disk and "unknown command" in str(reply).lower():
                # Before Redis 7.2 a replica says only that it has it in memory.
                self._on_disk = False
            else:
                why = f"Redis cannot wait for its replicas: {reply}"
                break
            async with self._client.pipeline(transaction=False) as pipe:
                self._prove(pipe)
                replies = await pipe.execute(raise_on_error=False)
        return LedgerUnavailable(
            f'It may not be kept: {why}. [redis] durability is "replica", so nothing counts before '
            "the replicas have it. `signoff doctor` says whether there is one."
        )


def _attached(info: object) -> int:
    """Return how many replicas have all that the primary has, as it says itself, and follow it."""
    rows = info.values() if isinstance(info, dict) else ()
    return sum(isinstance(one, dict) and one.get("state") == "online" for one in rows)


def _is_from_replica(reply: object) -> bool:
    # Before Redis 7 the error of a script has it somewhere in its text.
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
