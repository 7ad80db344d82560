"""Predicts what happens to a call, for tests of your own policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from pydantic import JsonValue

    from signoff.channels.forecast import Rulebook
    from signoff.core.simulation.forecast import Timeline


def timeline(
    settings: Rulebook,
    tool: str,
    args: Mapping[str, JsonValue] | None = None,
    *,
    at: datetime | str,
    zone: str = "UTC",
    user: str = "",
    app: str = "",
    agent: str = "",
) -> Timeline:
    """Return the timeline of a call that nobody answers.

    Args:
        settings: The settings from `signoff.cli.config.settings.load_settings`.
        tool: The tool that is called.
        args: Its arguments.
        at: When it begins to wait: a datetime with a time zone, or a day and a time as text, such
            as ``"2026-11-20 17:30"``.
        zone: The time zone of that text.
        user: The requester: an id or an address.
        app: The agent's folder.
        agent: The agent.

    Raises:
        ValueError: The text is not a day and a time. Names of weekdays are refused, because they
            would mean another day each week.
        NotCanonical: The arguments have no digest.
    """
    from signoff.channels.forecast import call_facts, timeline_of  # noqa: PLC0415 -- the domain
    from signoff.core.base.moments import read_moment  # noqa: PLC0415

    if isinstance(at, str):
        start = read_moment(at, ZoneInfo(zone))
    elif at.tzinfo is None:
        raise ValueError(f"{at} is in no time zone: write it as text, and give its zone")
    else:
        start = at
    return timeline_of(
        settings, call_facts(tool, args, app=app, agent=agent, user=user), start=start
    )
