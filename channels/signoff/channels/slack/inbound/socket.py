"""Clicks over Socket Mode: we open the connections, so the gateway needs no public URL.

https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import asyncio
import logging
import random
from typing import Final

import structlog
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.socket_mode.async_client import AsyncBaseSocketModeClient
from slack_sdk.socket_mode.request import SocketModeRequest
from slack_sdk.socket_mode.response import SocketModeResponse
from slack_sdk.web.async_client import AsyncWebClient

from signoff.channels.slack.inbound.handler import SlackHandler
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import address
from signoff.core.base.errors import LedgerError, SlackDeferred, SlackError, SlackPayloadUnreadable

log = structlog.get_logger(__name__)

_CONNECTING: Final = 20.0
_LOOK: Final = 2.0
_STUCK: Final = 30.0
_LONGEST_WAIT: Final = 60.0


class SocketListener:
    """Holds connections to Slack while the gateway runs.

    Slack sends each click over one of the connections, and renews each of them every few hours:
    with two, one is always open. The SDK reconnects a connection that ends. If it fails for a
    while, this class opens a new one, with growing delays.
    """

    name = "slack"
    remote = True

    def __init__(self, settings: SlackSettings, handler: SlackHandler) -> None:
        self._settings = settings
        self._handler = handler
        self._keepers: list[asyncio.Task[None]] = []
        self._up: set[int] = set()
        self._why = ""

    @property
    def problem(self) -> str:
        """The problem if no connection is open, else ""."""
        why = f": {self._why}" if self._why else ""
        return "" if self._up else f"there is no connection to Slack{why}"

    async def start(self) -> None:
        """Start connecting in the background; the gateway does not wait for Slack."""
        # The SDK logs each reconnection as an error with a traceback.
        logging.getLogger("slack_sdk").setLevel(logging.CRITICAL)
        self._keepers = [
            asyncio.create_task(self._keep(number)) for number in range(self._settings.connections)
        ]

    async def stop(self) -> None:
        """Close the connections; people press again what was not acknowledged."""
        keepers, self._keepers = self._keepers, []
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)
        self._up.clear()

    async def _keep(self, number: int) -> None:
        wait = 1.0
        while True:
            client = self._client()
            try:
                await self._connected(client)
                self._up.add(number)
                log.info("slack.connected", connection=number)
                wait = 1.0
                await self._until_stuck(client, number)
            except Exception as error:  # noqa: BLE001 -- any failure leads to a new connection
                self._why = str(error) if isinstance(error, SlackError) else type(error).__name__
                log.warning("slack.not_connected", connection=number, problem=self._why)
            finally:
                self._up.discard(number)
                await _closed(client)
            await asyncio.sleep(wait * random.uniform(0.8, 1.2))  # noqa: S311 -- not a secret
            wait = min(wait * 2, _LONGEST_WAIT)

    async def _connected(self, client: SocketModeClient) -> None:
        """Connect.

        Raises:
            SlackError: Slack gives no address to connect to, or does not answer there in time.
        """
        # We request the address ourselves: the SDK would retry silently, whatever Slack answers.
        # The address contains a ticket, so our messages never contain it.
        token = self._settings.app_token.get_secret_value()
        client.wss_uri = await address(client.web_client, token)
        try:
            await asyncio.wait_for(client.connect(), _CONNECTING)  # type: ignore[no-untyped-call]  # the SDK's
        except TimeoutError as error:
            problem = f"Slack did not accept a connection within {_CONNECTING:g} s."
            raise SlackDeferred(problem) from error

    async def _until_stuck(self, client: SocketModeClient, number: int) -> None:
        """Return when the SDK has failed to reconnect for a while."""
        down = 0.0
        while down < _STUCK:
            await asyncio.sleep(_LOOK)
            if await client.is_connected():
                self._up.add(number)
                down = 0.0
            else:
                self._up.discard(number)
                down += _LOOK

    def _client(self) -> SocketModeClient:
        token = self._settings.app_token.get_secret_value()
        web = AsyncWebClient(base_url=self._settings.base_url, retry_handlers=[])
        client = SocketModeClient(app_token=token, web_client=web)
        client.socket_mode_request_listeners.append(self._take)
        return client

    async def _take(self, client: AsyncBaseSocketModeClient, request: SocketModeRequest) -> None:
        """Handle an envelope, and acknowledge it only if that succeeded."""
        ack = None
        try:
            if request.type == "interactive":
                ack = await self._handler.handle(request.payload)
        except SlackPayloadUnreadable as error:
            log.warning("slack.unreadable", problem=str(error))
        except (LedgerError, SlackDeferred) as error:
            log.warning("slack.not_recorded", problem=str(error))
            return
        except Exception:
            log.exception("slack.failed")
            return
        response = SocketModeResponse(envelope_id=request.envelope_id, payload=ack)
        await client.send_socket_mode_response(response)


async def _closed(client: SocketModeClient) -> None:
    try:
        await client.close()  # type: ignore[no-untyped-call]  # the SDK's
    except Exception as error:  # noqa: BLE001 -- the connection is discarded
        log.debug("slack.close_failed", problem=str(error))
