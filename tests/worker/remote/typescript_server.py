"""The real API server of ADK for TypeScript, from npm, as a process of its own."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from worker.remote.api_server import ApiServer

PROJECT = Path(__file__).parent / "typescript"
OLDEST_NODE = 20
_INSTALL = 240.0


def installed() -> Path:
    """Return a folder with the packages of the project, installed once into a cache.

    They are 290 MB, so they outlive the tests. Where they cannot be had, the tests are skipped, in
    CI too: Debian's own node may be too old, and the recordings hold the wire format anyway.
    """
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("node and npm are not installed: install Node 20 or newer")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").split(".")[0]) < OLDEST_NODE:
        pytest.skip(f"node is {version.strip()}, and ADK for TypeScript needs {OLDEST_NODE}")
    wanted = (PROJECT / "package.json").read_bytes()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "signoff-tests"
    folder = cache / f"typescript-{hashlib.sha256(wanted).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "node_modules").is_dir():
            _install(folder, wanted)
    return folder


def _install(folder: Path, package: bytes) -> None:
    fresh = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_bytes(package)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    try:
        subprocess.run(
            # No package's own scripts: what they would build is not needed here.
            ["npm", "install", *quiet, "--ignore-scripts", "--prefer-offline"],
            cwd=fresh,
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALL,
        )
    except (subprocess.SubprocessError, OSError) as error:
        words = str(getattr(error, "stderr", "") or error).strip().splitlines()
        pytest.skip(f"npm cannot install ADK for TypeScript: {words[-1] if words else error}")
    fresh.rename(folder)


class TypeScriptServer(ApiServer):
    """An API server of ADK for TypeScript over the project's agents; sessions in its memory.

    Args:
        packages: Where the npm packages are.
        folder: Where its journal and its log are.
    """

    def __init__(self, packages: Path, folder: Path) -> None:
        agents = folder / "agents"
        shutil.copytree(PROJECT / "agents", agents)
        (folder / "package.json").write_bytes((PROJECT / "package.json").read_bytes())
        (folder / "node_modules").symlink_to(packages / "node_modules")
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
