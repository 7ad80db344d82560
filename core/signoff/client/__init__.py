"""A typed client of the REST API: httpx and pydantic, and nothing of a server.

`Client` and `AsyncClient` have the same methods: the one is made from the other's source.
"""

from signoff.client.asynchronous import AsyncClient
from signoff.client.errors import ApiError, ApiUnreachable
from signoff.client.models import (
    Approval,
    AuditLine,
    Comment,
    Decision,
    Entry,
    Me,
    Outcome,
    Problem,
    Run,
    Vote,
)
from signoff.client.others import Away, Figures, Grant, Person, Queue
from signoff.client.synchronous import Client

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
    "Me",
    "Outcome",
    "Person",
    "Problem",
    "Queue",
    "Run",
    "Vote",
]
