"""A typed client of the REST API: httpx and pydantic, and nothing of a server.

`Client` and `AsyncClient` have the same methods, with and without asyncio.
"""

from signoff.client.api import AsyncClient, Client
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
