"""`signoff.testing.timeline`: the forecast, for tests of custom policies."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from signoff.cli.config.settings import load_settings
from signoff.core.simulation.forecast import End
from signoff.testing import timeline

SETTINGS = load_settings(Path(__file__).parents[2] / "examples" / "signoff.toml")
LARGE = {"amount": 25000}


def test_a_timeline_of_the_examples() -> None:
    """A large expense is Tom's for four hours, in the time zone of the settings."""
    line = timeline(
        SETTINGS, "reimburse", LARGE, user="nora", at="2026-07-01 17:30", zone="Europe/Berlin"
    )
    (level,) = line.levels
    assert (line.terms.policy, level.people) == ("large expenses", ("tom",))
    assert level.at == datetime(2026, 7, 1, 15, 30, tzinfo=UTC)
    assert (line.end, line.end_at) == (End.REJECT, level.at + timedelta(hours=4))
    assert timeline(SETTINGS, "reimburse", LARGE, user="nora", at=level.at) == line


@pytest.mark.parametrize(
    ("at", "why"),
    [
        ("Friday 17:30", "depends on the present day"),
        (datetime.fromisoformat("2026-07-01"), "zone"),
    ],
)
def test_timeline_refuses_a_moment_that_depends_on_day_or_machine(
    at: datetime | str, why: str
) -> None:
    """A test must not mean another time on another day or machine."""
    with pytest.raises(ValueError, match=why):
        timeline(SETTINGS, "reimburse", LARGE, at=at)
