"""A plugin for agents that run in a server of their own: it publishes their pauses to Signoff.

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

_TRANSIENT: Final = frozenset({408, 409, 425, 429})
"""The statuses after which a request is repeated, besides those from 500 on."""

_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class SignoffPlugin(BasePlugin):
    """Publishes the calls that wait for a confirmation when their turn has ended.

    Signoff then asks the approvers of its policies, and answers through the agent's own ADK API
    server, whose address is in Signoff's settings (``[agents.remote.<app>]``). The plugin ignores
    turns that Signoff itself has begun, because Signoff's worker sees their pauses.

    The plugin never raises and never fails a run. If Signoff cannot be reached, the plugin retries
    in the background, and logs the errors.

    Args:
        url: The address of Signoff's gateway: ``https://signoff.example.com``.
        token: One of its tokens; "" if it needs none.
        app_url: The address of this agent's API server, which Signoff compares with its settings.
        patience: Seconds that a turn waits for the first try.
        tries: The maximum number of tries.
        pause: Seconds before the second try; the pause doubles before each further try.
        transport: Replaces the network, for tests.

    Raises:
        ValueError: `url` is not a URL, or the token would cross a network unencrypted.
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
        self._retries: dict[asyncio.Task[None], dict[str, Any]] = {}

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Publish the calls that wait, and those that were answered without Signoff.

        ADK calls this when the turn is drained. Before that, the session does not have the
        placeholder results of the calls, and the calls could not be answered.
        """
        try:
            body = self._body(invocation_context)
        except Exception:
            log.exception("signoff: the pause of a turn cannot be read")
            return
        if body is None:
            return
        for unpublished in self._retries.values():
            _drop_answered(unpublished, body["answered"])
        if not await self._publish(body, last=self._tries == 1):
            task = asyncio.create_task(self._retry(body), name="signoff-publish")
            self._retries[task] = body
            task.add_done_callback(self._retries.pop)

    async def close(self) -> None:
        """Wait `patience` seconds for the retries; log an error for each that has not succeeded."""
        if self._retries:
            _, unpublished = await asyncio.wait(self._retries, timeout=self._patience)
            for task in unpublished:
                log.error("signoff: closed before a pause was published, and nobody is asked")
                task.cancel()
            await asyncio.gather(*unpublished, return_exceptions=True)

    def _body(self, context: InvocationContext) -> dict[str, Any] | None:
        session = context.session
        mine = [one for one in session.events if one.invocation_id == context.invocation_id]
        calls, answered = waiting_calls(mine), answered_calls(mine)
        if not (calls or answered) or is_sent_by_signoff(mine):
            return None
        return {
            "appName": session.app_name,
            "userId": session.user_id,
            "sessionId": session.id,
            "invocationId": context.invocation_id,
            "appUrl": self._app_url or None,
            "message": last_message(mine),
            "answered": answered,
            "pauses": [
                {
                    "agent": author,
                    "functionCall": call.model_dump(by_alias=True, exclude_none=True, mode="json"),
                }
                for author, call in calls
            ],
        }

    async def _retry(self, body: dict[str, Any]) -> None:
        for number in range(1, self._tries):
            wait = self._pause * 2 ** (number - 1) * random.uniform(0.5, 1)  # noqa: S311 -- jitter
            await asyncio.sleep(wait)
            is_needed = body["pauses"] or body["answered"]
            if not is_needed or await self._publish(body, last=number == self._tries - 1):
                return

    async def _publish(self, body: dict[str, Any], *, last: bool) -> bool:
        """Try once; return False if it has to be tried again."""
        where = f"the pause in session {body['sessionId']} of {body['appName']}"
        try:
            async with (
                asyncio.timeout(self._patience),
                httpx.AsyncClient(transport=self._transport) as client,
            ):
                response = await client.post(self._url, json=body, headers=self._headers)
        except Exception as error:  # noqa: BLE001 -- no error may reach the user's run
            problem, is_transient = f"{type(error).__name__}: {error}".rstrip(": "), True
        else:
            if response.is_success:
                log.info("signoff: %s is published", where)
                return True
            problem = f"{response.status_code} {_detail(response)}"
            is_transient = response.status_code in _TRANSIENT or response.is_server_error
        if is_transient and not last:
            log.warning("signoff: %s is not published yet: %s", where, problem)
            return False
        log.error("signoff: %s is not published, and nobody is asked: %s", where, problem)
        return True


def waiting_calls(events: Sequence[Event]) -> list[tuple[str, types.FunctionCall]]:
    """Return the unanswered confirmations of an invocation, each with its agent."""
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


def is_sent_by_signoff(events: Sequence[Event]) -> bool:
    """Return whether Signoff has sent the latest message of the user in these events."""
    messages = [event for event in events if event.author == "user"]
    return bool(messages) and not MARKS.isdisjoint(messages[-1].actions.state_delta or {})


def last_message(events: Sequence[Event]) -> str:
    """Return the last text of the user in these events; "" if there is none."""
    texts = [
        "".join(part.text or "" for part in event.content.parts or [])
        for event in events
        if event.author == "user" and event.content
    ]
    return next((text for text in reversed(texts) if text.strip()), "")


def _drop_answered(body: dict[str, Any], answered: Sequence[str]) -> None:
    """Remove calls from an unpublished pause that were answered meanwhile."""
    body["pauses"] = [one for one in body["pauses"] if one["functionCall"]["id"] not in answered]


def _detail(response: httpx.Response) -> str:
    try:
        body = response.json()
    except ValueError:
        body = None
    detail = body.get("detail") if isinstance(body, dict) else None
    return str(detail or response.text)[:500]
