"""For an agent that runs elsewhere: hands its pauses to Signoff, which answers it by REST.

This module needs google-adk and httpx, and nothing else of Signoff, Celery or Redis.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import httpx
from google.adk.agents.invocation_context import InvocationContext
from google.adk.events.event import Event
from google.adk.plugins.base_plugin import BasePlugin
from google.genai import types

log = logging.getLogger(__name__)

CONFIRMATION: Final = "adk_request_confirmation"
"""The FunctionCall that asks for a confirmation (google.adk.utils._function_call_names)."""

MARKS: Final = frozenset({"signoff_run", "signoff_refusal"})
"""Session state that Signoff sends with its own messages (signoff.worker.adk_remote.wire)."""

_AGAIN: Final = frozenset({408, 409, 425, 429})
"""Answers that say "not now"; those from 500 on do too."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class SignoffPlugin(BasePlugin):
    """Publishes the calls that wait for a confirmation, once their turn has come to its end.

    Signoff then asks whom its policies name, and answers through the agent's own ADK API server,
    whose address is in its settings (``[agents.remote.<app>]``). Turns that Signoff itself has
    begun are left alone: the worker sees their pauses.

    Publishing never raises and never fails a run. What cannot be published at once is tried again
    in the background, and logged.

    Args:
        url: Where Signoff's gateway listens: ``https://signoff.example.com``.
        token: One of its tokens; "" where it needs none.
        app_url: Where this agent's API server listens, for Signoff to compare with its settings.
        patience: Seconds that a turn waits for the first try.
        tries: How often it is tried.
        pause: Seconds before the second try; each further one comes twice as late.
        transport: Used instead of the network, for tests.

    Raises:
        ValueError: A URL is none, or the token would cross a network unencrypted.
    """

    def __init__(
        self,
        *,
        url: str,
        token: str = "",
        app_url: str = "",
        patience: float = 5.0,
        tries: int = 7,
        pause: float = 1.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(name="signoff")
        parts = urlsplit(url)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError(f"{url!r} is not a URL like https://signoff.example.com")
        if token and parts.scheme == "http" and parts.hostname not in _LOOPBACK:
            raise ValueError(f"{url} would get the token unencrypted; use https://")
        self._url = url.rstrip("/") + "/v1/pauses"
        self._headers = {"Authorization": f"Bearer {token}"} if token else {}
        self._app_url = app_url.rstrip("/")
        self._patience = patience
        self._tries = tries
        self._pause = pause
        self._transport = transport
        self._later: set[asyncio.Task[None]] = set()

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Publish what the turn has left waiting.

        It is called when the turn is drained: before that, the placeholder results of the calls
        are not in the session yet, and an answer could not be taken.
        """
        try:
            body = self._body(invocation_context)
        except Exception:
            log.exception("signoff: the pause of a turn cannot be read")
            return
        if body is not None and not await self._published(body, last=self._tries == 1):
            task = asyncio.create_task(self._publish_later(body), name="signoff-publish")
            self._later.add(task)
            task.add_done_callback(self._later.discard)

    async def close(self) -> None:
        """Wait a moment for what is still to be published."""
        if self._later:
            _, unpublished = await asyncio.wait(self._later, timeout=self._patience)
            for task in unpublished:
                log.error("signoff: closed before a pause was published, and nobody is asked")
                task.cancel()
            await asyncio.gather(*unpublished, return_exceptions=True)

    def _body(self, context: InvocationContext) -> dict[str, Any] | None:
        session = context.session
        mine = [one for one in session.events if one.invocation_id == context.invocation_id]
        calls, answered = waiting_calls(mine), answered_calls(mine)
        if not (calls or answered) or begun_by_signoff(mine):
            return None
        return {
            "appName": session.app_name,
            "userId": session.user_id,
            "sessionId": session.id,
            "invocationId": context.invocation_id,
            "appUrl": self._app_url or None,
            "message": said(mine),
            "answered": answered,
            "pauses": [
                {
                    "agent": author,
                    "functionCall": call.model_dump(by_alias=True, exclude_none=True, mode="json"),
                }
                for author, call in calls
            ],
        }

    async def _publish_later(self, body: dict[str, Any]) -> None:
        for number in range(1, self._tries):
            wait = self._pause * 2 ** (number - 1) * random.uniform(0.5, 1)  # noqa: S311 -- jitter
            await asyncio.sleep(wait)
            if await self._published(body, last=number == self._tries - 1):
                return

    async def _published(self, body: dict[str, Any], *, last: bool) -> bool:
        """Try once; return whether there is nothing more to try."""
        where = f"the pause in session {body['sessionId']} of {body['appName']}"
        try:
            async with (
                asyncio.timeout(self._patience),
                httpx.AsyncClient(transport=self._transport) as client,
            ):
                answer = await client.post(self._url, json=body, headers=self._headers)
        except Exception as error:  # noqa: BLE001 -- nothing of this may reach the user's run
            problem, again = f"{type(error).__name__}: {error}".rstrip(": "), True
        else:
            if answer.is_success:
                log.info("signoff: %s is published", where)
                return True
            problem = f"{answer.status_code} {_detail(answer)}"
            again = answer.status_code in _AGAIN or answer.is_server_error
        if again and not last:
            log.warning("signoff: %s is not published yet: %s", where, problem)
            return False
        log.error("signoff: %s is not published, and nobody is asked: %s", where, problem)
        return True


def waiting_calls(events: Sequence[Event]) -> list[tuple[str, types.FunctionCall]]:
    """Return the confirmations that wait in the events of an invocation, each with its agent."""
    answered = {
        response.id
        for event in events
        if event.author == "user"
        for response in event.get_function_responses()
    }
    return [
        (event.author, call)
        for event in events
        for call in event.get_function_calls()
        # A model can make a call of this name too; ADK marks its own as long-running.
        if call.name == CONFIRMATION
        and call.id in (event.long_running_tool_ids or ())
        and call.id not in answered
    ]


def answered_calls(events: Sequence[Event]) -> list[str]:
    """Return the ids of the confirmations that the user has answered in these events."""
    return [
        response.id
        for event in events
        if event.author == "user"
        for response in event.get_function_responses()
        if response.name == CONFIRMATION and response.id
    ]


def begun_by_signoff(events: Sequence[Event]) -> bool:
    """Say whether the latest message of the user in these events is one that Signoff has sent."""
    said = [event for event in events if event.author == "user"]
    return bool(said) and not MARKS.isdisjoint(said[-1].actions.state_delta or {})


def said(events: Sequence[Event]) -> str:
    """Return what the user last said in these events, "" where it was nothing in words."""
    texts = [
        "".join(part.text or "" for part in event.content.parts or [])
        for event in events
        if event.author == "user" and event.content
    ]
    return next((text for text in reversed(texts) if text.strip()), "")


def _detail(answer: httpx.Response) -> str:
    try:
        body = answer.json()
    except ValueError:
        body = None
    detail = body.get("detail") if isinstance(body, dict) else None
    return str(detail or answer.text)[:500]
