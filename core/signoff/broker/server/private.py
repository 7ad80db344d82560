"""Files of this user's alone: other users of the machine cannot read what is in them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

from signoff.core.base.errors import ConfigError

PRIVATE_UMASK: Final = 0o077
"""What a process takes from the rights of the files that it makes: all that others would have."""

_OTHERS: Final = 0o077


def private_folder(folder: Path) -> Path:
    """Make a folder that nobody else can look into, and return it.

    One that is there already is closed, with everything in it: earlier releases left it open.

    Raises:
        ConfigError: It cannot be made, or belongs to another user, who can change what is in it.
    """
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"the folder {folder} cannot be made: {error.strerror}.") from error
    about = folder.stat()
    if about.st_uid != os.geteuid() != 0:
        raise ConfigError(
            f"the folder {folder} belongs to another user of this machine. Signoff keeps secrets "
            "in it: give it to the user that runs Signoff, or take it away."
        )
    if about.st_mode & _OTHERS:
        for name, _, files in os.walk(folder):
            for one in (Path(name), *(Path(name) / file for file in files)):
                _close(one)
    return folder


def private_text(file: Path, text: str) -> None:
    """Write a file that nobody else can read; those who read it meanwhile get all of the old one.

    Raises:
        OSError: It cannot be written.
    """
    part = file.with_name(f"{file.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as made:
        made.write(text)
    part.replace(file)


def _close(path: Path) -> None:
    # A link is not followed, and what belongs to another user is theirs to close.
    with contextlib.suppress(OSError):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~_OTHERS)
