"""Options that name a moment or a time zone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from datetime import datetime
    from zoneinfo import ZoneInfo

_YEARS: Final = range(1970, 9000)
"""Deadlines after these years may be later than any date that Python knows."""

At = Annotated[
    str, typer.Option(metavar="MOMENT", help="When: 'Friday 17:30', '2026-11-20T17:30', 'now'.")
]


def zone_of(name: str) -> ZoneInfo:
    """Return the time zone of ``--zone``; that of this machine for "".

    Raises:
        typer.BadParameter: There is no such time zone.
    """
    from signoff.core.directory.hours import zone  # noqa: PLC0415

    try:
        return zone(name or _here())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--zone") from error


def _here() -> str:
    """Return the name of this machine's time zone."""
    from tzlocal import get_localzone_name  # noqa: PLC0415

    return get_localzone_name() or "UTC"


def moment_of(text: str, place: ZoneInfo) -> datetime:
    """Return the moment (UTC) of ``--at``.

    Raises:
        typer.BadParameter: The text is not a moment, or one that is too far away.
    """
    from datetime import UTC, datetime  # noqa: PLC0415

    from signoff.core.base.moments import read_moment  # noqa: PLC0415

    try:
        moment = read_moment(text, place, now=datetime.now(UTC).replace(microsecond=0))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    if moment.year not in _YEARS:
        raise typer.BadParameter(f"{moment.year} is too far from now", param_hint="--at")
    return moment
