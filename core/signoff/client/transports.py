"""Sends the requests of the API with and without asyncio, and turns them into methods.

`signoff.client.api` has one method for each operation of the API. The method only describes the
request. `Method` and `Listing` turn it into a synchronous method in a `Client`, and into a
coroutine or an asynchronous iterator in an `AsyncClient`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from functools import wraps
from types import MethodType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, overload

import httpx

from signoff.client.models import Page
from signoff.client.requests import (
    LINES,
    Lines,
    Pages,
    Request,
    check,
    connection,
    pause_before,
    unreachable,
)

P = ParamSpec("P")
T = TypeVar("T")


class Transport:
    """Sends requests, and repeats those whose response is lost; see `Client`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30,
        tries: int = 4,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._tries = tries
        self._http = httpx.Client(**connection(url, token, timeout), transport=transport)

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def send(self, request: Request[T]) -> T:
        """Send a request and return its answer."""
        response: httpx.Response | httpx.TransportError
        for attempt in range(1, self._tries + 1):
            try:
                response = self._http.request(**request.parts())
            except httpx.TransportError as error:
                response = error
            pause = pause_before(attempt, response)
            if not pause or attempt == self._tries:
                break
            time.sleep(pause)
        return request.read(response)

    def every(self, listed: Pages[T] | Lines[T]) -> Iterator[T]:
        """Yield the items of a list."""
        if isinstance(listed, Lines):
            yield from self._lines(listed)
            return
        request: Request[Page[T]] | None = listed.first()
        while request is not None:
            page = self.send(request)
            yield from page.items
            request = listed.following(request, page)

    def _lines(self, listed: Lines[T]) -> Iterator[T]:
        try:
            with self._http.stream("GET", listed.path, params=listed.params) as response:
                if not response.is_success:
                    response.read()
                check(response, LINES)
                read = listed.reader()
                for chunk in response.iter_bytes():
                    yield from read(chunk)
        except httpx.TransportError as error:
            raise unreachable(error) from error


class AsyncTransport:
    """Sends requests with asyncio; otherwise like `Transport`."""

    def __init__(
        self,
        url: str,
        token: str,
        *,
        timeout: float = 30,
        tries: int = 4,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._tries = tries
        self._http = httpx.AsyncClient(**connection(url, token, timeout), transport=transport)

    async def __aenter__(self) -> Self:
        """Return the client."""
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connections."""
        await self.aclose()

    async def aclose(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def send(self, request: Request[T]) -> T:
        """Send a request and return its answer."""
        response: httpx.Response | httpx.TransportError
        for attempt in range(1, self._tries + 1):
            try:
                response = await self._http.request(**request.parts())
            except httpx.TransportError as error:
                response = error
            pause = pause_before(attempt, response)
            if not pause or attempt == self._tries:
                break
            await asyncio.sleep(pause)
        return request.read(response)

    async def every(self, listed: Pages[T] | Lines[T]) -> AsyncIterator[T]:
        """Yield the items of a list."""
        if isinstance(listed, Lines):
            async for line in self._lines(listed):
                yield line
            return
        request: Request[Page[T]] | None = listed.first()
        while request is not None:
            page = await self.send(request)
            for item in page.items:
                yield item
            request = listed.following(request, page)

    async def _lines(self, listed: Lines[T]) -> AsyncIterator[T]:
        try:
            async with self._http.stream("GET", listed.path, params=listed.params) as response:
                if not response.is_success:
                    await response.aread()
                check(response, LINES)
                read = listed.reader()
                async for chunk in response.aiter_bytes():
                    for line in read(chunk):
                        yield line
        except httpx.TransportError as error:
            raise unreachable(error) from error


class Method(Generic[P, T]):
    """A method that returns one answer, made from a function that describes the request."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Request[T]]) -> None:
        @wraps(describe)
        def method(self: Transport, /, *args: P.args, **more: P.kwargs) -> T:
            return self.send(describe(self, *args, **more))

        @wraps(describe)
        async def coroutine(self: AsyncTransport, /, *args: P.args, **more: P.kwargs) -> T:
            return await self.send(describe(self, *args, **more))

        self._functions = (method, coroutine)

    @overload
    def __get__(self, client: Transport, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(
        self, client: AsyncTransport, owner: type
    ) -> Callable[P, Coroutine[Any, Any, T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: object, owner: type) -> Callable[..., Any]:
        """Return the method in the form of the client's class."""
        return _bound(self._functions[issubclass(owner, AsyncTransport)], client)


class Listing(Generic[P, T]):
    """A method that yields the items of a list, made from a function that describes the list."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Pages[T] | Lines[T]]) -> None:
        @wraps(describe)
        def method(self: Transport, /, *args: P.args, **more: P.kwargs) -> Iterator[T]:
            yield from self.every(describe(self, *args, **more))

        @wraps(describe)
        async def generator(
            self: AsyncTransport, /, *args: P.args, **more: P.kwargs
        ) -> AsyncIterator[T]:
            async for item in self.every(describe(self, *args, **more)):
                yield item

        self._functions = (method, generator)

    @overload
    def __get__(self, client: Transport, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncTransport, owner: type) -> Callable[P, AsyncIterator[T]]: ...
    @overload
    def __get__(self, client: None, owner: type) -> Callable[..., Any]: ...
    def __get__(self, client: object, owner: type) -> Callable[..., Any]:
        """Return the method in the form of the client's class."""
        return _bound(self._functions[issubclass(owner, AsyncTransport)], client)


def _bound(function: Callable[..., Any], client: object) -> Callable[..., Any]:
    return function if client is None else MethodType(function, client)
