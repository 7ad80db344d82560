"""A peer that cannot be measured is named with the reason, and the others are measured."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.peers.__main__ import Found, Plan, measure, show
from benchmarks.peers.contenders import CONTENDERS, Contender
from benchmarks.peers.installing import Environment, NotInstalled
from rich.console import Console


def contender(driven: str, environment: Environment) -> Contender:
    """Return a peer that cannot be measured."""
    return Contender("nobody", driven, "no", "nothing", environment)


def test_a_peer_that_is_not_installed_is_reported_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program is named, and does not count as installed."""
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    environment = Environment(name="nobody", python=("nothing",), root=tmp_path)
    with pytest.raises(NotInstalled, match="no-python is not installed"):
        environment.install()
    assert not list(tmp_path.rglob(".installed"))


async def test_a_peer_that_fails_to_start_has_its_reason_in_the_table(tmp_path: Path) -> None:
    """Its row has the reason, and the other rows have their results."""
    nobody = contender("no_such_module:Peer", Environment(shows=("celery",)))
    with (tmp_path / "table").open("w") as file:
        console = Console(file=file, width=200)
        found = await measure(Plan(rounds=1), [nobody], folder=tmp_path, console=console)
        show(console, found)
    assert "No module named 'benchmarks.peers.no_such_module'" in found[0].problem
    assert found[0].problem in (tmp_path / "table").read_text()


def test_every_peer_describes_its_unit_and_its_durability() -> None:
    """Results without these descriptions mean nothing."""
    assert len({one.name for one in CONTENDERS}) == len(CONTENDERS)
    for one in CONTENDERS:
        assert one.durable
        assert one.unit
        assert not Found(one).problem
