"""Freezes: what operators have stopped. A frozen tool does not start, even when it was approved."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from signoff.core.base.model import Value


class Freeze(Value):
    """One freeze; without an app and a tool it stops everything.

    Attributes:
        id: Its own, so that a later freeze of the same tool is another one.
        app: The app whose tools it stops; "" for those of all apps.
        tool: The tool that it stops; "" for all.
        by: Who has frozen it.
        why: Why.
        at: Since when (UTC).
    """

    # The script `commit` reads the first three.
    id: str
    app: str = ""
    tool: str = ""
    by: str
    why: str
    at: datetime

    @property
    def place(self) -> tuple[str, str]:
        """The app and the tool: there is one freeze for each."""
        return self.app, self.tool

    @property
    def stops(self) -> str:
        """What it stops, in words: ``reimburse()``, ``the app finance``, ``everything``."""
        return shown_place(self.app, self.tool)

    def covers(self, app: str, tool: str) -> bool:
        """Say whether it stops a tool of an app."""
        return self.app in {"", app} and self.tool in {"", tool}

    def stops_app(self, app: str) -> bool:
        """Say whether it stops all that an app does."""
        return not self.tool and self.app in {"", app}


def shown_place(app: str, tool: str) -> str:
    """Say in words what a freeze of this app and tool stops."""
    if tool:
        return f"{tool}() of {app}" if app else f"{tool}()"
    return f"the app {app}" if app else "everything"


def covering(
    freezes: Iterable[Freeze], app: str, tools: Collection[str], *, despite: Sequence[str] = ()
) -> tuple[Freeze, ...]:
    """Return the freezes that stop one of these tools of an app.

    Args:
        freezes: All there are.
        app: The app.
        tools: The names of the tools.
        despite: The ids of freezes that do not count, because somebody has broken the glass.
    """
    return tuple(
        one
        for one in freezes
        if one.id not in despite and any(one.covers(app, tool) for tool in tools)
    )
