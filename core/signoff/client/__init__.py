"""A typed client of the REST API: httpx and pydantic, and nothing of a server.

`Client` and `AsyncClient` have the same methods, with and without asyncio.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from signoff.client.errors import ApiError, ApiUnreachable
from signoff.client.models import (
    Approval,
    AuditLine,
    Away,
    Comment,
    Decision,
    Entry,
    Figures,
    Grant,
    Left,
    Me,
    Outcome,
    Person,
    Problem,
    Queue,
    Run,
    Vote,
)

if TYPE_CHECKING:
    from signoff.client.api import AsyncClient, Client

__all__ = [
    "ApiError",
    "ApiUnreachable",
    "Approval",
    "AsyncClient",
    "AuditLine",
    "Away",
    "Client",
    "Comment",
    "Decision",
    "Entry",
    "Figures",
    "Grant",
    "Left",
    "Me",
    "Outcome",
    "Person",
    "Problem",
    "Queue",
    "Run",
    "Vote",
]


def __getattr__(name: str) -> object:
    """Import the clients when they are asked for: servers take the models alone, without httpx."""
    if name not in {"AsyncClient", "Client"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from signoff.client import api  # noqa: PLC0415 -- that is what this is for

    found: object = getattr(api, name)
    return found
