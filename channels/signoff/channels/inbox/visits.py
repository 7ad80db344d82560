"""Visits: who is behind a request of the page, what they have sent, and what becomes of errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from signoff.broker.desk import Desk
from signoff.broker.throttle import Throttle
from signoff.channels.inbox.factors import Factors
from signoff.channels.inbox.forms import BadForm, own_path, read_form, require_token
from signoff.channels.inbox.pages import page
from signoff.channels.inbox.sessions import Session, Sessions
from signoff.channels.inbox.settings import ROOT, InboxSettings
from signoff.channels.inbox.signin import SignIn, TooManyAttempts
from signoff.core.errors import LedgerError
from signoff.core.people import Person

log = structlog.get_logger(__name__)

TOO_MANY: Final = "Too many attempts. Wait a quarter of an hour, and try again."
_NO_CODE: Final = "That code did not work. Take the next one: each counts once."

Handler = Callable[[Request], Awaitable[Response]]

Route = tuple[str, str, Handler]
"""A method, a path below the root of the pages, and what answers."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in."""

    request: Request
    session: Session
    person: Person


class SignInFirst(Exception):
    """Nobody is signed in."""


class NotFound(Exception):
    """There is no such page, or it is not for whoever asks; the two are not told apart."""


class Visits:
    """Finds out who visits, and reads what they send.

    Args:
        desk: The people and the ledger.
        settings: With a url and a key.

    Attributes:
        factors: The second factors.
        sessions: The sessions.
        sign_in: Checks who somebody is.
        cookie: The name of the session's cookie.
    """

    def __init__(self, desk: Desk, settings: InboxSettings) -> None:
        self._desk = desk
        self._settings = settings
        self.factors = Factors(desk.ledger, settings.secret_key)
        self.sessions = Sessions(desk.ledger, self.factors, settings)
        self.sign_in = SignIn(self.factors, Throttle(desk.ledger.store), desk.directory)
        # Browsers take this prefix only over TLS, and then from no other host and no other path.
        self.cookie = "__Host-signoff" if settings.secure else "signoff"

    async def of(self, request: Request) -> Visit:
        """Return the visit that a request is part of.

        Raises:
            SignInFirst: Nobody is signed in.
        """
        session = await self.sessions.find(request.cookies.get(self.cookie, ""))
        person = self._desk.directory.get(session.person) if session is not None else None
        if session is None or person is None:
            raise SignInFirst
        return Visit(request, session, person)

    async def form(self, visit: Visit) -> dict[str, str]:
        """Return the fields of a form that was made for this session.

        Raises:
            BadForm: It was not, or it is none.
        """
        form = await read_form(visit.request, origin=self._settings.url)
        require_token(form, visit.session.csrf)
        return form

    async def unbound_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form of somebody who has no session yet.

        Raises:
            BadForm: It comes from elsewhere, or it is none.
        """
        return await read_form(request, origin=self._settings.url)

    async def is_fresh(self, visit: Visit) -> bool:
        """Say whether the last code was given so lately that it stands for a decision."""
        return await self.sessions.is_fresh(visit.session)

    async def proven(self, visit: Visit, form: Mapping[str, str]) -> tuple[Visit, int, str]:
        """Take a code where the last one is long ago; return a status and why it is not taken."""
        if await self.is_fresh(visit):
            return visit, 200, ""
        try:
            code, peer = form.get("code", ""), peer_of(visit.request)
            if not await self.sign_in.again(visit.person, code, peer=peer):
                return visit, 403, _NO_CODE
        except TooManyAttempts:
            return visit, 429, TOO_MANY
        return replace(visit, session=await self.sessions.prove(visit.session)), 200, ""

    def keep(self, answer: Response, name: str) -> None:
        """Give the browser the name of its session."""
        answer.set_cookie(
            self.cookie,
            name,
            path="/",
            secure=self._settings.secure,
            httponly=True,
            samesite="lax",
        )

    def forget(self, answer: Response) -> None:
        """Take the name of its session from the browser."""
        answer.delete_cookie(
            self.cookie, path="/", secure=self._settings.secure, httponly=True, samesite="lax"
        )


def guarded(handler: Handler) -> Handler:
    """Return a handler whose errors are pages."""

    async def with_pages(request: Request) -> Response:
        try:
            return await handler(request)
        except SignInFirst:
            # What a form would have done is not done later on: it is shown again.
            path = request.url.path
            shown = path if own_path(path) == path else path.rpartition("/")[0]
            return go(f"{ROOT}/sign-in?next={own_path(shown)}")
        except NotFound:
            return page(
                "message",
                status=404,
                title="Not found",
                text="There is no such request, or you are not among those who are asked about it.",
            )
        except BadForm as error:
            return page("message", status=error.status, title="Not done", text=str(error))
        except LedgerError:
            log.exception("inbox.ledger_failed", path=request.url.path)
            return page(
                "message",
                status=503,
                title="Not now",
                text="Signoff cannot reach its ledger. Load the page of the request again in a "
                "minute: it says whether your answer was taken.",
            )

    return with_pages


def go(path: str) -> RedirectResponse:
    """Return the answer that shows another page after a form."""
    return RedirectResponse(path, status_code=303)


def peer_of(request: Request) -> str:
    """Return the address that a request came from, "" where it has none."""
    return request.client.host if request.client is not None else ""
