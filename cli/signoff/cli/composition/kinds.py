"""The kinds of processes, and how one of them is called."""

from __future__ import annotations

import os
import socket
from typing import Final

KINDS: Final = ("worker", "channels", "gateway")
"""Every installation needs at least one of each."""


def name() -> str:
    """Return what this process is called: its machine and its id."""
    return f"{socket.gethostname()}/{os.getpid()}"


def host_of(process: str) -> str:
    """Return the machine that a process of this name is on."""
    return process.rpartition("/")[0]


def here(process: str) -> bool:
    """Say whether a process of this name is on this machine."""
    return host_of(process) == socket.gethostname()
