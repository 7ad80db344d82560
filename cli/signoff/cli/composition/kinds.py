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


def login() -> str:
    """Return who runs this process: a name, or the number of a container's user without one."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def user() -> str:
    """Return who runs this process, and on which machine."""
    return f"{login()} ({socket.gethostname()})"


def host_of(process: str) -> str:
    """Return the machine that a process of this name is on."""
    return process.rpartition("/")[0]


def here(process: str) -> bool:
    """Say whether a process of this name is on this machine."""
    return host_of(process) == socket.gethostname()
