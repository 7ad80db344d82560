"""Packages from npm that only tests use."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

_INSTALL = 240.0


def packages(project: bytes) -> Path:
    """Return the folder ``node_modules`` of a project, installed once into a cache.

    The packages outlive the tests: those of ADK for TypeScript are 290 MB. If they cannot be
    installed, the tests are skipped, even in CI, because Debian does not have the packages and npm
    may be unreachable.

    Args:
        project: The content of its ``package.json``.
    """
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed: install Node 20 or newer")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "signoff-tests"
    folder = cache / f"npm-{hashlib.sha256(project).hexdigest()[:12]}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _install(npm, folder, project)
    return folder / "node_modules"


def _install(npm: str, folder: Path, project: bytes) -> None:
    fresh = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir()
    (fresh / "package.json").write_bytes(project)
    quiet = ["--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"]
    try:
        subprocess.run(
            # Do not run the packages' own scripts: the tests do not need what they build.
            [npm, "install", *quiet, "--ignore-scripts", "--prefer-offline"],
            cwd=fresh,
            check=True,
            capture_output=True,
            text=True,
            timeout=_INSTALL,
        )
    except (subprocess.SubprocessError, OSError) as error:
        words = str(getattr(error, "stderr", "") or error).strip().splitlines()
        pytest.skip(f"npm cannot install what the test needs: {words[-1] if words else error}")
    fresh.rename(folder)
