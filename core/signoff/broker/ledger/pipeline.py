"""One round trip for what many coroutines of a process ask of Redis at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import redis.exceptions

from signoff.broker.ledger.redis_types import Commands

Command = tuple[str | int, ...]

_MOST = 256
"""Commands in one round trip; more would make everybody wait for everybody."""

_Call = tuple[Sequence[Command], asyncio.Future[list[Any]]]


class Wire:
    """Sends the commands of those who call while a round trip is under way together in the next.

    Two thirds of what a small command costs is the round trip around it: the task switches and
    system calls on both sides and, with `appendfsync always`, a write to the disk. Who calls alone
    is sent at once.

    Each command stays by itself: they are not a transaction, and one that fails fails alone.

    Args:
        client: Its retries apply to a round trip as a whole, so each command must bear to be sent
            again.
    """

    def __init__(self, client: Commands) -> None:
        self._client = client
        self._calls: list[_Call] = []
        self._flight: asyncio.Task[None] | None = None

    async def send(self, commands: Sequence[Command]) -> list[Any]:
        """Return the replies; a command that Redis refused has its exception there.

        A caller who is cancelled before his commands have gone out has sent nothing.

        Raises:
            RedisError, OSError: Redis cannot be reached.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()
        self._calls.append((commands, answer))
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
        while self._calls and (not calls or len(self._calls[0][0]) <= room):
            call = self._calls.pop(0)
            if not call[1].done():
                calls.append(call)
                room -= len(call[0])
        return calls

    async def _alone(self, call: _Call) -> None:
        try:
            await self._round_trip([call])
        except (redis.exceptions.RedisError, OSError, UnicodeError) as error:
            _fail([call], error)

    async def _round_trip(self, calls: Sequence[_Call]) -> None:
        async with self._client.pipeline(transaction=False) as pipe:
            for commands, _ in calls:
                for command in commands:
                    pipe.execute_command(*command)
            replies = await pipe.execute(raise_on_error=False)
        start = 0
        for commands, answer in calls:
            end = start + len(commands)
            if not answer.done():
                answer.set_result(replies[start:end])
            start = end


def _fail(calls: Sequence[_Call], error: BaseException) -> None:
    for _, answer in calls:
        if not answer.done():
            if isinstance(error, asyncio.CancelledError):
                answer.cancel()
            else:
                answer.set_exception(error)
