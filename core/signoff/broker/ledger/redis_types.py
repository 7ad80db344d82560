"""The commands of Redis that are used here, with the types that decoded responses have.

redis-py annotates every reply as "bytes or text, old or new protocol". With
``decode_responses=True`` only text comes, and this is the one place that says so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Literal, Protocol, Self, overload

StreamRow = tuple[str, dict[str, str]]
"""The id of a stream's entry, and its fields."""


class Pipeline(Protocol):
    """Commands that go out together."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...

    def execute_command(self, *command: str | int) -> object: ...

    def get(self, name: str) -> object: ...

    def hget(self, name: str, key: str) -> object: ...

    def xrange(self, name: str, min: str, max: str) -> object: ...

    def xrevrange(self, name: str, *, count: int) -> object: ...

    def zcard(self, name: str) -> object: ...

    async def execute(self, raise_on_error: bool = True) -> list[Any]: ...


class Commands(Protocol):
    """The client."""

    async def config_get(self, pattern: str) -> dict[str, str]: ...

    async def delete(self, *names: str) -> int: ...

    async def expire(self, name: str, time: timedelta) -> bool: ...

    async def get(self, name: str) -> str | None: ...

    async def hget(self, name: str, key: str) -> str | None: ...

    async def hkeys(self, name: str) -> list[str]: ...

    async def hvals(self, name: str) -> list[str]: ...

    async def info(self, section: str) -> dict[str, Any]: ...

    async def keys(self, pattern: str) -> list[str]: ...

    async def ping(self) -> bool: ...

    async def mget(self, keys: list[str]) -> list[str | None]: ...

    def pipeline(self, *, transaction: bool) -> Pipeline: ...

    async def sadd(self, name: str, *values: str) -> int: ...

    def scan_iter(self, match: str, count: int, _type: str | None = None) -> AsyncIterator[str]: ...

    async def script_load(self, script: str) -> str: ...

    async def smembers(self, name: str) -> set[str]: ...

    async def set(self, name: str, value: str, *, px: int | None = None) -> bool | None: ...

    async def ttl(self, name: str) -> int: ...

    async def xdel(self, name: str, *ids: str) -> int: ...

    async def xrange(
        self,
        name: str,
        min: str,
        max: str,
        *,
        count: int,
    ) -> list[StreamRow]: ...

    async def xread(
        self, streams: Mapping[str, str], *, count: int | None = None, block: int | None = None
    ) -> list[tuple[str, list[StreamRow]]]: ...

    async def xrevrange(self, name: str, *, count: int) -> list[StreamRow]: ...

    async def zadd(self, name: str, mapping: Mapping[str, int], *, nx: bool = False) -> int: ...

    @overload
    async def zrange(self, name: str, start: int, end: int, *, desc: bool) -> list[str]: ...

    @overload
    async def zrange(
        self, name: str, start: int, end: int, *, desc: bool, withscores: Literal[True]
    ) -> list[tuple[str, float]]: ...

    async def zrangebylex(self, name: str, min: str, max: str) -> list[str]: ...

    async def zrangebyscore(
        self,
        name: str,
        min: str | int,
        max: str | int,
        *,
        start: int | None = None,
        num: int | None = None,
    ) -> list[str]: ...
