"""What the two clients have in common: how an answer is read, and when it is asked for again."""

from __future__ import annotations

import uuid
from typing import Any, Final
from urllib.parse import quote

import httpx
from pydantic import ValidationError

from signoff.client.errors import ApiError
from signoff.client.models import Problem

LONGEST_PAUSE: Final = 10.0
"""Seconds between two tries, at the most."""

LONGEST_WAIT: Final = 60.0
"""Seconds to wait, at the most, where there were too many requests: the limit is by the minute."""

_UNAVAILABLE: Final = 503
_TOO_MANY: Final = 429


class Lines:
    """Puts lines together from the pieces in which they come.

    They end with line feeds alone: in JSON there may be other ends of lines.
    """

    def __init__(self) -> None:
        self._rest = b""

    def take(self, piece: bytes) -> list[bytes]:
        """Return the lines that end in a piece."""
        *whole, self._rest = (self._rest + piece).split(b"\n")
        return whole


def quoted(name: str) -> str:
    """Return a name as one part of a path."""
    return quote(name, safe=":@")


def base_of(url: str) -> str:
    """Return the URL of the API below the URL of a gateway, or as it is."""
    return url.rstrip("/") + ("" if url.rstrip("/").endswith("/api/v1") else "/api/v1")


def headers_of(token: str) -> dict[str, str]:
    """Return the headers of every request."""
    return {"Authorization": f"Bearer {token}", "Accept": "application/json"}


def key_of(key: str) -> dict[str, str]:
    """Return the header that has a request carried out once; a new key where none is given."""
    return {"Idempotency-Key": key or str(uuid.uuid4())}


def without_defaults(**parts: Any) -> dict[str, Any]:  # noqa: ANN401 -- whatever goes into a query
    """Return what was given."""
    return {name: part for name, part in parts.items() if part not in ("", None)}


def pause_before(attempt: int, response: httpx.Response | None) -> float:
    """Return how many seconds to wait before another try; 0 where there is none to be made.

    Args:
        attempt: How many tries there have been.
        response: What came, None where nothing did.
    """
    pause = min(0.25 * 2.0**attempt, LONGEST_PAUSE)
    if response is None:
        return pause
    if response.status_code in {_UNAVAILABLE, _TOO_MANY}:
        longest = LONGEST_WAIT if response.status_code == _TOO_MANY else LONGEST_PAUSE
        after = response.headers.get("retry-after", "")
        return min(float(after), longest) if after.isdigit() and int(after) else pause
    in_flight = response.status_code == 409 and response.text.find(":in-flight") > 0
    return pause if in_flight else 0.0


def checked(response: httpx.Response) -> httpx.Response:
    """Return a response whose body is there, if it is one that was wanted.

    Raises:
        ApiError: It says why not.
    """
    if response.is_success:
        return response
    try:
        problem = Problem.model_validate_json(response.content)
    except ValidationError:
        # Something in front of the gateway has answered.
        title = response.reason_phrase or "No problem document"
        problem = Problem(
            type="about:blank",
            title=f"{response.status_code} {title}",
            status=response.status_code,
        )
    raise ApiError(problem)
