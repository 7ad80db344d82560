"""A channel for Mattermost: cards as direct messages, answers by a slash command."""

import asyncio
import hmac
from collections.abc import Sequence
from textwrap import indent
from urllib.parse import parse_qsl

import httpx
from fastapi import APIRouter, HTTPException, Request

from signoff.broker.decisions import Decisions
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.text_channel import shown_in, take_text, text_of
from signoff.channels.web.problems import read_body

MOST = 3_000  # characters of a message; a post has 16,383, and each line is indented by four


class Mattermost:
    """Posts as a bot, each message once (`pending_post_id`); `/signoff ID approve` answers."""

    def __init__(self, name: str, settings: dict[str, str]) -> None:
        self.name, self.bot, self.secret = name, settings["bot"], settings["command_token"]
        self.url = f"{settings['url']}/api/v4"
        self.headers = {"Authorization": f"Bearer {settings['token']}"}

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver each message separately; a failure is a result, never an exception."""
        async with httpx.AsyncClient(base_url=self.url, headers=self.headers) as http:
            return list(await asyncio.gather(*(self._one(http, each) for each in messages)))

    async def _one(self, http: httpx.AsyncClient, message: Message) -> Result:
        # Indented text is literal: no mention and no link can come from an agent's text.
        shown = shown_in(message, MOST)
        say = "approve" if shown == "complete" else "reject: why"
        how = f"`/signoff {message.card.approval} {say}`" if message.kind is Kind.CARD else ""
        text = indent(text_of(message, most=MOST), "    ")
        said = {"message": f"{text}\n\n{how} {message.link}"}
        try:
            if message.kind is Kind.OUTCOME:  # the outcome replaces the card
                (await http.put(f"/posts/{message.thread}/patch", json=said)).raise_for_status()
                return Delivered(message.thread, copy="updated")
            place = await http.post("/channels/direct", json=[self.bot, message.address])
            said |= {"channel_id": place.raise_for_status().json()["id"], "root_id": message.thread}
            post = await http.post("/posts", json=said | {"pending_post_id": message.id})
            return Delivered(post.raise_for_status().json()["id"], shown=shown)
        except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
            status = error.response.status_code if isinstance(error, httpx.HTTPStatusError) else 0
            later = status == 429 or status >= 500 or isinstance(error, httpx.TransportError)
            return Retry(0, repr(error)) if later else Refused(repr(error))

    def routes(self, decisions: Decisions) -> APIRouter:
        """Return the routes of the gateway: the address of the slash command."""
        router = APIRouter()

        @router.post(f"/{self.name}/command")
        async def command(request: Request) -> dict[str, str]:
            form = dict(parse_qsl((await read_body(request, 65_536)).decode(errors="replace")))
            if not hmac.compare_digest(form.get("token", "").encode(), self.secret.encode()):
                raise HTTPException(401)
            who, text, source = (form.get(key, "") for key in ("user_id", "text", "trigger_id"))
            return {"text": await take_text(decisions, self.name, who, text, source=source)}

        return router
