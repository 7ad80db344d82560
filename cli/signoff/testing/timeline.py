"""What would happen to a call, for tests of one's own policies."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from zoneinfo import ZoneInfo

from pydantic import JsonValue

from signoff.channels.forecast import Rulebook, call_facts, timeline_of
from signoff.core.base.moments import read_moment
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
    """Return what happens to a call if nobody answers.

    Args:
        settings: As `signoff.cli.config.settings.load_settings` returns them.
        tool: The tool that is called.
        args: Its arguments.
        at: When it begins to wait: a moment with a time zone, or a day and a time as text,
            ``"2026-11-20 17:30"``.
        zone: Where clocks show that text.
        user: Who asks: an id or an address.
        app: The agent's folder.
        agent: The agent.

    Raises:
        ValueError: The text is no moment; names of days of the week are not read, because they
            would mean another day each week.
        NotCanonical: The arguments have no digest.
    """
    if isinstance(at, str):
        start = read_moment(at, ZoneInfo(zone))
    elif at.tzinfo is None:
        raise ValueError(f"{at} is in no time zone: write it as text, and give its zone")
    else:
        start = at
    return timeline_of(
        settings, call_facts(tool, args, app=app, agent=agent, user=user), start=start
    )
