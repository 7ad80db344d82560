"""The pages of sign-in links: request one, open it, and sign in with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import Decisions
from signoff.channels.inbox.auth.browsers import browser_of
from signoff.channels.inbox.auth.context import TOO_MANY, AuthContext, Pages, Route, go, peer_of
from signoff.channels.inbox.auth.links import LASTS, Link, Links, new_secret
from signoff.channels.inbox.auth.sign_in import TooManyAttempts
from signoff.channels.inbox.settings import own_path
from signoff.channels.inbox.templating import page
from signoff.core.base.errors import Conflict

_GONE: Final = (
    "It was already used, or it has expired. A link works once, for ten minutes. "
    "Request another one."
)
_ELSEWHERE: Final = (
    "Another browser requested this link, and it works only there, so nobody can sign in with "
    "a link that was forwarded or overheard. Open it in that browser, or ask for a link here. "
    "If you did not request it, ignore it."
)


class LinkPages(Pages):
    """Signs people in by links."""

    def __init__(self, decisions: Decisions, auth: AuthContext) -> None:
        super().__init__(decisions, auth)
        self._links = Links(decisions.ledger)

    def routes(self) -> Sequence[Route]:
        """Return the routes. Links of the command line work even if none are mailed."""
        ways = self._auth.settings.sign_in
        asking: tuple[Route, ...] = (("POST", "/sign-in/link", self.ask),)
        return (
            *(asking if "link" in ways else ()),
            ("GET", "/sign-in/link/{token}", self.look),
            ("POST", "/sign-in/link/use", self.use),
        )

    async def ask(self, request: Request) -> Response:
        """Request a link. The response does not reveal whether the address is known."""
        form = await self._auth.unbound_form(request)
        to, address = own_path(form.get("next", "")), form.get("address", "")
        secret = new_secret(request.cookies.get(self._cookie, ""))
        try:
            await self._links.ask(
                address,
                to=to,
                secret=secret,
                browser=browser_of(request.headers.get("user-agent", "")),
                peer=peer_of(request),
            )
        except TooManyAttempts:
            return self._auth.sign_in_page(request, to, address=address, status=429, alert=TOO_MANY)
        answer = page("link_sent", address=address, minutes=int(LASTS.total_seconds() // 60))
        # The cookie outlives the link, so that an expired link is reported as expired.
        self._auth.set_cookie(answer, secret, cookie=self._cookie, lasts=2 * LASTS)
        return answer

    async def look(self, request: Request) -> Response:
        """Show the page of a link, without using it up: mail systems open links before people."""
        token = str(request.path_params["token"])
        link = await self._links.find(token)
        if link is None or self._decisions.directory.get(link.person) is None:
            return _message("This link does not work any more", _GONE, status=410)
        if not self._is_here(request, link):
            return _message("This is another browser", _ELSEWHERE, status=403)
        person = self._decisions.directory.get(link.person)
        return page("link_use", token=token, person=person)

    async def use(self, request: Request) -> Response:
        """Sign in with a link, and use it up."""
        form = await self._auth.unbound_form(request)
        link = await self._links.find(form.get("token", ""))
        person = self._decisions.directory.get(link.person) if link is not None else None
        if link is None or person is None:
            return _message("This link does not work any more", _GONE, status=410)
        if not self._is_here(request, link):
            return _message("This is another browser", _ELSEWHERE, status=403)
        try:
            await self._auth.begin(request, person, how=link.how, also=link.used())
        except Conflict:
            return _message("This link does not work any more", _GONE, status=410)
        # The cookie stays, so other links that this browser has requested still work.
        return go(own_path(link.to))

    def _is_here(self, request: Request, link: Link) -> bool:
        return link.is_of(request.cookies.get(self._cookie, ""))

    @property
    def _cookie(self) -> str:
        return f"{self._auth.cookie}-link"


def _message(title: str, text: str, *, status: int) -> Response:
    return page("start_over", status=status, title=title, text=text)
