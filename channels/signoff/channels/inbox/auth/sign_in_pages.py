"""The pages to sign in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import Decisions
from signoff.channels.inbox.auth.context import TOO_MANY, Route, Visits, go, peer_of
from signoff.channels.inbox.auth.sessions import How, sign_out_everywhere
from signoff.channels.inbox.auth.sign_in import TooManyAttempts
from signoff.channels.inbox.forms import own_path
from signoff.channels.inbox.settings import ROOT

_WRONG: Final = (
    "That did not work. Check the address, and use the next code; each works once. "
    "If you have no authenticator app for Signoff yet, ask your operator."
)


class SigningPages:
    """Signs people in and out.

    Args:
        decisions: The ledger.
        visits: The sessions, and who may begin one.
    """

    def __init__(self, decisions: Decisions, visits: Visits) -> None:
        self._ledger = decisions.ledger
        self._visits = visits

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        codes: tuple[Route, ...] = (("POST", "/sign-in", self.sign_in),)
        return (
            ("GET", "/sign-in", self.shown),
            *(codes if "code" in self._visits.settings.sign_in else ()),
            ("POST", "/sign-out", self.sign_out),
        )

    async def shown(self, request: Request) -> Response:
        """Show the ways to sign in."""
        return self._visits.sign_in_page(own_path(request.query_params.get("next", "")))

    async def sign_in(self, request: Request) -> Response:
        """Sign somebody in, under a new session name whatever there was before."""
        visits = self._visits
        form = await visits.unbound_form(request)
        to, address = own_path(form.get("next", "")), form.get("address", "")
        try:
            found = await visits.sign_in.by_address(
                address, form.get("code", ""), peer=peer_of(request)
            )
        except TooManyAttempts:
            return visits.sign_in_page(to, address=address, status=429, alert=TOO_MANY)
        if found is None:
            return visits.sign_in_page(to, address=address, status=401, alert=_WRONG)
        await visits.begin(request, found, how=How.CODE, factor="totp")
        return go(to)

    async def sign_out(self, request: Request) -> Response:
        """End this session, or all of the person's."""
        visits = self._visits
        visit = await visits.of(request)
        form = await visits.form(visit)
        if form.get("everywhere"):
            await sign_out_everywhere(self._ledger, visit.person.id, by=visit.person.id)
        await visits.sessions.end(request.cookies.get(visits.cookie, ""))
        answer = go(f"{ROOT}/sign-in")
        visits.forget(answer)
        return answer
