"""The routes of the inbox page."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.desk import Desk
from signoff.channels.inbox.approvals import ApprovalPages
from signoff.channels.inbox.away import AwayPages
from signoff.channels.inbox.link_pages import LinkPages
from signoff.channels.inbox.lists import ListPages
from signoff.channels.inbox.pages import style
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

    async def start(_: Request) -> Response:
        return go(f"{ROOT}/")

    async def style_sheet(_: Request) -> Response:
        return style()

    assets: tuple[Route, ...] = (("GET", "", start), ("GET", "/style.css", style_sheet))
    for method, path, handler in (
        *assets,
        *SigningPages(desk, visits).routes(),
        *LinkPages(desk, visits).routes(),
        *ListPages(desk, visits).routes(),
        *AwayPages(desk, visits).routes(),
        *ApprovalPages(desk, visits).routes(),
    ):
        router.add_route(ROOT + path, visits.guarded(handler), methods=[method])
    return router
