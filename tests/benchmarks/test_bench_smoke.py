"""The benchmark runs to its end and prints everything that it is for. No timing is judged here."""

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


def test_a_quick_run_prints_the_machine_and_every_ratio() -> None:
    """A small run ends well, says what the machine was, and shows each ratio beside its aim."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    table = done.stdout.partition("Ratios")[2]
    for ratio in RATIOS:
        (line,) = [line for line in table.splitlines() if ratio in line]
        assert "met" in line or "missed" in line
    for word in ("cores", "Python", "Redis", "appendfsync everysec"):
        assert word in done.stdout


def test_a_quick_run_of_the_mails_prints_every_ratio() -> None:
    """Answers by mail are read, proven, and read beside bombs; all of them count."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.mail", "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for ratio in ("read / decide:", "proven / read:", "bombs / read:"):
        assert ratio in done.stdout


def test_a_quick_run_of_turns_prints_every_ratio() -> None:
    """Without Signoff and with it, on ADK's store and on Signoff's, with one worker and two."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.turns", "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for ratio in ("d 1 / c stock:", "d 1 / c same:", "d 2 / c stock:", "d 2 / c same:"):
        assert ratio in done.stdout


def test_a_quick_run_of_code_that_waits_prints_every_ratio() -> None:
    """A plain call, a gated one, code, and code that stops: each has its time, and its bytes."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.code", "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for ratio in (
        "sandbox / call, ms:",
        "gate / call, ms:",
        "code / gate, ms:",
        "code / call, ms:",
    ):
        assert ratio in done.stdout
    assert "code / gate, bytes in Redis:" in done.stdout


def test_a_quick_run_of_peers_that_need_no_installation_prints_the_table() -> None:
    """Signoff and bare Celery do units, answer at rest and leave requests open."""
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


def test_a_quick_run_of_scale_prints_every_ratio() -> None:
    """Two piles are filled, looked at and compared."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--quick"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    for name in ("decide", "all pending", "ended, a search without results", "signoff doctor"):
        assert name in done.stdout
