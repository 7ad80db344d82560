"""The benchmarks run to their end and print all their results. No timing is checked."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.soak
ROOT = Path(__file__).parents[2]
RATIOS = (
    "b / a, round trips",
    "d / c, runs",
    "e / one hop of a, p99",
    "f: beyond the payload",
    "f: decide at",
)
PRINTED = {
    "benchmarks": ("cores", "Python", "Redis", "appendfsync everysec"),
    "benchmarks.mail": ("read / decide:", "proven / read:", "bombs / read:"),
    "benchmarks.turns": ("d 1 / c stock:", "d 1 / c same:", "d 2 / c stock:", "d 2 / c same:"),
    "benchmarks.code": (
        "sandbox / call, ms:",
        "gate / call, ms:",
        "code / gate, ms:",
        "code / call, ms:",
        "code / gate, bytes in Redis:",
    ),
    "benchmarks.scale": (
        "decide",
        "all pending",
        "ended, a search without results",
        "signoff doctor",
    ),
}


@pytest.mark.parametrize(("module", "wanted"), PRINTED.items(), ids=PRINTED)
def test_a_quick_run_prints_every_ratio(module: str, wanted: tuple[str, ...]) -> None:
    """A small run succeeds, and prints the machine or its measurements."""
    done = subprocess.run(
        [sys.executable, "-m", module, "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert [word for word in wanted if word not in done.stdout] == []
    if module == "benchmarks":
        table = done.stdout.partition("Ratios")[2]
        for ratio in RATIOS:
            (line,) = [line for line in table.splitlines() if ratio in line]
            assert "met" in line or "missed" in line


def test_a_quick_run_of_peers_that_need_no_installation_prints_the_table() -> None:
    """Signoff and bare Celery do units, answer at rest, leave requests open, and stop."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.peers", "--quick", "--only", "signoff,celery"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "Round 1 of 1: signoff " in done.stdout
    assert "not measured" not in done.stdout
    assert "failed" not in done.stdout
