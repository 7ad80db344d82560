"""The pages that lead to a company's sign-in and back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog
from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import Decisions
from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.channels.inbox.auth.context import TOO_MANY, AuthContext, Pages, Route, go, peer_of
from signoff.channels.inbox.auth.links import new_secret
from signoff.channels.inbox.auth.oidc import LASTS, OpenId, SignInError
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import OidcSettings, own_path
from signoff.channels.inbox.templating import page

log = structlog.get_logger(__name__)

_PEER_LIMIT: Final = (120, timedelta(minutes=15))
"""The most sign-ins that begin from one network."""


class OidcPages(Pages):
    """Signs people in by OpenID Connect."""

    def __init__(self, decisions: Decisions, auth: AuthContext, settings: OidcSettings) -> None:
        super().__init__(decisions, auth)
        self._throttle = Throttle(decisions.ledger.store)
        self._openid = OpenId(decisions.ledger, settings, auth.settings.url)
        self._cookie = f"{auth.cookie}-oidc"

    def routes(self) -> Sequence[Route]:
        """Return the routes.

        A sign-in begins with a link, because the Content-Security-Policy forbids forms to other
        hosts. Opening it has no effect that needs protection.
        """
        return (
            ("GET", "/sign-in/oidc", self.begin),
            ("GET", "/sign-in/oidc/callback", self.callback),
        )

    async def begin(self, request: Request) -> Response:
        """Send the browser to the provider."""
        to = own_path(request.query_params.get("next", ""))
        peer = hashed(network_of(peer_of(request)))
        if not await self._throttle.allow(Rule(f"tries:oidc:peer:{peer}", *_PEER_LIMIT)):
            return self._auth.sign_in_page(request, to, status=429, alert=TOO_MANY)
        secret = new_secret(request.cookies.get(self._cookie, ""))
        try:
            place = await self._openid.begin(to=to, secret=secret)
        except SignInError as error:
            return self._auth.sign_in_page(request, to, status=502, alert=str(error))
        answer = go(place)
        self._auth.set_cookie(answer, secret, cookie=self._cookie, lasts=LASTS)
        return answer

    async def callback(self, request: Request) -> Response:
        """Sign in the person whom the provider identifies, if they are in the directory."""
        secret = request.cookies.get(self._cookie, "")
        try:
            found = await self._openid.finish(dict(request.query_params), secret)
        except SignInError as error:
            return _not_in(str(error))
        person = self._decisions.directory.find(found.address)
        if person is None:
            log.warning("inbox.oidc_for_nobody")
            why = f"{found.address} is not in the directory. Ask your Signoff operator."
            return _not_in(why)
        await self._auth.begin(request, person, how=How.OIDC)
        return go(own_path(found.to))


def _not_in(why: str) -> Response:
    return page("start_over", status=403, title="Not signed in", text=why)
