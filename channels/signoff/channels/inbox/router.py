"""The routes of the inbox page."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from signoff.broker.decisions import Decisions
from signoff.channels.inbox.auth.context import AuthContext, Route, go
from signoff.channels.inbox.auth.link_pages import LinkPages
from signoff.channels.inbox.auth.security import SecurityPages
from signoff.channels.inbox.auth.sign_in_pages import SignInPages
from signoff.channels.inbox.pages.approval import ApprovalPages
from signoff.channels.inbox.pages.away import AwayPages
from signoff.channels.inbox.pages.batch import BatchPages
from signoff.channels.inbox.pages.decisions import MovePages
from signoff.channels.inbox.pages.lists import ListPages
from signoff.channels.inbox.pages.live import HEARTBEAT, LivePages
from signoff.channels.inbox.pages.metrics import ChartPages
from signoff.channels.inbox.pages.notifications import NotificationPages
from signoff.channels.inbox.settings import ROOT, InboxSettings
from signoff.channels.inbox.templating import ASSETS, asset, page


def make_inbox_router(
    decisions: Decisions, settings: InboxSettings, *, heartbeat: float = HEARTBEAT
) -> Router:
    """Return the routes of the inbox page.

    Args:
        decisions: Makes the moves.
        settings: The settings, with a url and a key.
        heartbeat: See `LivePages`.
    """
    auth, router = AuthContext(decisions, settings), Router()
    pages = ApprovalPages(decisions, auth)

    async def start(_: Request) -> Response:
        return go(f"{ROOT}/")

    async def static_file(request: Request) -> Response:
        return asset(request, request.url.path.rpartition("/")[2])

    async def offline(_: Request) -> Response:
        return page("offline")

    further: Sequence[Route] = ()
    if settings.oidc is not None:
        from signoff.channels.inbox.auth.oidc_pages import OidcPages  # noqa: PLC0415 -- Authlib

        further = OidcPages(decisions, auth, settings.oidc).routes()
    if (push := settings.push) is not None:
        further = (*further, *NotificationPages(decisions, auth, push).routes())
    first: tuple[Route, ...] = (
        ("GET", "", start),
        ("GET", "/offline", offline),
        *(("GET", f"/{one}", static_file) for one in ASSETS),
    )
    for method, path, handler in (
        *first,
        *SignInPages(decisions, auth).routes(),
        *LinkPages(decisions, auth).routes(),
        *SecurityPages(decisions, auth).routes(),
        *further,
        *ListPages(decisions, auth).routes(),
        *LivePages(decisions, auth, heartbeat=heartbeat).routes(),
        *BatchPages(decisions, auth).routes(),
        *ChartPages(decisions, auth).routes(),
        *AwayPages(decisions, auth).routes(),
        *pages.routes(),
        *MovePages(decisions, auth, pages).routes(),
    ):
        router.add_route(ROOT + path, auth.guarded(handler), methods=[method])
    # For people who type only the host name.
    router.add_route("/", auth.guarded(start), methods=["GET"])
    return router


def missing() -> Response:
    """Return the page for an unknown address below the root."""
    text = "There is no such page. The address may be incomplete."
    return page("message", status=HTTPStatus.NOT_FOUND, title="Not found", text=text)
