"""How the client asks; the form for programs that wait is made from this one by `make docs`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx
from pydantic import BaseModel

from signoff.client.errors import ApiUnreachable
from signoff.client.models import Page
from signoff.client.reading import (
    Lines,
    base_of,
    checked,
    headers_of,
    key_of,
    pause_before,
)

T = TypeVar("T", bound=BaseModel)


class AsyncAsking:
    """Sends requests, and sends those again whose answers are lost; see the client."""

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
        self._http = httpx.AsyncClient(
            base_url=base_of(url), headers=headers_of(token), timeout=timeout, transport=transport
        )

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

    async def _pages(self, path: str, kind: type[T], wanted: Mapping[str, Any]) -> AsyncIterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            answer = await self._send("GET", path, params={**wanted, "cursor": cursor})
            page = Page[kind].model_validate_json(answer.content)  # type: ignore[valid-type]
            for one in page.items:
                yield one
            cursor = page.next

    async def _lines(self, path: str, wanted: Mapping[str, Any]) -> AsyncIterator[bytes]:
        try:
            async with self._http.stream("GET", path, params=dict(wanted)) as answer:
                if not answer.is_success:
                    await answer.aread()
                    checked(answer)
                lines = Lines()
                async for chunk in answer.aiter_bytes():
                    for line in lines.take(chunk):
                        yield line
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    async def _post(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Response:
        return await self._send("POST", path, json=body, headers=key_of(key))

    async def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:  # noqa: ANN401 -- as httpx has it
        for attempt in range(1, self._tries + 1):
            answer, problem = None, None
            try:
                answer = await self._http.request(method, path, **parts)
            except httpx.TransportError as error:
                problem = error
            pause = pause_before(attempt, answer)
            if not pause or attempt == self._tries:
                break
            await asyncio.sleep(pause)
        if answer is None:
            raise _unreachable(problem) from problem
        return checked(answer)


def _unreachable(error: Exception | None) -> ApiUnreachable:
    return ApiUnreachable(
        f"The gateway cannot be reached: {error or type(error).__name__}. Is it running at this "
        "URL, and does it serve /api/v1 ([gateway] api)?"
    )
