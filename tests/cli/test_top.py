"""`signoff top`: what waits, and how fast it goes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from cli.conftest import Invoke


def test_it_shows_what_waits_once(invoke: Invoke, settings_file: Path) -> None:
    """To a pipe it writes one look: stages, processes that are missing, and rates."""
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


def test_on_a_terminal_it_looks_until_it_is_interrupted(settings_file: Path) -> None:
    """It takes the screen, writes it again, gives it back, and exits as after Ctrl-C."""
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
    process.send_signal(signal.SIGINT)
    try:
        while piece := os.read(leader, 4096):
            seen += piece
    except OSError:
        pass  # Linux says so when the other end has been closed
    assert process.wait() == 130
    assert b"\x1b[?1049h" in seen
    assert b"\x1b[?1049l" in seen
    assert b"Traceback" not in seen
    os.close(leader)
