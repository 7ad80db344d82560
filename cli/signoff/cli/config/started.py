"""What `signoff up` provides in a folder, so that commands that are called there find it.

It chooses the ports of its Redis, its mailbox and its page, and makes the secrets between them.
While it runs, they stand in a file that only this user can read, and count before all other
settings.
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
    """Hold the folder: two Redis servers on one append-only file would ruin it.

    Args:
        folder: Where Signoff keeps what it needs on this machine.

    Raises:
        ConfigError: Somebody else holds it.
    """
    with (private_folder(folder) / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise ConfigError(f"`signoff up` runs already in {folder.parent}.") from error
        file = folder / _FILE
        file.unlink(missing_ok=True)  # of one that was killed
        try:
            yield
        finally:
            file.unlink(missing_ok=True)


def provide(folder: Path, settings: Mapping[str, Any]) -> None:
    """Let everybody who reads the settings in this folder have these, while this process lives.

    Args:
        folder: As for `alone`, which has to hold it.
        settings: As a file of settings has them.
    """
    private_text(folder / _FILE, json.dumps({_SETTINGS: settings}))


def provided(folder: Path) -> dict[str, Any]:
    """Return what the `signoff up` that runs in this folder provides; nothing if none runs."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        text = (folder / _FILE).read_text("utf-8")
        if _is_held(folder):
            return dict(json.loads(text)[_SETTINGS])
    return {}


def _is_held(folder: Path) -> bool:
    """Say whether a process holds the folder; what one has left that was killed counts no more."""
    with (folder / _LOCK).open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
