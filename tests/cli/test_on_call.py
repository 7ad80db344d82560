"""`signoff people on-call`: who would be asked now, until when, and who next."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from signoff.cli.main import app

SETTINGS = """\
[redis]
url = "{url}"
prefix = "{prefix}"
[delivery]
quiet_hours = true
[[people]]
id = "mara"
name = "Mara Lind"
email = "mara@example.com"
time_zone = "Europe/Berlin"
hours = ["Mon-Fri 09:00-17:00"]
[[people]]
id = "tom"
name = "Tom Weber"
email = "tom@example.com"
time_zone = "Europe/Berlin"
[[people]]
id = "ann"
email = "ann@example.com"
away = [{{ from = 2027-03-01, to = 2027-03-07 }}]
[[queues]]
name = "finance"
members = ["mara", "tom", "ann"]
pick = "round-robin"
[[schedules]]
name = "rota"
time_zone = "Europe/Berlin"
people = ["mara", "tom"]
start = 2027-01-04T09:00:00
every = "1w"
[[policies]]
name = "deploy"
[[policies.levels]]
ask = ["requester.manager"]
[[policies.levels]]
name = "both"
ask = ["schedule:rota", "ann"]
quorum = 2
[default]
ask = ["tom"]
time_zone = "America/New_York"
"""


@pytest.fixture
def run(tmp_path: Path, redis_url: str, prefix: str) -> Callable[..., str]:
    """Return a function that runs the command with a schedule and a queue in the settings."""
    file = tmp_path / "signoff.toml"
    file.write_text(SETTINGS.format(url=redis_url, prefix=prefix))

    def call(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(app, ["--config", str(file), "people", *words])
        assert result.exit_code == code, result.output
        return result.output

    return call


def cells(text: str) -> list[list[str]]:
    """Return the cells of a printed table, without its headings."""
    lines = text.rstrip().splitlines()[1:]
    return [[cell.strip() for cell in line.split("  ") if cell.strip()] for line in lines]


def test_schedules_and_queues_are_shown_with_their_next_people(run: Callable[..., str]) -> None:
    """Times of a schedule are in its zone; a queue in turn names the member after the next one."""
    rota, finance = cells(run("on-call", "--at", "2027-03-02T07:00+01:00"))
    assert rota == [
        "schedule:rota",
        "Mara Lind, waits for Mara Lind's morning, 09:00 Europe/Berlin",
        "Mon 8 Mar 2027, 09:00 CET",
        "Tom Weber",
        "Mon 15 Mar 2027, 09:00 CET",
    ]
    assert finance[0] == "queue:finance"
    assert finance[1].startswith("Mara Lind, waits")
    assert finance[2] == "Tom Weber (next request)"


def test_an_absence_that_was_just_set_counts(run: Callable[..., str]) -> None:
    """The delegate is named with the person, until the absence ends; the zone can be chosen."""
    run("away", "mara", "--from", "2027-03-03", "--until", "2027-03-04", "--delegate", "tom")
    words = ("rota", "--at", "2027-03-03 12:00", "--zone", "Asia/Kathmandu")
    (rota,) = cells(run("on-call", *words))
    assert rota == [
        "schedule:rota",
        "Tom Weber for Mara Lind",
        "Fri 5 Mar 2027, 04:45 UTC+0545",
        "Mara Lind",
        "Mon 8 Mar 2027, 13:45 UTC+0545",
    ]
    (found,) = json.loads(run("on-call", *words, "--json"))
    assert found["name"] == "schedule:rota"
    assert found["now"]["people"] == [{"id": "tom", "instead_of": "mara"}]
    assert found["now"]["until"] == found["next"]["start"] == "2027-03-04T23:00:00Z"
    assert found["now"]["notes"] == ["Mara Lind is away; Tom Weber stands in"]


def test_a_policy_has_a_line_for_each_level(run: Callable[..., str]) -> None:
    """Levels that need the requester say so, and quorums that cannot be met say why."""
    first, second = cells(run("on-call", "deploy", "--at", "2027-03-02 12:00", "--zone", "UTC"))
    assert first == ["deploy, level 1", "depends on the call: requester.manager"]
    assert second[:2] == [
        "deploy, both",
        "Mara Lind (2 of them must approve, and only 1 can be asked)",
    ]
    assert second[2:] == [
        "Mon 8 Mar 2027, 00:00 UTC",
        "Mara Lind, ann",
        "Mon 8 Mar 2027, 08:00 UTC",
    ]
    assert cells(run("on-call", "default")) == [["default", "Tom Weber"]]


def test_unknown_names_and_moments_are_refused(run: Callable[..., str]) -> None:
    """The message lists the names that there are."""
    said = run("on-call", "nobody", code=2)
    assert "schedule:rota, queue:finance, deploy, default" in " ".join(said.split())
    assert "--at" in run("on-call", "--at", "someday", code=2)
    assert "--zone" in run("on-call", "--zone", "Mars", code=2)


def test_settings_without_groups_say_so(tmp_path: Path, redis_url: str, prefix: str) -> None:
    """Then only policies can be named."""
    file = tmp_path / "signoff.toml"
    text = SETTINGS.format(url=redis_url, prefix=prefix)
    start = text.index("[[queues]]")
    file.write_text(text[:start] + '[default]\nask = ["tom"]\n')
    result = CliRunner().invoke(app, ["--config", str(file), "people", "on-call"])
    assert result.exit_code == 0
    assert "no schedules and no queues" in result.output
