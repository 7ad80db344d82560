"""Many approvals expire at the same time while a process is killed: each escalates once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.promise
@pytest.mark.soak
def test_each_approval_escalates_once_despite_a_killed_process() -> None:
    """Four processes escalate 2,000 approvals; after a SIGKILL each still escalates once.

    Without ``--quick`` there are 100,000 approvals.
    """
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.timers", "--quick", "--fsync", "everysec"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "120"},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert "not exactly once" not in done.stdout
    assert "exactly once: 1.00000" in done.stdout
    assert "escalated / committed:" in done.stdout
