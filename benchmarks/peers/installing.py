"""Peers are installed from their usual packages, each into a separate environment."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / ".venv-peers"
"""The environments; `make clean` removes it."""

_LONGEST: Final = 600


class NotInstalled(Exception):
    """A peer cannot be installed here; the message says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """The environment of a peer.

    Attributes:
        name: The name of the environment; "" is the one of this project.
        python: Packages of PyPI.
        node: Packages of npm.
        shows: The packages whose versions are in the report.
        root: The folder of all environments.
    """

    name: str = ""
    python: Sequence[str] = ()
    node: Sequence[str] = ()
    shows: Sequence[str] = ()
    root: Path = FOLDER

    @property
    def _folder(self) -> Path:
        return self.root / self.name

    @property
    def program(self) -> str:
        """The Python interpreter that runs the peer."""
        return str(self._folder / "bin" / "python") if self.name else sys.executable

    @property
    def modules(self) -> Path:
        """The folder of npm's packages."""
        return self._folder / "node_modules"

    def install(self) -> None:
        """Install the missing packages.

        Raises:
            NotInstalled: They cannot be installed.
        """
        mark, wanted = self._folder / ".installed", "\n".join([*self.python, *self.node])
        if not self.name or (mark.is_file() and mark.read_text() == wanted):
            return
        self.root.mkdir(exist_ok=True)
        _run(sys.executable, "-m", "venv", "--clear", str(self._folder))
        pip = (self.program, "-m", "pip", "--disable-pip-version-check", "--no-input", "-q")
        _run(*pip, "install", *self.python, "psutil>=7")
        if self.node:
            _run("npm", "install", "--no-fund", "--no-audit", "--prefix", self._folder, *self.node)
        mark.write_text(wanted)

    def versions(self) -> str:
        """Return the versions of the packages in `shows`."""
        code = (
            "import sys; from importlib.metadata import version; "
            "print(', '.join(f'{one} {version(one)}' for one in sys.argv[1:]))"
        )
        return _run(self.program, "-c", code, *self.shows).strip()


def _run(*command: str | Path) -> str:
    if shutil.which(command[0]) is None:
        raise NotInstalled(f"{command[0]} is not installed")
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_LONGEST
        )
    except subprocess.TimeoutExpired as error:
        raise NotInstalled(f"{Path(command[0]).name} took longer than {_LONGEST} s") from error
    if done.returncode:
        lines = [one for one in done.stderr.splitlines() if "error" in one.lower()]
        raise NotInstalled((lines or done.stderr.splitlines() or ["no reason given"])[-1].strip())
    return done.stdout
