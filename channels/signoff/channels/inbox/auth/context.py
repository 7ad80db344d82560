"""The context of a request: its visitor, its form, its cookies, and the pages for errors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

import structlog
from pydantic import JsonValue
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.limits.throttle import Throttle
from signoff.channels.inbox.auth.browsers import browser_of
from signoff.channels.inbox.auth.factors import Factors
from signoff.channels.inbox.auth.passkey_store import has_passkey
from signoff.channels.inbox.auth.sessions import How, Session, Sessions
from signoff.channels.inbox.auth.sign_in import SignIn, TooManyAttempts
from signoff.channels.inbox.forms import LARGEST_SIGNED_IN, BadForm, read_form, require_token
from signoff.channels.inbox.settings import ROOT, InboxSettings, own_path
from signoff.channels.inbox.subscriptions import unsubscribe_marked
from signoff.channels.inbox.templating import page
from signoff.core.base.errors import LedgerError
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

TOO_MANY: Final = "Too many attempts. Try again in 15 minutes."
_NO_CODE: Final = "That code did not work. Use the next one; each works once."
_NO_FACTOR: Final = (
    "This needs a second factor, and you have none yet. Ask your Signoff operator to enrol you."
)
_NO_PASSKEY: Final = "This needs your passkey. Press its button first."
_RENAMED: Final = "signoff_session"
_WAY: Final = "signoff_way"
_REMEMBERED: Final = timedelta(days=400)
_TRIED: Final = {f"{ROOT}/sign-in": How.CODE, f"{ROOT}/sign-in/passkey": How.PASSKEY}
"""The method that a form has tried, if its response is the sign-in page."""

LIVE: Final = "signoff-live"
"""The header of requests that a page makes automatically."""

Handler = Callable[[Request], Awaitable[Response]]

Route = tuple[str, str, Handler]
"""A method, a path below the root of the pages, and the handler."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of a person who is signed in.

    Attributes:
        request: The request.
        session: The session.
        person: The person.
        notifies: Whether their browsers can be notified.
    """

    request: Request
    session: Session
    person: Person
    notifies: bool = False

    def page(self, name: str, *, status: int = 200, **context: object) -> Response:
        """Return a page for this person; see `page`."""
        mine = {"who": self.person, "session": self.session, "notifies": self.notifies}
        return page(name, status=status, **mine, **context)


@dataclass(frozen=True, slots=True)
class RequiredProof:
    """The second factors that a form accepts; without any, the person has none.

    Attributes:
        code: Whether a code from their authenticator app is accepted.
        passkey: Whether one of their passkeys is accepted.
    """

    code: bool
    passkey: bool = False


class SignInFirst(Exception):
    """Nobody is signed in."""


class NotFound(Exception):
    """There is no such page, or the visitor may not see it. The response is the same."""


class AuthContext:
    """Identifies visitors, reads their forms, and begins their sessions.

    Args:
        decisions: The people and the ledger.
        settings: The settings, with a url and a key.

    Attributes:
        settings: The settings.
        factors: The second factors.
        sessions: The sessions.
        sign_in: Checks addresses and codes.
        cookie: The name of the session's cookie.
        notified: The name of the cookie that says whom the browser notifies.
    """

    def __init__(self, decisions: Decisions, settings: InboxSettings) -> None:
        self._decisions = decisions
        self.settings = settings
        self.factors = Factors(decisions.ledger, settings.secret_key, settings.secret_key_previous)
        self.sessions = Sessions(decisions.ledger, settings)
        self.sign_in = SignIn(self.factors, Throttle(decisions.ledger.store), decisions.directory)
        # Browsers accept this prefix only over TLS, and only from this host.
        self.cookie = "__Host-signoff" if settings.secure else "signoff"
        self.notified = f"{self.cookie}-push"
        self._last = f"{self.cookie}-way"

    async def of(self, request: Request, *, used: bool = True) -> Visit:
        """Return the visitor of a request.

        It prolongs the session if it is `used`. Automatic requests of an open page never do.

        Raises:
            SignInFirst: Nobody is signed in.
        """
        name = request.cookies.get(self.cookie, "")
        session = await self.sessions.find(name, used=used and LIVE not in request.headers)
        if session is None:
            raise SignInFirst
        # Pages show who is away now, and what is frozen.
        await self._decisions.roster.refresh()
        person = self._decisions.directory.get(session.person)
        if person is None:
            raise SignInFirst
        return Visit(request, session, person, notifies=self.settings.push is not None)

    async def is_open(self, visit: Visit) -> bool:
        """Return whether a visitor is still signed in. This does not prolong the session."""
        known = self._decisions.directory.get(visit.person.id) is not None
        return known and await self.sessions.is_open(visit.session)

    async def sent(self, request: Request) -> tuple[Visit, dict[str, str]]:
        """Return the visitor of a request, and the fields of its form.

        Raises:
            SignInFirst: Nobody is signed in.
            BadForm: The form is not valid, or was not made for this session.
        """
        visit = await self.of(request)
        form = await read_form(request, origin=self.settings.url, largest=LARGEST_SIGNED_IN)
        require_token(form, visit.session.csrf)
        return visit, form

    async def unbound_form(self, request: Request) -> dict[str, str]:
        """Return the fields of a form that needs no session.

        Raises:
            BadForm: The form is not valid, or comes from another origin.
        """
        return await read_form(request, origin=self.settings.url)

    async def has_factor(self, visit: Visit) -> bool:
        """Return whether the visitor has a second factor."""
        return await self.factors.has(visit.person) or await self._has_passkey(visit)

    async def required_proof(self, visit: Visit, *, strict: bool) -> RequiredProof | None:
        """Return the second factors that a form accepts, None if it needs none now.

        A strict form needs a second factor that was given within the last minutes.
        """
        if not strict or await self.sessions.is_fresh(visit.session):
            return None
        return RequiredProof(
            code=await self.factors.has(visit.person), passkey=await self._has_passkey(visit)
        )

    async def check_proof(
        self, visit: Visit, form: Mapping[str, str], *, strict: bool
    ) -> tuple[Visit, int, str]:
        """Check the code of a form, if it needs one.

        After a correct code, the session has a new name, which the response sets as its cookie.

        Returns:
            The visitor, an HTTP status, and why the proof is missing; "" if it is not.

        Raises:
            SignInFirst: The session has ended meanwhile.
        """
        needed = await self.required_proof(visit, strict=strict)
        if needed is None:
            return visit, 200, ""
        if not needed.code:
            return visit, 403, _NO_PASSKEY if needed.passkey else _NO_FACTOR
        try:
            code, peer = form.get("code", ""), peer_of(visit.request)
            if not await self.sign_in.again(visit.person, code, peer=peer):
                return visit, 403, _NO_CODE
        except TooManyAttempts:
            return visit, 429, TOO_MANY
        return await self.record_proof(visit, "totp"), 200, ""

    async def _has_passkey(self, visit: Visit) -> bool:
        able = self.settings.has_passkeys
        return able and await has_passkey(self._decisions.ledger, visit.person)

    async def record_proof(self, visit: Visit, factor: str) -> Visit:
        """Record in the session that a second factor was given now; return the new visitor.

        Raises:
            SignInFirst: The session has ended meanwhile.
        """
        session, name = await self.sessions.prove(visit.session, factor)
        if not name:
            raise SignInFirst
        setattr(visit.request.state, _RENAMED, name)
        return replace(visit, session=session)

    async def begin(
        self,
        request: Request,
        person: Person,
        *,
        how: How,
        factor: str = "",
        also: Change | None = None,
    ) -> None:
        """Begin a session in the browser of a request, under a new name; see `Sessions.begin`.

        The earlier session of the browser ends, and so do its notifications for another person. The
        response sets the cookie.

        Raises:
            Conflict: `also` cannot be committed any more; a link was used before, for example.
        """
        name = await self.sessions.begin(
            person.id,
            how=how,
            browser=browser_of(request.headers.get("user-agent", "")),
            factor=factor,
            also=also or Change(),
        )
        await self.sessions.end(request.cookies.get(self.cookie, ""))
        await self.end_notifications(request, unless=person.id)
        setattr(request.state, _RENAMED, name)
        setattr(request.state, _WAY, how.value)

    async def end_notifications(self, request: Request, *, unless: str = "") -> None:
        """End the notifications of the browser of a request, unless they are this person's."""
        mark = request.cookies.get(self.notified, "")
        await unsubscribe_marked(self._decisions.ledger, mark, unless=unless)

    async def evidence(self, visit: Visit) -> dict[str, JsonValue]:
        """Return how the person signed in, for the audit."""
        session = visit.session
        fresh = await self.sessions.is_fresh(session)
        factor: dict[str, JsonValue] = {"second_factor": session.factor} if fresh else {}
        return {"signed_in": session.how.value, **factor}

    def sign_in_page(
        self, request: Request, to: str, *, address: str = "", status: int = 200, alert: str = ""
    ) -> Response:
        """Return the sign-in page, which leads to one of our paths.

        It begins with the method that was just tried or that this browser used last; the default is
        the mailed link.
        """
        company, ways = self.settings.oidc, self.settings.sign_in
        tried = _TRIED.get(request.url.path) if request.method == "POST" else None
        last = request.cookies.get(self._last, "")
        first = next((one for one in (tried, last, How.LINK) if one in ways), ways[0])
        return page(
            "sign_in",
            status=status,
            next=to,
            address=address,
            alert=alert,
            ways=sorted(ways, key=lambda one: one != first),
            company=company.name if company is not None else "",
            passkeys="passkey" in self.settings.sign_in and self.settings.has_passkeys,
        )

    def set_cookie(
        self, answer: Response, name: str, *, cookie: str = "", lasts: timedelta | None = None
    ) -> None:
        """Set the session's cookie, or another one."""
        answer.set_cookie(
            cookie or self.cookie,
            name,
            max_age=None if lasts is None else int(lasts.total_seconds()),
            path="/",
            secure=self.settings.secure,
            httponly=True,
            samesite="lax",
        )

    def delete_cookie(self, answer: Response) -> None:
        """Delete the cookie of the session."""
        answer.delete_cookie(
            self.cookie,
            path="/",
            secure=self.settings.secure,
            httponly=True,
            samesite="lax",
        )

    def guarded(self, handler: Handler) -> Handler:
        """Return a handler that shows errors as pages and sets the cookies of sessions."""

        async def with_pages(request: Request) -> Response:
            answer = await _response_of(handler, request)
            if name := getattr(request.state, _RENAMED, ""):
                self.set_cookie(answer, name)
            if way := getattr(request.state, _WAY, ""):
                self.set_cookie(answer, way, cookie=self._last, lasts=_REMEMBERED)
            return answer

        return with_pages


async def _response_of(handler: Handler, request: Request) -> Response:
    """Return the response of a handler, or an error page."""
    try:
        return await handler(request)
    except SignInFirst:
        if LIVE in request.headers:
            # The script would put the page of a redirect into the open one.
            return page("message", status=401, title="Signed out", text="Sign in again.")
        return go(f"{ROOT}/sign-in?next={_return_path(request)}")
    except NotFound:
        return page(
            "message",
            status=404,
            title="Not found",
            text="There is no such request, or you may not see it.",
        )
    except BadForm as error:
        return page("message", status=error.status, title="Not done", text=str(error))
    except LedgerError:
        log.exception("inbox.ledger_failed", path=request.url.path)
        return page(
            "message",
            status=503,
            title="Not available at the moment",
            text="Signoff cannot reach its database. Load the page of the request again in a "
            "minute: it shows whether your answer was recorded.",
        )


def _return_path(request: Request) -> str:
    """Return the path to show after the sign-in: that of the request, or of its form's page.

    The form itself is not sent again.
    """
    if request.method in {"GET", "HEAD"}:
        return own_path(request.url.path)
    return own_path(urlsplit(request.headers.get("referer", "")).path)


def go(path: str) -> RedirectResponse:
    """Return a redirect, which shows another page after a form."""
    return RedirectResponse(path, status_code=303)


class Pages:
    """The base of all classes of pages."""

    def __init__(self, decisions: Decisions, auth: AuthContext) -> None:
        self._decisions = decisions
        self._ledger = decisions.ledger
        self._auth = auth


def peer_of(request: Request) -> str:
    """Return the IP address of the client, "" if it is unknown."""
    return request.client.host if request.client is not None else ""
