"""Starts a command that cannot outlive the process that has started it.

``python -I -S tether.py PARENT COMMAND…`` asks the kernel to kill this process when its parent
ends, however it ends, and then becomes the command. It is a separate program, because the child
itself has to ask the kernel, and code between fork and exec is not safe in a program with
threads. It imports only the standard library, so that it starts in milliseconds.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Tie this process to its parent and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        # SIGKILL, because every process of Signoff may be killed at any time, and none may remain.
        if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
        if os.getppid() != parent:
            sys.exit("The process that started this one has ended.")
    os.execvp(command[0], command)  # noqa: S606 -- the supervisor's own command


if __name__ == "__main__":
    main()
