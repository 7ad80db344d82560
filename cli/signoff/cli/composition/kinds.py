"""The kinds of processes, and their names."""

from __future__ import annotations

import getpass
import os
import socket
from typing import Final

KINDS: Final = ("worker", "channels", "gateway")
"""The kinds of processes; an installation needs at least one of each."""


def name() -> str:
    """Return the name of this process: its machine and its id."""
    return f"{socket.gethostname()}/{os.getpid()}"


def login() -> str:
    """Return the name of the user of this process, or the id if the user has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def user() -> str:
    """Return the user of this process and the machine."""
    return f"{login()} ({socket.gethostname()})"


def host_of(process: str) -> str:
    """Return the machine of a process, from its name."""
    return process.rpartition("/")[0]


def here(process: str) -> bool:
    """Return whether a process is on this machine, from its name."""
    return host_of(process) == socket.gethostname()
