"""The kinds of processes, and how one of them is called."""

from __future__ import annotations

import getpass
import os
import socket
from typing import Final

KINDS: Final = ("worker", "channels", "gateway")
"""Every installation needs at least one of each."""


def name() -> str:
    """Return what this process is called: its machine and its id."""
    return f"{socket.gethostname()}/{os.getpid()}"


def user() -> str:
    """Return who runs this process, and on which machine; a container's user has no name."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        name = str(os.getuid())
    return f"{name} ({socket.gethostname()})"


def host_of(process: str) -> str:
    """Return the machine that a process of this name is on."""
    return process.rpartition("/")[0]


def here(process: str) -> bool:
    """Say whether a process of this name is on this machine."""
    return host_of(process) == socket.gethostname()
