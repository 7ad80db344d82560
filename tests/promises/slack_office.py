"""A plant that asks people in Slack and by mail; the test plays Slack."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
from slack_sdk.signature import SignatureVerifier

from channels.slack.office import MARA_AT
from channels.slack.workspace import APP, BOT, SECRET, Workspace, serve
from promises.plant import MANAGER, Plant, plant
from signoff.broker.submit import submit
from signoff.channels.slack.inbound.http import PATH
from signoff.core.approvals.approval import Approval

Json = dict[str, Any]
RILEY = "riley@example.com"
HERE = f"D{MARA_AT[1:]}"
"""The conversation with Mara."""


@dataclass
class SlackOffice:
    """A plant and its Slack workspace."""

    plant: Plant
    slack: Workspace
    http: aiohttp.ClientSession

    async def asks(self, app: str, message: str) -> tuple[str, str, Json]:
        """Send a message to an agent; return the run, the approval and the card that asks."""
        known = set(self.cards())
        run = await submit(self.plant.parts.ledger, app, message, user=RILEY)
        fresh = await self.slack.until(lambda: set(self.cards()) - known)
        return run.id, fresh.copy().pop(), self.cards()[next(iter(fresh))]

    def cards(self) -> dict[str, Json]:
        """Return the cards in Slack by approval; of two cards, the later one."""
        found = {}
        for message in self.slack.cards(HERE):
            if (metadata := message.get("metadata")) and not message.get("thread_ts"):
                found[metadata["event_payload"]["approval"]] = message
        return found

    def thread(self, card: Json) -> list[str]:
        """Return the replies below a card."""
        below = (one for one in self.slack.cards(HERE) if one.get("thread_ts") == card["ts"])
        return [json.dumps(one["blocks"], ensure_ascii=False) for one in below]

    async def over(self, card: Json) -> str:
        """Return the result of the agent as soon as the thread of the card shows it."""
        await self.slack.until(lambda: card.get("edits"))
        return (await self.slack.until(lambda: self.thread(card)))[0]

    async def approval(self, approval: str) -> Approval:
        """Return an approval."""
        return await self.plant.parts.ledger.approval(approval)

    async def post(self, payload: Json, *, gateway: str = "gateway") -> tuple[int, Json]:
        """Post an interaction as Slack does; return the status and the acknowledgement."""
        port = self.plant.supervisor.children[gateway].report["port"]
        body, timestamp = urlencode({"payload": json.dumps(payload)}), str(int(time.time()))
        headers = {
            "X-Slack-Request-Timestamp": timestamp,
            "X-Slack-Signature": SignatureVerifier(SECRET).generate_signature(
                timestamp=timestamp, body=body
            )
            or "",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        where = f"http://127.0.0.1:{port}{PATH}"
        async with self.http.post(where, data=body, headers=headers) as answer:
            text = await answer.text()
            return answer.status, json.loads(text) if text else {}


@asynccontextmanager
async def slack_office(
    folder: Path, *processes: str, socket: bool = False, redis: str = "", further: str = ""
) -> AsyncIterator[SlackOffice]:
    """Build a plant that reaches people in Slack and by mail, and start these processes.

    `redis` is the URL of a Redis to use instead of its own; `further` holds more settings tables.
    """
    slack = Workspace()
    slack.add(MARA_AT, MANAGER)
    # The gateway may close a kept connection at the moment at which the test uses it again.
    connections = aiohttp.TCPConnector(force_close=True)
    async with serve(slack), aiohttp.ClientSession(connector=connections) as http:
        clicks = f'app_token = "{APP}"' if socket else f'signing_secret = "{SECRET}"'
        more = f"""
[slack]
bot_token = "{BOT}"
base_url = "{slack.url}/api/"
{clicks}
[[policies]]
name = "expenses"
ask = ["mara"]
channels = ["slack", "email"]
{further}
"""
        async with plant(folder, *processes, gateway=more, redis=redis) as built:
            yield SlackOffice(built, slack, http)
