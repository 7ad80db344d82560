"""The pages that list approvals."""

from __future__ import annotations

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.desk import Desk
from signoff.channels.inbox.pages import page
from signoff.channels.inbox.views import is_for, line
from signoff.channels.inbox.visits import Route, Visits


class ListPages:
    """Shows what waits.

    Args:
        desk: The ledger and the people.
        visits: Who looks.
    """

    def __init__(self, desk: Desk, visits: Visits) -> None:
        self._desk = desk
        self._visits = visits

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (("GET", "/", self.waiting),)

    async def waiting(self, request: Request) -> Response:
        """Show what waits for whoever is signed in."""
        visit = await self._visits.of(request)
        person, directory = visit.person, self._desk.directory
        found = await self._desk.ledger.inbox(person.id)
        lines = [line(one, person, directory) for one in found if is_for(one, person, directory)]
        return page("waiting", who=person, session=visit.session, lines=lines)
