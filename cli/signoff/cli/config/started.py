"""The settings that `signoff up` provides to commands that are called in the same folder.

`signoff up` chooses the ports of its Redis, its mailbox and its page, and creates the secrets
that they share. While it runs, these settings are in a file that only this user can read, and
override all other settings.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from signoff.broker.server.private import private_folder, private_text
from signoff.core.base.errors import ConfigError

_FILE: Final = "up.json"
_LOCK: Final = "up.lock"
_SETTINGS: Final = "settings"


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Lock the folder of the state, because two Redis servers would corrupt their files.

    Raises:
        ConfigError: Another process has locked it.
    """
    with (private_folder(folder) / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"`signoff up` runs already in {folder.parent}.") from error
        file = folder / _FILE
        file.unlink(missing_ok=True)  # left by a killed process
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def provide(folder: Path, settings: Mapping[str, Any]) -> None:
    """Provide settings to all processes that read the settings of this folder from now on.

    They have effect as long as this process runs. `alone` must have locked the folder.
    """
    private_text(folder / _FILE, json.dumps({_SETTINGS: settings}))


def provided(folder: Path) -> dict[str, Any]:
    """Return the settings from the `signoff up` in this folder; empty if none is running."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        text = (folder / _FILE).read_text("utf-8")
        if _is_held(folder):
            return dict(json.loads(text)[_SETTINGS])
    return {}


def _is_held(folder: Path) -> bool:
    """Return whether a running process has locked the folder; a killed one has left its file."""
    with (folder / _LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
