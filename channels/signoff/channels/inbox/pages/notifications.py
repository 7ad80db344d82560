"""The page on which people turn notifications on and off, for each of their browsers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from signoff.broker.decisions import Decisions
from signoff.channels.inbox.auth.browsers import browser_of
from signoff.channels.inbox.auth.context import AuthContext, Pages, Route, Visit, go
from signoff.channels.inbox.settings import ROOT, PushSettings
from signoff.channels.inbox.subscriptions import (
    LASTS,
    Subscription,
    SubscriptionRefused,
    mark_of,
    published_key,
    read_endpoint,
    read_keys,
    subscribe,
    subscriptions_of,
    unsubscribe,
)
from signoff.channels.words.messages import moment

HERE: Final = "/notifications"


class NotificationPages(Pages):
    """Shows in which browsers a person is notified, and changes it."""

    def __init__(self, decisions: Decisions, auth: AuthContext, settings: PushSettings) -> None:
        super().__init__(decisions, auth)
        self._settings = settings

    def routes(self) -> Sequence[Route]:
        """Return the routes."""
        return (
            ("GET", HERE, self.notifications_page),
            ("POST", f"{HERE}/on", self.turn_on),
            ("POST", f"{HERE}/off", self.turn_off),
        )

    async def notifications_page(self, request: Request) -> Response:
        """Show the browsers in which a person is notified."""
        return await self._shown(await self._auth.of(request))

    async def turn_on(self, request: Request) -> Response:
        """Turn notifications on in the browser that sends this."""
        visit, form = await self._auth.sent(request)
        now, ours = await self._ledger.now(), await published_key(self._ledger)
        if not ours:
            return await self._shown(visit, status=422, alert="Nothing sends notifications yet.")
        try:
            endpoint = read_endpoint(
                form.get("endpoint", ""), allow_private=self._settings.allow_private
            )
            key, auth = read_keys(form.get("key", ""), form.get("auth", ""))
        except SubscriptionRefused as error:
            return await self._shown(visit, status=422, alert=f"{error} Nothing was turned on.")
        new = Subscription(
            endpoint=endpoint,
            key=key,
            auth=auth,
            browser=browser_of(request.headers.get("user-agent", "")),
            since=now,
            until=now + LASTS,
            epoch=visit.session.epoch,
            ours=ours,
            address=visit.person.email,
        )
        # The browser has one subscription: the one that it had before ends.
        await self._auth.end_notifications(request)
        await subscribe(self._ledger, visit.person.id, new)
        answer, mark = go(f"{ROOT}{HERE}"), mark_of(visit.person.id, new)
        self._auth.set_cookie(answer, mark, cookie=self._auth.notified, lasts=LASTS)
        return answer

    async def turn_off(self, request: Request) -> Response:
        """Turn notifications off in one of the person's browsers."""
        visit, form = await self._auth.sent(request)
        await unsubscribe(self._ledger, visit.person.id, [form.get("browser", "")])
        return go(f"{ROOT}{HERE}")

    async def _shown(self, visit: Visit, *, status: int = 200, alert: str = "") -> Response:
        zone = self._decisions.directory.zone_of(visit.person.id)
        ours = await published_key(self._ledger)
        found = await subscriptions_of(self._ledger, visit.person, ours)
        return visit.page(
            "notifications",
            status=status,
            alert=alert,
            here=HERE,
            key=ours,
            browsers=[
                {
                    "id": one.id,
                    "name": one.browser,
                    "since": moment(one.since, zone),
                    "until": moment(one.until, zone),
                }
                for one in found
            ],
        )
