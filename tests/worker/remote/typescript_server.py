"""The real API server of ADK for TypeScript, from npm, as a process of its own."""

from __future__ import annotations

import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from npm import packages
from worker.remote.api_server import ApiServer

PROJECT = Path(__file__).parent / "typescript"
OLDEST_NODE = 20


def installed() -> Path:
    """Return the folder with the packages of the project.

    Where node is too old the tests are skipped, in CI too: Debian's own may be, and the recordings
    hold the wire format anyway.
    """
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed: install Node 20 or newer")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"node is {version.strip()}, and ADK for TypeScript needs {OLDEST_NODE}")
    return packages((PROJECT / "package.json").read_bytes())


class TypeScriptServer(ApiServer):
    """An API server of ADK for TypeScript over the project's agents; sessions in its memory.

    Args:
        modules: The folder with the npm packages.
        folder: Where its journal and its log are.
    """

    def __init__(self, modules: Path, folder: Path) -> None:
        agents = folder / "agents"
        shutil.copytree(PROJECT / "agents", agents)
        (folder / "package.json").write_bytes((PROJECT / "package.json").read_bytes())
        (folder / "node_modules").symlink_to(modules)
        super().__init__(agents, folder)

    def command(self) -> list[str]:
        """Return the command that starts it."""
        return [
            *("node", str(self.folder / "node_modules" / ".bin" / "adk"), "api_server"),
            *("-h", "127.0.0.1", "-p", str(self.port)),
            *("--compile", "false", "--bundle", "false", str(self.agents)),
        ]

    def is_up(self) -> bool:
        """Say whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/list-apps", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
