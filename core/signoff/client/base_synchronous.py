"""How the client for programs that wait asks; `make docs` makes it from the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
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


class Asking:
    """Sends requests, and sends those again whose answers are lost; see the client."""

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
        self._http = httpx.Client(
            base_url=base_of(url), headers=headers_of(token), timeout=timeout, transport=transport
        )

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

    def _pages(self, path: str, kind: type[T], wanted: Mapping[str, Any]) -> Iterator[T]:
        cursor: str | None = ""
        while cursor is not None:
            answer = self._send("GET", path, params={**wanted, "cursor": cursor})
            page = Page[kind].model_validate_json(answer.content)  # type: ignore[valid-type]
            for one in page.items:
                yield one
            cursor = page.next

    def _lines(self, path: str, wanted: Mapping[str, Any]) -> Iterator[bytes]:
        try:
            with self._http.stream("GET", path, params=dict(wanted)) as answer:
                if not answer.is_success:
                    answer.read()
                    checked(answer)
                lines = Lines()
                for chunk in answer.iter_bytes():
                    for line in lines.take(chunk):
                        yield line
        except httpx.TransportError as error:
            raise _unreachable(error) from error

    def _post(self, path: str, body: Mapping[str, Any], key: str) -> httpx.Response:
        return self._send("POST", path, json=body, headers=key_of(key))

    def _send(self, method: str, path: str, **parts: Any) -> httpx.Response:  # noqa: ANN401 -- as httpx has it
        for attempt in range(1, self._tries + 1):
            answer, problem = None, None
            try:
                answer = self._http.request(method, path, **parts)
            except httpx.TransportError as error:
                problem = error
            pause = pause_before(attempt, answer)
            if not pause or attempt == self._tries:
                break
            time.sleep(pause)
        if answer is None:
            raise _unreachable(problem) from problem
        return checked(answer)


def _unreachable(error: Exception | None) -> ApiUnreachable:
    return ApiUnreachable(
        f"The gateway cannot be reached: {error or type(error).__name__}. Is it running at this "
        "URL, and does it serve /api/v1 ([gateway] api)?"
    )
