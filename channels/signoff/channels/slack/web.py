"""The methods of Slack's Web API that we use, with translated errors.

https://docs.slack.dev/reference/methods
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import aiohttp
import structlog
from slack_sdk.errors import SlackApiError, SlackClientError
from slack_sdk.models.blocks import Block
from slack_sdk.models.views import View
from slack_sdk.web.async_client import AsyncWebClient

from signoff.channels.slack.references import CARD, Receipt
from signoff.channels.slack.settings import SlackSettings
from signoff.core.base.errors import SlackDeferred, SlackError, SlackRefused

log = structlog.get_logger(__name__)

SCOPES: Final = (
    "chat:write",
    "im:write",
    "im:history",
    "channels:history",
    "channels:read",
    "groups:history",
    "groups:read",
    "users:read",
    "users:read.email",
    "usergroups:read",
    "commands",
)
"""The scopes that the bot token needs."""

_LATER: Final = frozenset(
    {"ratelimited", "rate_limited", "internal_error", "fatal_error", "service_unavailable"}
    | {"request_timeout", "team_added_to_org", "accesslimited"}
)
_TO_DO: Final = {
    "token_revoked": "install the app again and set the new bot_token",
    "invalid_auth": "set bot_token to the app's Bot User OAuth Token",
    "not_authed": "set bot_token to the app's Bot User OAuth Token",
    "account_inactive": "install the app again: its bot user was deactivated",
    "token_expired": "install the app again and set the new bot_token",
    "channel_not_found": "check the channel's id and invite the app to it",
    "not_in_channel": "invite the app: /invite @Signoff in the channel",
    "is_archived": "the channel is archived: name another one in the policy",
    "users_not_found": "set the person's Slack id under [[people]]",
    "no_such_subteam": "correct the group's id in the policy, or enable it in Slack",
    "user_not_found": "correct the person's Slack id under [[people]]",
    "user_disabled": "the account is deactivated: correct the person's Slack id under [[people]]",
    "missing_scope": "give the app the scopes of `signoff slack manifest` and install it again",
}
UNUSABLE: Final = frozenset(
    {"token_revoked", "token_expired", "invalid_auth", "not_authed", "account_inactive"}
    | {"missing_scope", "no_permission", "access_denied", "team_access_not_granted"}
    | {"org_login_required", "ekm_access_denied", "enterprise_is_restricted"}
)
"""The errors about the app or its token, and not about a message or its recipient."""

_FOREIGN: Final = (
    *(SlackClientError, aiohttp.ClientError, TimeoutError, OSError, ValueError),
    AttributeError,
)
"""The errors of the SDK and the network; the SDK parses any plain text as JSON."""

_HISTORY: Final = 200
_MOST_PAGES: Final = 5
_UNSURE: Final = frozenset({"internal_error", "fatal_error"})
"""Errors after which the call may have had an effect: https://docs.slack.dev/reference/methods."""

_LIMITED: Final = frozenset({"ratelimited", "rate_limited"})
_CLIENT_ERROR: Final = 400
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500


class Me(NamedTuple):
    """The owner of the bot token; a part that Slack does not send is ""."""

    team: str
    enterprise: str
    user: str
    url: str


class Member(NamedTuple):
    """A user of Slack, as ``users.info`` describes them.

    Attributes:
        email: The address, "" if there is none, or if the user has not confirmed it.
        team: The id of the user's team, "" if Slack does not send it.
        enterprise: The id of the user's organisation, "" outside Enterprise Grid.
        human: Whether this is an active account of a person.
    """

    email: str
    team: str
    enterprise: str
    human: bool


class SlackWeb:
    """Calls the Web API, with one session that is created in the event loop of the first call.

    It does not retry: the caller knows whether a retry is safe.
    """

    def __init__(self, settings: SlackSettings) -> None:
        self._settings = settings
        self._client: AsyncWebClient | None = None
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        """Close the connections."""
        session, self._session, self._client = self._session, None, None
        if session is not None:
            await session.close()

    async def whoami(self) -> Me:
        """Return the owner of the token (``auth.test``)."""
        found = await self._call("auth.test")
        return Me(
            str(found.get("team_id") or ""),
            str(found.get("enterprise_id") or ""),
            str(found.get("user_id") or ""),
            str(found.get("url") or ""),
        )

    async def direct(self, user: str) -> str:
        """Return the id of the conversation with a user (``conversations.open``)."""
        found = await self._call("conversations.open", users=user)
        return str(found["channel"]["id"])

    async def user_of(self, email: str) -> str:
        """Return the id of the user with an email address (``users.lookupByEmail``)."""
        found = await self._call("users.lookupByEmail", get=True, email=email)
        return str(found["user"]["id"])

    async def member(self, user: str) -> Member:
        """Return what Slack knows about a user (``users.info``)."""
        user_info = (await self._call("users.info", get=True, user=user))["user"]
        home = user_info.get("enterprise_user") or {}
        robot = user_info.get("is_bot") or user_info.get("deleted") or user_info.get("is_stranger")
        email = str((user_info.get("profile") or {}).get("email") or "")
        if email and user_info.get("is_email_confirmed") is False:
            log.warning("slack.email_not_confirmed", user=user)
            email = ""
        return Member(
            email,
            str(user_info.get("team_id") or ""),
            str(home.get("enterprise_id") or ""),
            not robot,
        )

    async def group(self, group: str) -> list[str]:
        """Return the ids of the users in a user group (``usergroups.users.list``)."""
        found = await self._call("usergroups.users.list", get=True, usergroup=group)
        return [str(user) for user in found.get("users") or ()]

    async def post(
        self,
        channel: str,
        text: str,
        blocks: Sequence[Block],
        *,
        metadata: dict[str, Any] | None = None,
        thread: str = "",
    ) -> Receipt:
        """Post a message (``chat.postMessage``).

        Raises:
            SlackDeferred: With ``unsure`` if the message may have been posted despite the error.
        """
        more: dict[str, Any] = {"metadata": metadata} if metadata is not None else {}
        if thread:
            more["thread_ts"] = thread
        found = await self._call(
            "chat.postMessage",
            channel=channel,
            text=text,
            blocks=[block.to_dict() for block in blocks],
            unfurl_links=False,
            unfurl_media=False,
            **more,
        )
        return Receipt(str(found["channel"]), str(found["ts"]))

    async def update(
        self, receipt: Receipt, text: str, blocks: Sequence[Block], metadata: dict[str, Any]
    ) -> None:
        """Rewrite a message (``chat.update``)."""
        await self._call(
            "chat.update",
            channel=receipt.channel,
            ts=receipt.ts,
            text=text,
            blocks=[block.to_dict() for block in blocks],
            metadata=metadata,
        )

    async def whisper(self, channel: str, user: str, text: str, blocks: Sequence[Block]) -> str:
        """Show one user a message in a conversation (``chat.postEphemeral``); return its ts."""
        found = await self._call(
            "chat.postEphemeral",
            channel=channel,
            user=user,
            text=text,
            blocks=[block.to_dict() for block in blocks],
        )
        return str(found.get("message_ts") or "")

    async def open_view(self, trigger: str, view: View) -> None:
        """Open a modal (``views.open``); a trigger opens one modal, within 3 seconds."""
        await self._call("views.open", trigger_id=trigger, view=view.to_dict())

    async def push_view(self, trigger: str, view: View) -> None:
        """Open a modal on top of the current one (``views.push``)."""
        await self._call("views.push", trigger_id=trigger, view=view.to_dict())

    async def find_card(
        self, channel: str, payload: dict[str, str], *, since: float, until: float
    ) -> tuple[Receipt | None, bool]:
        """Search a conversation for one of our cards (``conversations.history``), newest first.

        Args:
            channel: The conversation.
            payload: The payload of the message's metadata.
            since: Seconds since the epoch; older messages are skipped.
            until: Seconds since the epoch. With ``oldest`` alone Slack begins with the oldest ones.

        Returns:
            The location of the card, None if it was not found; and whether all messages were
                searched.
        """
        cursor: dict[str, Any] = {}
        for _ in range(_MOST_PAGES):
            found = await self._call(
                "conversations.history",
                get=True,
                channel=channel,
                oldest=f"{since:.6f}",
                latest=f"{until:.6f}",
                limit=_HISTORY,
                include_all_metadata=True,
                **cursor,
            )
            for message in found.get("messages") or ():
                metadata = message.get("metadata") or {}
                if metadata.get("event_type") == CARD and metadata.get("event_payload") == payload:
                    return Receipt(channel, str(message["ts"])), True
            following = (found.get("response_metadata") or {}).get("next_cursor")
            if not following:
                return None, True
            cursor = {"cursor": following}
        return None, False

    async def is_member(self, channel: str) -> bool:
        """Return whether the bot is in a channel (``conversations.info``)."""
        found = await self._call("conversations.info", get=True, channel=channel)
        return bool((found.get("channel") or {}).get("is_member"))

    async def can_connect(self, app_token: str) -> None:
        """Request a Socket Mode address, without connecting (``apps.connections.open``)."""
        await address(self._connected(), app_token)

    async def scopes(self) -> frozenset[str]:
        """Return the token's scopes, from the header of a response."""
        try:
            answer = await self._connected().api_call("auth.test")
        except _FOREIGN as error:
            raise _translated("auth.test", error) from error
        header = str(answer.headers.get("x-oauth-scopes", ""))
        return frozenset(scope.strip() for scope in header.split(",") if scope.strip())

    async def _call(self, method: str, *, get: bool = False, **arguments: Any) -> dict[str, Any]:  # noqa: ANN401 -- Slack's JSON
        given: dict[str, Any] = {"params": arguments} if get else {"json": arguments}
        verb = "GET" if get else "POST"
        try:
            answer = await self._connected().api_call(method, http_verb=verb, **given)
        except _FOREIGN as error:
            raise _translated(method, error) from error
        data = answer.data
        return data if isinstance(data, dict) else {}

    def _connected(self) -> AsyncWebClient:
        if self._client is None or self._session is None:
            limit = aiohttp.ClientTimeout(total=self._settings.timeout)
            self._session = aiohttp.ClientSession(
                timeout=limit, loop=asyncio.get_running_loop(), trust_env=True
            )
            self._client = AsyncWebClient(
                token=self._settings.bot_token.get_secret_value(),
                base_url=self._settings.base_url,
                session=self._session,
                # The SDK's retries after a lost connection would post twice.
                retry_handlers=[],
            )
        return self._client


async def address(client: AsyncWebClient, app_token: str) -> str:
    """Return the address for Socket Mode: a secret that is valid for one connection.

    Raises:
        SlackError: Slack does not return an address.
    """
    try:
        return str((await client.apps_connections_open(app_token=app_token))["url"])
    except (*_FOREIGN, KeyError) as error:
        raise _translated("apps.connections.open", error) from error


def _translated(method: str, error: Exception) -> SlackError:
    """Translate an error of the SDK or the network into one of ours."""
    if isinstance(error, UnicodeError):
        return SlackRefused(f"{method} was not asked: {error}.", code="not_text")
    if isinstance(error, aiohttp.ClientConnectorError):
        return SlackDeferred(f"Slack cannot be reached for {method}: {error}.")
    if not isinstance(error, SlackApiError):
        # Slack may or may not have received the request.
        what = f"{type(error).__name__}: {error}"
        return SlackDeferred(f"Slack did not answer {method}: {what}.", unsure=True)
    response = error.response
    # A response of the SDK, or of aiohttp if the body could not be read.
    status = getattr(response, "status_code", getattr(response, "status", 200))
    headers = getattr(response, "headers", None) or {}
    data = getattr(response, "data", None)
    code = str(data.get("error", "")) if isinstance(data, dict) else ""
    limited = status == _TOO_MANY or code in _LIMITED
    if limited or code in _LATER or status >= _SERVER_ERROR:
        return SlackDeferred(
            f"Slack answered {method} with {code or status}.",
            after=_seconds(headers.get("Retry-After") or headers.get("retry-after")),
            unsure=status >= _SERVER_ERROR or code in _UNSURE,
            limited=limited,
        )
    is_json = "json" in str(headers.get("Content-Type", "")).lower()
    if not code and (status < _CLIENT_ERROR or not is_json):
        # A page from a proxy, or from Slack during maintenance; or an answer that was cut off.
        what = "invalid JSON" if is_json else "no JSON"
        return SlackDeferred(
            f"Slack answered {method} with status {status} and {what}.", unsure=True
        )
    advice = _TO_DO.get(code, "")
    more = f"; {advice}" if advice else ""
    return SlackRefused(
        f"Slack refused {method}: {code or f'status {status}'}{more}.", code=code or str(status)
    )


def _seconds(text: object) -> float:
    try:
        seconds = float(str(text))
        # Slack never sends more than a day, nor NaN; either would delay a card for too long.
        return min(max(seconds, 0.0), 86_400.0) if not math.isnan(seconds) else 0.0
    except ValueError:
        return 0.0
