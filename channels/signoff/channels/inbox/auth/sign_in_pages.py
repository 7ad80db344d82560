"""The pages to sign in and out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.channels.inbox.auth.context import TOO_MANY, Pages, Route, go, peer_of
from signoff.channels.inbox.auth.sessions import How, sign_out_everywhere
from signoff.channels.inbox.auth.sign_in import TooManyAttempts
from signoff.channels.inbox.settings import ROOT, own_path

_WRONG: Final = (
    "That did not work. Check the address, and use the next code; each works once. "
    "If you have no authenticator app for Signoff yet, ask your Signoff operator."
)


class SignInPages(Pages):
    """Signs people in and out."""

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        codes: tuple[Route, ...] = (("POST", "/sign-in", self.sign_in),)
        return (
            ("GET", "/sign-in", self.shown),
            *(codes if "code" in self._auth.settings.sign_in else ()),
            ("POST", "/sign-out", self.sign_out),
        )

    async def shown(self, request: Request) -> Response:
        """Show the sign-in methods."""
        return self._auth.sign_in_page(request, own_path(request.query_params.get("next", "")))

    async def sign_in(self, request: Request) -> Response:
        """Sign in with an address and a code, under a new session name."""
        auth = self._auth
        form = await auth.unbound_form(request)
        to, address = own_path(form.get("next", "")), form.get("address", "")
        try:
            found = await auth.sign_in.by_address(
                address, form.get("code", ""), peer=peer_of(request)
            )
        except TooManyAttempts:
            return auth.sign_in_page(request, to, address=address, status=429, alert=TOO_MANY)
        if found is None:
            return auth.sign_in_page(request, to, address=address, status=401, alert=_WRONG)
        await auth.begin(request, found, how=How.CODE, factor="totp")
        return go(to)

    async def sign_out(self, request: Request) -> Response:
        """End this session, or all of the person's."""
        auth = self._auth
        visit, form = await auth.sent(request)
        if form.get("everywhere"):
            await sign_out_everywhere(self._ledger, visit.person.id, by=visit.person.id)
        await auth.sessions.end(request.cookies.get(auth.cookie, ""))
        answer = go(f"{ROOT}/sign-in")
        auth.delete_cookie(answer)
        return answer
