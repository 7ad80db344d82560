"""Requests of the REST API as values, and the rules for sending them.

This module does no I/O. `signoff.client.transports` sends the requests, with and without asyncio.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Generic, TypeVar
from urllib.parse import quote

import httpx
from pydantic import TypeAdapter, ValidationError

from signoff.client.errors import ApiError, ApiUnreachable
from signoff.client.models import Page, Problem

T = TypeVar("T")

JSON: Final = "application/json"
LINES: Final = "application/jsonl"

LONGEST_PAUSE: Final = 10.0
"""The longest pause between two tries, in seconds."""

LONGEST_WAIT: Final = 60.0
"""The longest pause after a 429, in seconds; the rate limit counts requests per minute."""

_UNAVAILABLE: Final = frozenset({502, 503, 504})
"""503 is Redis that is down; a proxy sends the others if it has lost the gateway's response."""

_TOO_MANY: Final = 429


@dataclass(frozen=True, slots=True)
class Request(Generic[T]):
    """One request, and the type of its answer.

    Attributes:
        method: The HTTP method.
        path: The path below ``/api/v1``.
        answer: The type of the answer.
        params: The query.
        json: The body, or None.
        headers: Further headers.
    """

    method: str
    path: str
    answer: type[T]
    params: Mapping[str, Any] = field(default_factory=dict)
    json: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    def parts(self) -> dict[str, Any]:
        """Return the arguments of httpx's `request`."""
        return {
            "method": self.method,
            "url": self.path,
            "params": self.params,
            "json": self.json,
            "headers": self.headers,
        }

    def read(self, response: httpx.Response | httpx.TransportError) -> T:
        """Return the answer.

        Raises:
            ApiError: The gateway refused the request, or another server has answered.
            ApiUnreachable: There is no response.
        """
        if isinstance(response, httpx.TransportError):
            raise unreachable(response) from response
        check(response, JSON)
        try:
            return TypeAdapter(self.answer).validate_json(response.content)
        except ValidationError as error:
            raise _of_another_server(response) from error


@dataclass(frozen=True, slots=True)
class Pages(Generic[T]):
    """A list that comes in pages.

    Attributes:
        path: The path below ``/api/v1``.
        item: The type of an item.
        params: The query.
    """

    path: str
    item: type[T]
    params: Mapping[str, Any] = field(default_factory=dict)

    def first(self) -> Request[Page[T]]:
        """Return the request for the first page."""
        page = Page[self.item]  # type: ignore[name-defined]
        return Request("GET", self.path, page, params={**self.params, "limit": 100})

    def following(self, request: Request[Page[T]], page: Page[T]) -> Request[Page[T]] | None:
        """Return the request for the page after this one, or None at the end."""
        if page.next is None:
            return None
        return replace(request, params={**request.params, "cursor": page.next})


@dataclass(frozen=True, slots=True)
class Lines(Generic[T]):
    """A list that comes as a stream of JSON lines.

    Attributes:
        path: The path below ``/api/v1``.
        item: The type of a line.
        params: The query.
    """

    path: str
    item: type[T]
    params: Mapping[str, Any] = field(default_factory=dict)

    def reader(self) -> Callable[[bytes], list[T]]:
        """Return a function that takes a chunk of the stream and returns the lines that it ends.

        Lines end with line feeds alone: JSON may contain other line separators.
        """
        line_type, rest = TypeAdapter(self.item), b""

        def read(chunk: bytes) -> list[T]:
            nonlocal rest
            *whole, rest = (rest + chunk).split(b"\n")
            return [line_type.validate_json(line) for line in whole]

        return read


def get(path: str, answer: type[T]) -> Request[T]:
    """Return a GET request."""
    return Request("GET", path, answer)


def post(path: str, answer: type[T], body: Mapping[str, Any], key: str) -> Request[T]:
    """Return a POST request, which the gateway carries out once even if it is sent repeatedly.

    Args:
        path: The path below ``/api/v1``.
        answer: The type of the answer.
        body: The body.
        key: The idempotency key, or "" for a new one.
    """
    headers = {"Idempotency-Key": key or str(uuid.uuid4())}
    return Request("POST", path, answer, json=body, headers=headers)


def quoted(name: str) -> str:
    """Return a name as one segment of a path."""
    return quote(name, safe=":@")


def given(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 -- any value of a query
    """Return the parameters that are set."""
    return {name: part for name, part in parts.items() if part not in ("", None)}


def connection(url: str, token: str, timeout: float) -> dict[str, Any]:
    """Return the arguments of httpx's client."""
    base = url.rstrip("/")
    return {
        "base_url": base if base.endswith("/api/v1") else f"{base}/api/v1",
        "headers": {"Authorization": f"Bearer {token}", "Accept": "application/json"},
        "timeout": timeout,
    }


def pause_before(attempt: int, response: httpx.Response | httpx.TransportError) -> float:
    """Return the seconds to wait before the next try, or 0 if the request must not be repeated.

    Args:
        attempt: The number of tries so far.
        response: The response to the last try, or the error of the transport.
    """
    pause = min(0.25 * 2.0**attempt, LONGEST_PAUSE)
    if isinstance(response, httpx.TransportError):
        return pause
    if response.status_code in _UNAVAILABLE | {_TOO_MANY}:
        longest = LONGEST_WAIT if response.status_code == _TOO_MANY else LONGEST_PAUSE
        after = response.headers.get("retry-after", "")
        named = float(after) if after.isascii() and after.isdigit() else 0.0
        return min(named, longest) if named else pause
    in_flight = response.status_code == 409 and response.text.find(":in-flight") > 0
    return pause if in_flight else 0.0


def check(response: httpx.Response, kind: str) -> None:
    """Check that a response is a success with content of a kind.

    Args:
        response: The response; the body of one that is no success must have been read.
        kind: The media type.

    Raises:
        ApiError: It is none; the error has the problem document.
    """
    if response.is_success:
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() != kind:
            raise _of_another_server(response)
        return
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        # A proxy in front of the gateway answered.
        title = response.reason_phrase or "No problem document"
        problem = Problem(
            type="about:blank",
            title=f"{response.status_code} {title}",
            status=response.status_code,
        )
    raise ApiError(problem)


def _of_another_server(response: httpx.Response) -> ApiError:
    """Return the error for a success that no gateway sends."""
    detail = (
        f"{response.request.url} did not answer as the API does. Look whether a proxy or a sign-in "
        "page answers, and whether the gateway and this client are of the same release."
    )
    title = "The answer is of another server"
    kind, status = "about:blank", response.status_code
    return ApiError(Problem(type=kind, title=title, status=status, detail=detail))


def unreachable(error: httpx.TransportError) -> ApiUnreachable:
    """Return the client's error for an error of httpx."""
    return ApiUnreachable(
        f"The gateway cannot be reached: {error or type(error).__name__}. Is it running at this "
        "URL, and does it serve /api/v1 ([gateway] api)?"
    )
