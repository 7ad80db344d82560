"""The real API server of ADK for TypeScript, from npm, in its own process."""

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

    If node is too old, the tests are skipped, even in CI: Debian's version may be, and the
    recordings check the wire format anyway.
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
        folder: The folder of its journal and log.
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
        """Return whether it answers."""
        try:
            with urllib.request.urlopen(f"{self.url}/list-apps", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False
