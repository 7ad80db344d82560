"""Many cards into one channel of a Slack that enforces its limits.

A local Web API answers 429 to more than a message per second into a conversation. From the outbox
on, all parts are the real ones: bells, the reconciler, slots in Redis.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web
from aiohttp.test_utils import TestServer

from benchmarks.office import DIRECTORY, MARA, open_pause
from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.pipeline.cards import send_cards
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.outbound.conversations import Conversations
from signoff.channels.slack.outbound.rate_limit import SlackRateLimit
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.core.approvals.parts import Asked
from signoff.core.policies.policy import Fallback

ROOM, STAGE = "C0BENCH", "deliver.slack"
_SAVED_UP = 3


@dataclass
class LimitedSlack:
    """Accepts posts: one a second per conversation, and short bursts."""

    posted: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    refused: int = 0
    others: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    _paid: dict[str, float] = field(default_factory=lambda: defaultdict(float))

    async def answer(self, request: web.Request) -> web.Response:
        """Answer one call."""
        if request.match_info["method"] != "chat.postMessage":
            self.others += 1
            return web.json_response({"ok": True, "channel": {"id": "D0BENCH"}, "messages": []})
        channel, now = str((await request.json())["channel"]), time.monotonic()
        if self._paid[channel] - now > _SAVED_UP - 1:
            self.refused += 1
            limited = {"ok": False, "error": "ratelimited"}
            return web.json_response(limited, status=429, headers={"Retry-After": "1"})
        self._paid[channel] = max(self._paid[channel], now) + 1
        self.posted[channel].append(now)
        self.changed.set()
        return web.json_response({"ok": True, "channel": channel, "ts": f"{now:.6f}"})

    @asynccontextmanager
    async def served(self) -> AsyncIterator[str]:
        """Serve it, and yield the URL of its Web API."""
        app = web.Application()
        app.router.add_route("*", "/api/{method}", self.answer)
        async with TestServer(app) as server:
            yield str(server.make_url("/api/"))


class Bell:
    """Wakes the drain of the stage."""

    def __init__(self) -> None:
        self.rung = asyncio.Event()

    async def ring(self, *rung: str) -> None:
        """Ring."""
        if STAGE in rung:
            self.rung.set()


async def burst(cards: int, folder: Path) -> str:
    """Post this number of cards into a channel and then direct messages; return the times."""
    slack, bell = LimitedSlack(), Bell()
    with EmbeddedRedis(folder / "burst", fsync="everysec") as server:
        ledger = Ledger(Store.open(server.url), bell)
        async with slack.served() as url:
            settings = SlackSettings.model_validate(
                {"bot_token": "xoxb-bench", "signing_secret": "x", "base_url": url}
            )
            api = SlackWeb(settings)
            conversations = Conversations(api, ledger, app="xoxb-bench")
            channel = SlackChannel(api, conversations, SlackRateLimit(ledger))
            delivery = Delivery(ledger, channel, directory=DIRECTORY)
            direct = max(cards // 3, 1)
            places = [ROOM] * cards + [f"D0BENCH{at}" for at in range(direct)]
            for place in places:
                await _ask(ledger, place)
            began = time.monotonic()
            tasks = [
                asyncio.create_task(Reconciler(Roster(ledger, DIRECTORY)).run_forever()),
                asyncio.create_task(_drain(delivery, bell)),
            ]
            while sum(map(len, slack.posted.values())) < len(places):
                slack.changed.clear()
                await slack.changed.wait()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await api.close()
        await ledger.close()
    room = slack.posted[ROOM][-1] - began
    last = max(times[-1] for place, times in slack.posted.items() if place != ROOM) - began
    least = max(cards - _SAVED_UP, 1)
    return (
        f"burst: {cards} cards into a channel in {room:.1f} s, {room / least:.2f} of what Slack's "
        f"limit allows; {direct} direct messages behind them in {last:.1f} s; {slack.refused} "
        f"times 429, {slack.others} other calls"
    )


async def _drain(delivery: Delivery, bell: Bell) -> None:
    while True:
        bell.rung.clear()
        await delivery.drain()
        await bell.rung.wait()


async def _ask(ledger: Ledger, place: str) -> None:
    now = await ledger.now()
    opened = open_pause(now, route=False)
    asked = Asked(person=MARA.id, channel="slack", address=place)
    terms = Fallback(ask=(MARA.id,)).terms({})
    approval, events = opened.approval.ask(terms, (asked,), now=now)
    change = Change(writes=opened.change.writes[:1], audit=list(opened.change.audit))
    send_cards(change, approval, now=now)
    await ledger.commit(change.put(approval, was=None).note(events))
