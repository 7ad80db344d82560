"""The page Security: a person's second factors, passkeys and sessions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from signoff.broker.decisions import Decisions
from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.channels.inbox.auth.browsers import browser_of
from signoff.channels.inbox.auth.context import (
    TOO_MANY,
    AuthContext,
    Pages,
    Route,
    Visit,
    go,
    peer_of,
)
from signoff.channels.inbox.auth.passkey_store import invited, passkeys_of
from signoff.channels.inbox.auth.passkeys import PasskeyRefused, Passkeys
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import ROOT, own_path
from signoff.channels.words.messages import moment
from signoff.core.base.errors import Conflict
from signoff.core.base.text import clean_text

HERE: Final = "/security"
_LONGEST_NAME: Final = 40
_PEER_LIMIT: Final = (120, timedelta(minutes=15))
"""The most sign-ins that begin from one network."""

_HOW: Final = {
    How.LINK: "by a link",
    How.CODE: "with a code",
    How.PASSKEY: "with a passkey",
    How.OIDC: "by the company's sign-in",
    How.LOCAL: "by the command line",
}
_USED: Final = "That passkey response was already used. Try again."
_NOT_INVITED: Final = "That one-time code is invalid, used or expired. Ask for another."


class SecurityPages(Pages):
    """Shows and changes a person's second factors, and ends sessions."""

    def __init__(self, decisions: Decisions, auth: AuthContext) -> None:
        super().__init__(decisions, auth)
        self._passkeys = Passkeys(decisions.ledger, auth.settings)
        self._throttle = Throttle(decisions.ledger.store)

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        signing_in: tuple[Route, ...] = (
            ("POST", "/sign-in/passkey/offer", self.offer_to_sign_in),
            ("POST", "/sign-in/passkey", self.sign_in),
        )
        with_passkeys: tuple[Route, ...] = (
            ("POST", "/security/passkeys/offer", self.offer_to_add),
            ("POST", "/security/passkeys/add", self.add),
            ("POST", "/security/passkeys/remove", self.remove),
            ("POST", "/passkey/offer", self.offer_to_prove),
            ("POST", "/passkey/prove", self.prove),
            *(signing_in if "passkey" in self._auth.settings.sign_in else ()),
        )
        return (
            ("GET", HERE, self.security_page),
            ("POST", "/security/proof", self.show_proof),
            ("POST", "/security/sessions/end", self.end_session),
            *(with_passkeys if self._auth.settings.has_passkeys else ()),
        )

    async def security_page(self, request: Request) -> Response:
        """Show the second factors and sessions of the visitor."""
        return await self._shown(await self._auth.of(request))

    async def show_proof(self, request: Request) -> Response:
        """Check a second factor, which changes on this page need."""
        visit, form = await self._auth.sent(request)
        visit, status, alert = await self._auth.check_proof(visit, form, strict=True)
        if alert:
            return await self._shown(visit, status=status, alert=alert)
        return go(f"{ROOT}{HERE}")

    async def end_session(self, request: Request) -> Response:
        """End a session of the visitor."""
        visit, form = await self._auth.sent(request)
        await self._auth.sessions.end_one(form.get("session", ""), visit.person.id)
        return go(f"{ROOT}{HERE}")

    async def offer_to_add(self, request: Request) -> Response:
        """Begin to add a passkey, after a second factor or with an operator's one-time code."""
        visit, form = await self._auth.sent(request)
        invitation = None
        if form.get("invitation", "").strip():
            invitation = await invited(self._decisions.ledger, visit.person.id, form["invitation"])
            if invitation is None:
                return _problem(_NOT_INVITED)
        else:
            visit, status, alert = await self._auth.check_proof(visit, form, strict=True)
            if alert:
                return _problem(alert, status=status)
        try:
            offer = await self._passkeys.offer_to_add(visit.session, visit.person, invitation)
        except PasskeyRefused as error:
            return _problem(str(error))
        return _json(offer)

    async def add(self, request: Request) -> Response:
        """Add the passkey that the browser has created."""
        visit, form = await self._auth.sent(request)
        name = clean_text(form.get("name", "")).strip()[:_LONGEST_NAME].strip()
        name = name or browser_of(request.headers.get("user-agent", ""))
        try:
            await self._passkeys.add(visit.session, visit.person, form.get("credential", ""), name)
        except PasskeyRefused as error:
            return await self._shown(visit, status=403, alert=str(error))
        return go(f"{ROOT}{HERE}")

    async def remove(self, request: Request) -> Response:
        """Remove a passkey, after a second factor."""
        visit, form = await self._auth.sent(request)
        visit, status, alert = await self._auth.check_proof(visit, form, strict=True)
        try:
            if not alert:
                await self._passkeys.remove(visit.person, form.get("passkey", ""))
        except PasskeyRefused as error:
            status, alert = 409, str(error)
        if alert:
            return await self._shown(visit, status=status, alert=alert)
        return go(f"{ROOT}{HERE}")

    async def offer_to_prove(self, request: Request) -> Response:
        """Begin to take a passkey as a second factor."""
        visit, _ = await self._auth.sent(request)
        try:
            return _json(await self._passkeys.offer_to_prove(visit.session, visit.person))
        except PasskeyRefused as error:
            return _problem(str(error))

    async def prove(self, request: Request) -> Response:
        """Take a passkey as the second factor of a session."""
        visit, form = await self._auth.sent(request)
        try:
            await self._passkeys.prove(visit.session, visit.person, form.get("credential", ""))
        except PasskeyRefused as error:
            return _problem(str(error))
        await self._auth.record_proof(visit, "passkey")
        return _json("{}")

    async def offer_to_sign_in(self, request: Request) -> Response:
        """Begin a sign-in with a passkey."""
        await self._auth.unbound_form(request)
        peer = hashed(network_of(peer_of(request)))
        if not await self._throttle.allow(Rule(f"tries:passkey:peer:{peer}", *_PEER_LIMIT)):
            return _problem(TOO_MANY, status=429)
        return _json(await self._passkeys.offer_to_sign_in())

    async def sign_in(self, request: Request) -> Response:
        """Sign in with a passkey, which is also a second factor."""
        form = await self._auth.unbound_form(request)
        to = own_path(form.get("next", ""))
        try:
            person, used = await self._passkeys.sign_in(
                form.get("credential", ""), self._decisions.directory
            )
            await self._auth.begin(request, person, how=How.PASSKEY, factor="passkey", also=used)
        except PasskeyRefused as error:
            return self._auth.sign_in_page(request, to, status=401, alert=str(error))
        except Conflict:
            return self._auth.sign_in_page(request, to, status=401, alert=_USED)
        return go(to)

    async def _shown(self, visit: Visit, *, status: int = 200, alert: str = "") -> Response:
        auth, person = self._auth, visit.person
        zone = self._decisions.directory.zone_of(person.id)
        needed = await auth.required_proof(visit, strict=True)
        return visit.page(
            "security",
            status=status,
            here=HERE,
            alert=alert,
            has_app=await auth.factors.has(person),
            able=auth.settings.has_passkeys,
            ask_code=needed,
            passkeys=[
                {
                    "id": one.id,
                    "name": one.name,
                    "added": moment(one.added, zone),
                    "used": moment(one.used, zone),
                }
                for one in await passkeys_of(self._decisions.ledger, person)
            ],
            sessions=[
                {
                    "id": one.id,
                    "browser": one.browser or "A browser",
                    "how": _HOW[one.how],
                    "began": moment(one.began, zone),
                    "seen": moment(one.seen, zone),
                    "here": one.id == visit.session.id,
                }
                for one in await auth.sessions.of_person(person.id)
            ],
        )


def _json(text: str) -> Response:
    return Response(text, media_type="application/json")


def _problem(text: str, *, status: int = 403) -> Response:
    """Return a problem, which the script of the page shows."""
    content: Mapping[str, str] = {"problem": text}
    return JSONResponse(content, status_code=status)
