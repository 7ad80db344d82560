"""The real `adk api_server` in its own process, which a test can kill."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ports import free_port

_PATIENCE = 300.0


class ApiServer:
    """An ADK API server over a folder of agents, with its sessions in a file.

    Args:
        agents: The folder of agents.
        folder: The folder of its database, journal and log.
    """

    def __init__(self, agents: Path, folder: Path) -> None:
        self.agents = agents
        self.folder = folder
        self.port = free_port()
        self.journal = folder / "journal.jsonl"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of the server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers; a running server continues."""
        if self._process is not None:
            return
        environment = os.environ | {"SIGNOFF_EXAMPLE_JOURNAL": str(self.journal)}
        environment.pop("GOOGLE_API_KEY", None)
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.command(),
                env=environment,
                stdout=log,
                stderr=log,
            )
        end = time.monotonic() + _PATIENCE
        while not self.is_up():
            if self._process.poll() is not None or time.monotonic() > end:
                pytest.fail(f"It did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def kill(self) -> None:
        """Kill it without warning."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def close_gate(self, step: str) -> None:
        """Let the patient agent stop at a step from now on."""
        (self.folder / f"closed-{step}").touch()

    def open_gates(self) -> None:
        """Let the patient agent continue."""
        for gate in self.folder.glob("closed-*"):
            gate.unlink()

    def lines(self) -> list[dict[str, Any]]:
        """Return the lines in the agents' journal."""
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]

    def forget_steps(self) -> None:
        """Remove the steps that were reached before from the journal."""
        lines = [line for line in self.lines() if "at" not in line]
        self.journal.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def forget(self) -> None:
        """Start a new journal."""
        self.journal.unlink(missing_ok=True)
        self.open_gates()

    def session(self, app: str, user: str, session: str) -> str:
        """Return the path of a session."""
        return f"{self.url}/apps/{app}/users/{user}/sessions/{session}"

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return [
            *(sys.executable, "-m", "google.adk.cli", "api_server"),
            *("--host", "127.0.0.1", "--port", str(self.port)),
            *("--session_service_uri", f"sqlite:///{self.folder}/sessions.db"),
            str(self.agents),
        ]

    def is_up(self) -> bool:
        """Return whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
