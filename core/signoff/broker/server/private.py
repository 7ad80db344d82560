"""Private files, which other users of the machine cannot read."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from signoff.core.base.errors import ConfigError

PRIVATE_UMASK: Final = 0o077
"""The umask of a process whose files only their owner can use."""

_OTHERS: Final = 0o077


def private_folder(folder: Path) -> Path:
    """Create a folder that only its owner can open, and return it.

    If it exists, other users lose access to it and all files in it: earlier releases left it open.

    Raises:
        ConfigError: It cannot be created, or belongs to another user, who could change the files.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {folder} cannot be created: {error.strerror}.") from error
    about = folder.stat()
    if about.st_uid != os.geteuid() != 0:
        raise ConfigError(
            f"the folder {folder} belongs to another user of this machine. Signoff keeps secrets "
            "in it: change its owner to the user that runs Signoff, or remove it."
        )
    if about.st_mode & _OTHERS:
        for name, _, files in os.walk(folder):
            for one in (Path(name), *(Path(name) / file for file in files)):
                _close(one)
    return folder


def private_text(file: Path, text: str) -> None:
    """Write a file that only its owner can read. It is replaced atomically.

    If several processes write it at the same time, the last one wins.

    Raises:
        OSError: It cannot be written.
    """
    with _part(file, text) as part:
        part.replace(file)


def private_text_once(file: Path, text: str) -> None:
    """Write a file that only its owner can read, atomically, unless it exists already.

    Raises:
        OSError: It cannot be written.
    """
    with _part(file, text) as part, contextlib.suppress(FileExistsError):
        os.link(part, file)


@contextlib.contextmanager
def _part(file: Path, text: str) -> Iterator[Path]:
    """Write a temporary file with a unique name beside a file, and delete it afterwards."""
    number, name = tempfile.mkstemp(dir=file.parent, prefix=f"{file.name}.", suffix=".part")
    part = Path(name)
    try:
        with os.fdopen(number, "w") as made:
            made.write(text)
            made.flush()
            # A power cut could otherwise leave an empty file under the final name.
            os.fsync(number)
        yield part
    finally:
        part.unlink(missing_ok=True)


def _close(path: Path) -> None:
    # Links are not followed, and files of other users cannot be changed.
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~_OTHERS)
