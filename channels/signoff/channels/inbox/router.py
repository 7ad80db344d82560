"""The routes of the inbox page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from signoff.broker.change import Change
from signoff.broker.desk import Desk
from signoff.broker.throttle import Throttle
from signoff.channels.inbox.away import Away
from signoff.channels.inbox.factors import Factors
from signoff.channels.inbox.forms import BadForm, own_path, read_form, require_token
from signoff.channels.inbox.pages import page, style
from signoff.channels.inbox.sessions import Session, Sessions
from signoff.channels.inbox.settings import CHANNEL, ROOT, InboxSettings, page_of
from signoff.channels.inbox.signin import SignIn, TooManyAttempts
from signoff.channels.inbox.views import Stage, is_for, line, view
from signoff.core.approval import Approval
from signoff.core.command import LONGEST_REASON
from signoff.core.errors import (
    AbsenceRefused,
    ApprovalNotFound,
    DecisionRefused,
    LedgerError,
    PayloadError,
    RecordUnreadable,
)
from signoff.core.events import What
from signoff.core.payload import parse_values
from signoff.core.people import Person
from signoff.core.text import clean_text

log = structlog.get_logger(__name__)

_WRONG: Final = (
    "That did not work. Check the address and the code, and take the next code: each counts once. "
    "If you have no authenticator app for Signoff yet, ask whoever runs it."
)
_TOO_MANY: Final = "Too many attempts. Wait a quarter of an hour, and try again."
_NO_CODE: Final = "That code did not work. Take the next one: each counts once."

Handler = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who is signed in."""

    request: Request
    session: Session
    person: Person


class _SignInFirst(Exception):
    """Nobody is signed in."""


class _NotFound(Exception):
    """There is no such page, or it is not for whoever asks; the two are not told apart."""


class Inbox:
    """The pages, over the desk that decides.

    Args:
        desk: Decides.
        settings: With a url and a key.
    """

    def __init__(self, desk: Desk, settings: InboxSettings) -> None:
        self._desk = desk
        self._ledger = desk.ledger
        self._settings = settings
        self._factors = Factors(desk.ledger, settings.secret_key)
        self._sessions = Sessions(desk.ledger, self._factors, settings)
        self._away = Away(desk)
        self._sign_in = SignIn(self._factors, Throttle(desk.ledger.store), desk.directory)
        # Browsers take this prefix only over TLS, and then from no other host and no other path.
        self._cookie = "__Host-signoff" if settings.secure else "signoff"

    # -- signing in and out --------------------------------------------------------------------

    async def sign_in_page(self, request: Request) -> Response:
        """Show the form to sign in."""
        return page("sign_in", next=own_path(request.query_params.get("next", "")), address="")

    async def sign_in(self, request: Request) -> Response:
        """Sign somebody in, under a new session name whatever there was before."""
        form = await read_form(request, origin=self._settings.url)
        to, address = own_path(form.get("next", "")), form.get("address", "")
        try:
            found = await self._sign_in.by_address(
                address, form.get("code", ""), peer=_peer(request)
            )
        except TooManyAttempts:
            return page("sign_in", status=429, next=to, address=address, alert=_TOO_MANY)
        if found is None:
            return page("sign_in", status=401, next=to, address=address, alert=_WRONG)
        person, epoch = found
        await self._sessions.end(request.cookies.get(self._cookie, ""))
        answer = _go(to)
        answer.set_cookie(
            self._cookie,
            await self._sessions.begin(person.id, epoch),
            path="/",
            secure=self._settings.secure,
            httponly=True,
            samesite="lax",
        )
        return answer

    async def sign_out(self, request: Request) -> Response:
        """End this session, or all of the person's."""
        visit = await self._visit(request)
        form = await self._form(visit)
        if form.get("everywhere"):
            await self._factors.new_epoch(visit.person.id)
        await self._sessions.end(request.cookies.get(self._cookie, ""))
        answer = _go(f"{ROOT}/sign-in")
        answer.delete_cookie(
            self._cookie,
            path="/",
            secure=self._settings.secure,
            httponly=True,
            samesite="lax",
        )
        return answer

    # -- approvals -----------------------------------------------------------------------------

    async def waiting(self, request: Request) -> Response:
        """Show what waits for whoever is signed in."""
        visit = await self._visit(request)
        person, directory = visit.person, self._desk.directory
        found = await self._ledger.inbox(person.id)
        lines = [line(one, person, directory) for one in found if is_for(one, person, directory)]
        return page("waiting", who=person, session=visit.session, lines=lines)

    async def approval_page(self, request: Request) -> Response:
        """Show one approval."""
        visit = await self._visit(request)
        return await self._shown(visit, await self._approval(visit))

    async def approve(self, request: Request) -> Response:
        """Say yes: at once, or to what was said by mail."""
        return await self._decide(request, self._yes)

    async def reject(self, request: Request) -> Response:
        """Say no."""
        return await self._decide(request, self._no)

    async def away_page(self, request: Request) -> Response:
        """Show when whoever is signed in is away."""
        visit = await self._visit(request)
        fresh = await self._sessions.is_fresh(visit.session)
        return await self._away.shown(visit.person, visit.session, ask_code=not fresh)

    async def leave(self, request: Request) -> Response:
        """Note that somebody is away, and who decides instead."""
        return await self._absence(request, self._away.leave)

    async def come_back(self, request: Request) -> Response:
        """Note that somebody is back."""
        return await self._absence(request, lambda person, _: self._away.come_back(person))

    async def _absence(
        self, request: Request, note: Callable[[Person, Mapping[str, str]], Awaitable[None]]
    ) -> Response:
        """Note an absence; whoever stands in decides, so it takes what a decision takes."""
        visit = await self._visit(request)
        form = await self._form(visit)
        visit, status, alert = await self._proven(visit, form)
        try:
            if not alert:
                await note(visit.person, form)
                return _go(f"{ROOT}/away")
        except AbsenceRefused as error:
            status, alert = 422, str(error)
        fresh = await self._sessions.is_fresh(visit.session)
        return await self._away.shown(
            visit.person, visit.session, ask_code=not fresh, status=status, alert=alert, form=form
        )

    async def _yes(self, visit: Visit, approval: Approval, form: Mapping[str, str]) -> None:
        if mark := form.get("mark", ""):
            await self._desk.confirm(approval.id, visit.person, channel=CHANNEL, mark=mark)
            return
        start = "value."
        typed = {
            name.removeprefix(start): text
            for name, text in form.items()
            if name.startswith(start) and text.strip()
        }
        values = parse_values(approval.template, typed) if typed else None
        reason = _reason(form)
        await self._desk.approve(
            approval.id, visit.person, channel=CHANNEL, reason=reason, values=values
        )

    async def _no(self, visit: Visit, approval: Approval, form: Mapping[str, str]) -> None:
        await self._desk.reject(approval.id, visit.person, channel=CHANNEL, reason=_reason(form))

    async def _decide(
        self,
        request: Request,
        answer: Callable[[Visit, Approval, Mapping[str, str]], Awaitable[None]],
    ) -> Response:
        """Decide, if the session and a fresh code say that it is the person who was asked."""
        visit = await self._visit(request)
        form = await self._form(visit)
        approval = await self._approval(visit)
        if form.get("digest") != approval.digest:
            raise BadForm("This form shows another call, so nothing was done. Load it again.")
        visit, status, alert = await self._proven(visit, form)
        if alert:
            return await self._shown(visit, approval, status=status, alert=alert, form=form)
        try:
            await answer(visit, approval, form)
        except PayloadError as error:
            alert = f"{error} For instance: {error.example}"
            return await self._shown(visit, approval, status=422, alert=alert, form=form)
        except DecisionRefused as error:
            return await self._refused(visit, approval.id, error)
        log.info("inbox.answered", approval=approval.id, person=visit.person.id)
        return _go(page_of(approval.id))

    async def _refused(self, visit: Visit, approval_id: str, error: DecisionRefused) -> Response:
        """Note that an answer does not count, and show how things stand."""
        approval = await self._ledger.approval(approval_id)
        event = approval.note(
            What.REFUSED_ANSWER,
            now=await self._ledger.now(),
            by=visit.person.id,
            why=str(error),
            more={"channel": CHANNEL},
        )
        await self._ledger.commit(Change().note([event]))
        return await self._shown(visit, approval, status=409, alert=str(error))

    async def _shown(
        self,
        visit: Visit,
        approval: Approval,
        *,
        status: int = 200,
        alert: str = "",
        form: Mapping[str, str] | None = None,
    ) -> Response:
        now = await self._ledger.now()
        shape = view(approval, visit.person, self._desk.directory, now)
        fresh = await self._sessions.is_fresh(visit.session)
        return page(
            "approval",
            status=status,
            who=visit.person,
            session=visit.session,
            view=shape,
            Stage=Stage,
            ask_code=not fresh,
            alert=alert,
            form=form or {},
        )

    # -- inside --------------------------------------------------------------------------------

    async def _visit(self, request: Request) -> Visit:
        session = await self._sessions.find(request.cookies.get(self._cookie, ""))
        person = self._desk.directory.get(session.person) if session is not None else None
        if session is None or person is None:
            raise _SignInFirst
        return Visit(request, session, person)

    async def _proven(self, visit: Visit, form: Mapping[str, str]) -> tuple[Visit, int, str]:
        """Take a code where the last one is long ago; return a status and why it is not taken."""
        if await self._sessions.is_fresh(visit.session):
            return visit, 200, ""
        try:
            code, peer = form.get("code", ""), _peer(visit.request)
            if not await self._sign_in.again(visit.person, code, peer=peer):
                return visit, 403, _NO_CODE
        except TooManyAttempts:
            return visit, 429, _TOO_MANY
        session = await self._sessions.prove(visit.session)
        return Visit(visit.request, session, visit.person), 200, ""

    async def _form(self, visit: Visit) -> dict[str, str]:
        form = await read_form(visit.request, origin=self._settings.url)
        require_token(form, visit.session.csrf)
        return form

    async def _approval(self, visit: Visit) -> Approval:
        """Return the approval of the path, if it is one about which this person is asked."""
        try:
            approval = await self._ledger.approval(str(visit.request.path_params["approval_id"]))
        except (ApprovalNotFound, RecordUnreadable) as error:
            raise _NotFound from error
        if not is_for(approval, visit.person, self._desk.directory):
            raise _NotFound
        return approval


def make_inbox_router(desk: Desk, settings: InboxSettings) -> APIRouter:
    """Return the routes of the inbox page.

    Args:
        desk: Decides.
        settings: With a url and a key.
    """
    inbox, router = Inbox(desk, settings), APIRouter()

    async def start(_: Request) -> Response:
        return _go(f"{ROOT}/")

    async def style_sheet(_: Request) -> Response:
        return style()

    routes: tuple[tuple[str, str, Handler], ...] = (
        ("GET", "", start),
        ("GET", "/", inbox.waiting),
        ("GET", "/style.css", style_sheet),
        ("GET", "/sign-in", inbox.sign_in_page),
        ("POST", "/sign-in", inbox.sign_in),
        ("POST", "/sign-out", inbox.sign_out),
        ("GET", "/away", inbox.away_page),
        ("POST", "/away", inbox.leave),
        ("POST", "/away/back", inbox.come_back),
        ("GET", "/approvals/{approval_id}", inbox.approval_page),
        ("POST", "/approvals/{approval_id}/approve", inbox.approve),
        ("POST", "/approvals/{approval_id}/reject", inbox.reject),
    )
    for method, path, handler in routes:
        router.add_route(ROOT + path, _guarded(handler), methods=[method])
    return router


def _guarded(handler: Handler) -> Handler:
    """Return a handler whose errors are pages."""

    async def guarded(request: Request) -> Response:
        try:
            return await handler(request)
        except _SignInFirst:
            # What a form would have done is not done later on: it is shown again.
            path = request.url.path.removesuffix("/approve").removesuffix("/reject")
            return _go(f"{ROOT}/sign-in?next={own_path(path)}")
        except _NotFound:
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

    return guarded


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, status_code=303)


def _peer(request: Request) -> str:
    return request.client.host if request.client is not None else ""


def _reason(form: Mapping[str, str]) -> str:
    return clean_text(form.get("reason", "")).strip()[:LONGEST_REASON].strip()
