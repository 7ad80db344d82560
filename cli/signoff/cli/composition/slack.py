"""Puts Slack and channels of one's own together: to send cards, and to take what is pressed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple

from signoff.broker.ledger.ledger import Ledger
from signoff.channels.custom import added_channels
from signoff.channels.pipeline.port import Channel
from signoff.cli.composition.parts import Parts
from signoff.cli.config.settings import Settings
from signoff.core.routing.resolve import SLACK_GROUP

if TYPE_CHECKING:
    from starlette.routing import Router

    from signoff.channels.gateway import Listener
    from signoff.channels.slack.groups import GroupKeeper


class Sending(NamedTuple):
    """What sends cards; `close` ends its connections, in the loop that used them."""

    channels: list[Channel]
    close: Callable[[], Awaitable[None]]


class Taking(NamedTuple):
    """What takes clicks; `close` ends its connections once nothing more comes in."""

    listeners: list[Listener]
    routers: list[Router]
    close: Callable[[], Awaitable[None]]


def further_channels(settings: Settings, ledger: Ledger | None = None) -> Sending:
    """Return the channels besides email, as far as they are set up.

    Args:
        settings: The settings.
        ledger: Where processes share how fast they may send.

    Raises:
        ConfigError: One of one's own cannot be made.
    """
    added = added_channels(settings.channels)
    if not settings.slack.enabled:
        return Sending(added, _nothing)
    # Only those who use it have the client in memory.
    from signoff.channels.slack.outbound.channel import SlackChannel  # noqa: PLC0415
    from signoff.channels.slack.web import SlackWeb  # noqa: PLC0415

    web = SlackWeb(settings.slack)
    app = settings.slack.bot_token.get_secret_value()
    return Sending([SlackChannel(web, ledger, app=app), *added], web.close)


def slack_groups(settings: Settings) -> list[str]:
    """Return the ids of the user groups that policies ask."""
    asked = (one for rule in (*settings.policies, settings.default) for one in rule.references)
    groups = (one.removeprefix(SLACK_GROUP) for one in asked if one.startswith(SLACK_GROUP))
    return list(dict.fromkeys(groups))


def group_keeper(parts: Parts) -> tuple[GroupKeeper, Callable[[], Awaitable[None]]] | None:
    """Return what looks up the user groups that policies ask, and what closes its connections.

    None without Slack. Policies that are read later may ask groups, so it is there without any.
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


def slack_inbound(parts: Parts) -> Taking:
    """Return what takes clicks: connections over Socket Mode, the route for HTTP, or both."""
    settings = parts.settings.slack
    if not settings.enabled:
        return Taking([], [], _nothing)
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
    return Taking(listeners, [make_slack_router(settings, handler)], web.close)


async def _nothing() -> None:
    """Close what was never opened."""
