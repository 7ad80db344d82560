"""The process in which mails are read.

Started as ``python -m signoff.channels.email.inbound.reader SECONDS BYTES``.

It reads one mail after the other from standard input, and ends with it. In the middle of each it
asks which lines were sent to the mail's recipients. What it may use is limited
by the system: a mail over that ends this process and nothing else. `readers.py` starts it.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
from collections.abc import Collection
from datetime import datetime
from typing import BinaryIO, Final

from signoff.channels.email.parsing.reading import SentLines, read_mail
from signoff.core.base.errors import MailTooLarge, UnreadableMail

LENGTH: Final = 8
"""Bytes of the length in front of each frame, the most significant first."""

READY: Final = b"{}"
"""What it says first."""


def main(seconds: int, memory: int) -> None:
    """Read mails until there are no more.

    Args:
        seconds: Of CPU for one mail; more ends the process.
        memory: Bytes of address space for all that the process holds.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints is no answer.
    sys.stdout = sys.stderr
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    _write(answers, READY)

    def sent_to(recipients: tuple[str, ...]) -> Collection[str]:
        """Ask the other process which lines it has sent to these."""
        _write(answers, json.dumps({"recipients": recipients}).encode())
        lines = _read(requests)
        if lines is None:
            sys.exit()
        return frozenset(json.loads(lines))

    while (raw := _read(requests)) is not None:
        _allow(seconds)
        _write(answers, _answer(raw, sent_to))


def _answer(raw: bytes, sent_to: SentLines) -> bytes:
    try:
        mail = read_mail(raw, sent_to)
        return json.dumps({"mail": dataclasses.asdict(mail)}, default=_plain).encode()
    except MailTooLarge as error:
        answer = {"too_large": str(error)}
    except UnreadableMail as error:
        answer = {"unreadable": str(error)}
    except MemoryError:
        answer = {"memory": ""}
    except Exception as error:  # noqa: BLE001 -- it is the other process's to handle
        answer = {"failed": f"{type(error).__name__}: {error}"}
    return json.dumps(answer).encode()


def _allow(seconds: int) -> None:
    """Let the process use so many more seconds of CPU."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    soft = int(used.ru_utime + used.ru_stime) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (soft, hard))


def _plain(value: object) -> str:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def _read(stream: BinaryIO) -> bytes | None:
    head = stream.read(LENGTH)
    if len(head) < LENGTH:
        return None
    size = int.from_bytes(head)
    frame = stream.read(size)
    return frame if len(frame) == size else None


def _write(stream: BinaryIO, frame: bytes) -> None:
    stream.write(len(frame).to_bytes(LENGTH) + frame)
    stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
