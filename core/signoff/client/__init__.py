"""A typed client of the REST API. It needs httpx and pydantic, but no server packages.

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
    OnCall,
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
    "OnCall",
    "Outcome",
    "Person",
    "Problem",
    "Queue",
    "Run",
    "Vote",
]


def __getattr__(name: str) -> object:
    """Import the clients on first use, because servers use only the models, without httpx."""
    if name not in {"AsyncClient", "Client"}:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from signoff.client import api  # noqa: PLC0415 -- imported on first use

    found: object = getattr(api, name)
    return found
