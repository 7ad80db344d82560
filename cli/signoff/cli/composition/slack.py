"""Builds Slack and custom channels, which send cards, and the receivers of Slack's clicks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from signoff.channels.custom import added_channels
from signoff.channels.pipeline.port import Channel
from signoff.cli.composition.parts import Parts
from signoff.cli.config.settings import Settings
from signoff.core.routing.resolve import SLACK_GROUP

if TYPE_CHECKING:
    from starlette.routing import Router

    from signoff.channels.gateway import Listener
    from signoff.channels.slack.groups import GroupKeeper


class FurtherChannels(NamedTuple):
    """The channels besides email; `close` closes their connections in the loop that used them."""

    channels: list[Channel]
    close: Callable[[], Awaitable[None]]


class ClickReceivers(NamedTuple):
    """The receivers of clicks; call `close` to close their connections when they have stopped."""

    listeners: list[Listener]
    routers: list[Router]
    close: Callable[[], Awaitable[None]]


def further_channels(parts: Parts) -> FurtherChannels:
    """Return the channels besides email that are set up.

    Raises:
        ConfigError: A custom channel cannot be created.
    """
    settings, ledger = parts.settings, parts.ledger
    added = added_channels(settings.channels)
    if not settings.slack.enabled:
        return FurtherChannels(added, _nothing)
    # Imported here, so that processes without Slack do not load the client.
    from signoff.channels.slack.outbound.channel import SlackChannel  # noqa: PLC0415
    from signoff.channels.slack.outbound.conversations import Conversations  # noqa: PLC0415
    from signoff.channels.slack.outbound.rate_limit import SlackRateLimit  # noqa: PLC0415
    from signoff.channels.slack.web import SlackWeb  # noqa: PLC0415

    web = SlackWeb(settings.slack)
    conversations = Conversations(web, ledger, app=settings.slack.bot_token.get_secret_value())
    slack = SlackChannel(web, conversations, SlackRateLimit(ledger))
    return FurtherChannels([slack, *added], web.close)


def slack_groups(settings: Settings) -> list[str]:
    """Return the ids of the user groups that policies ask."""
    asked = (one for rule in (*settings.policies, settings.default) for one in rule.references)
    groups = (one.removeprefix(SLACK_GROUP) for one in asked if one.startswith(SLACK_GROUP))
    return list(dict.fromkeys(groups))


def group_keeper(parts: Parts) -> tuple[GroupKeeper, Callable[[], Awaitable[None]]] | None:
    """Return the keeper of the user groups that policies ask, and a function to close it.

    Returns None only without Slack: policies that are loaded later may ask groups too.
    """
    settings = parts.settings
    if not settings.slack.enabled:
        return None
    from signoff.channels.slack.groups import GroupKeeper  # noqa: PLC0415
    from signoff.channels.slack.inbound.identity import Identities  # noqa: PLC0415
    from signoff.channels.slack.web import SlackWeb  # noqa: PLC0415

    web = SlackWeb(settings.slack)
    identities = Identities(web, parts.decisions.directory)
    return GroupKeeper(parts.ledger, web, identities, slack_groups(settings)), web.close


def slack_inbound(parts: Parts) -> ClickReceivers:
    """Return the receivers of clicks: Socket Mode, the route for HTTP, or both."""
    settings = parts.settings.slack
    if not settings.enabled:
        return ClickReceivers([], [], _nothing)
    from signoff.channels.slack.inbound.handler import SlackHandler  # noqa: PLC0415
    from signoff.channels.slack.inbound.http import make_slack_router  # noqa: PLC0415
    from signoff.channels.slack.inbound.identity import Identities  # noqa: PLC0415
    from signoff.channels.slack.inbound.socket import SocketListener  # noqa: PLC0415
    from signoff.channels.slack.web import SlackWeb  # noqa: PLC0415

    web = SlackWeb(settings)
    handler = SlackHandler(parts.decisions, web, Identities(web, parts.decisions.directory))
    listeners: list[Listener] = []
    if settings.socket_mode:
        listeners.append(SocketListener(settings, handler))
    return ClickReceivers(listeners, [make_slack_router(settings, handler)], web.close)


async def _nothing() -> None:
    """Do nothing: there is no connection to close."""
