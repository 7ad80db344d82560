"""The routes of the inbox page."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.desk import Desk
from signoff.channels.inbox.approvals import ApprovalPages
from signoff.channels.inbox.away import AwayPages
from signoff.channels.inbox.batch import BatchPages
from signoff.channels.inbox.charts import ChartPages
from signoff.channels.inbox.link_pages import LinkPages
from signoff.channels.inbox.lists import ListPages
from signoff.channels.inbox.live import LivePages
from signoff.channels.inbox.moves import MovePages
from signoff.channels.inbox.oidc_pages import OidcPages
from signoff.channels.inbox.pages import ASSETS, asset
from signoff.channels.inbox.security import SecurityPages
from signoff.channels.inbox.settings import ROOT, InboxSettings
from signoff.channels.inbox.signing import SigningPages
from signoff.channels.inbox.visits import Route, Visits, go


def make_inbox_router(desk: Desk, settings: InboxSettings) -> APIRouter:
    """Return the routes of the inbox page.

    Args:
        desk: Decides.
        settings: With a url and a key.
    """
    visits, router = Visits(desk, settings), APIRouter()
    pages = ApprovalPages(desk, visits)

    async def start(_: Request) -> Response:
        return go(f"{ROOT}/")

    async def beside(request: Request) -> Response:
        return asset(request, request.url.path.rpartition("/")[2])

    company = (OidcPages(desk, visits, settings.oidc),) if settings.oidc is not None else ()
    first: tuple[Route, ...] = (("GET", "", start), *(("GET", f"/{one}", beside) for one in ASSETS))
    for method, path, handler in (
        *first,
        *SigningPages(desk, visits).routes(),
        *LinkPages(desk, visits).routes(),
        *SecurityPages(desk, visits).routes(),
        *(route for pages in company for route in pages.routes()),
        *ListPages(desk, visits).routes(),
        *LivePages(desk, visits).routes(),
        *BatchPages(desk, visits).routes(),
        *ChartPages(desk, visits).routes(),
        *AwayPages(desk, visits).routes(),
        *pages.routes(),
        *MovePages(desk, visits, pages).routes(),
    ):
        router.add_route(ROOT + path, visits.guarded(handler), methods=[method])
    return router
