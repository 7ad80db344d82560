"""`signoff top`: the waiting work and its rates."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from cli.conftest import Invoke


def test_top_prints_one_snapshot_into_a_pipe(invoke: Invoke, settings_file: Path) -> None:
    """Into a pipe it writes one look: stages, missing processes and rates."""
    assert invoke("run", "finance", "Reimburse me", "--user", "riley").exit_code == 0
    lines = [" ".join(line.split()) for line in invoke("top").stdout.splitlines()]
    assert any(line.startswith("run.finance 1 1") for line in lines)
    assert any("submitted 0.017" in line for line in lines)
    found = json.loads(invoke("top", "--json").stdout)
    (stage,) = found["stages"]
    assert (stage["stage"], stage["items"], stage["ready"]) == ("run.finance", 1, 1)
    assert found["processes"] == {"worker": 0, "channels": 0, "gateway": 0}
    assert found["per_second"]["submitted"] == 0.017
    assert found["records"]["runs"] == 1
    assert found["lag_seconds"] == 0


def test_top_refreshes_a_terminal_until_interrupted(settings_file: Path) -> None:
    """It refreshes the screen, shows a queue that is added meanwhile, and restores the screen."""
    leader, follower = pty.openpty()
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "signoff.cli",
            "--config",
            str(settings_file),
            "top",
            "--every",
            "0.5",
        ],
        stdout=follower,
        stderr=follower,
        env=os.environ | {"TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
    )
    os.close(follower)
    seen = b""
    while seen.count(b"per second") < 2:
        seen += os.read(leader, 4096)
    with settings_file.open("a") as settings:
        settings.write('[[queues]]\nname = "treasury"\nmembers = ["mara"]\n')
    while b"treasury" not in seen:
        seen += os.read(leader, 4096)
    process.send_signal(signal.SIGINT)
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:
        pass  # Linux reports this when the other end is closed
    assert process.wait() == 130
    assert b"\x1b[?1049h" in seen
    assert b"\x1b[?1049l" in seen
    assert b"Traceback" not in seen
    os.close(leader)
