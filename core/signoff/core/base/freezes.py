"""Freezes: tools and apps that operators have stopped. Even approved calls do not start."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from signoff.core.base.model import Value


class Freeze(Value):
    """One freeze; without an app and a tool it stops everything.

    Attributes:
        id: A unique id: a later freeze of the same tool has another one.
        app: The app whose tools it stops; "" for all apps.
        tool: The tool that it stops; "" for all tools.
        by: Who froze it.
        why: The reason.
        at: When it was frozen (UTC).
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
        """The app and the tool; there is at most one freeze for each pair."""
        return self.app, self.tool

    @property
    def stops(self) -> str:
        """The stopped tools in words: ``reimburse()``, ``the app finance``, ``everything``."""
        return shown_place(self.app, self.tool)

    def covers(self, app: str, tool: str) -> bool:
        """Say whether it stops a tool of an app."""
        return self.app in {"", app} and self.tool in {"", tool}

    def stops_app(self, app: str) -> bool:
        """Say whether it stops a whole app."""
        return not self.tool and self.app in {"", app}


def shown_place(app: str, tool: str) -> str:
    """Return the tools that a freeze of this app and tool stops, in words."""
    if tool:
        return f"{tool}() of {app}" if app else f"{tool}()"
    return f"the app {app}" if app else "everything"


def covering(
    freezes: Iterable[Freeze], app: str, tools: Collection[str], *, despite: Sequence[str] = ()
) -> tuple[Freeze, ...]:
    """Return the freezes that stop one of these tools of an app.

    Freezes in `despite` are ignored by an emergency override.
    """
    return tuple(
        one
        for one in freezes
        if one.id not in despite and any(one.covers(app, tool) for tool in tools)
    )
