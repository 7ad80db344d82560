"""The process in which mails are read.

`readers.py` starts it as ``python -m signoff.channels.email.inbound.reader SECONDS BYTES``. While
it reads a mail, it asks which lines were sent to the mail's recipients.
"""

from __future__ import annotations

import dataclasses
import json
import os
import resource
import sys
from collections.abc import Callable, Collection
from datetime import datetime
from typing import Any, BinaryIO, Final

from signoff.core.base.errors import MailTooLarge, UnreadableMail

LENGTH: Final = 8
"""The size in bytes of the big-endian length before each frame."""

READY: Final = b"{}"
"""The first frame that a process sends."""

Ask = Callable[[dict[str, Any]], Any]
"""Asks the parent process a question, and returns the answer."""


def main(seconds: int, memory: int) -> None:
    """Read mails until standard input ends; see `serve`."""
    # Imported here, because the parent process imports this module too, but does not read mails.
    from signoff.channels.email.parsing.reading import read_mail  # noqa: PLC0415

    def read(raw: bytes, ask: Ask) -> dict[str, Any]:
        def sent_to(recipients: tuple[str, ...]) -> Collection[str]:
            return frozenset(ask({"recipients": recipients}))

        return {"mail": dataclasses.asdict(read_mail(raw, sent_to))}

    serve(read, seconds, memory)


def serve(work: Callable[[bytes, Ask], dict[str, Any]], seconds: int, memory: int) -> None:
    """Answer the requests on standard input until it ends.

    The system limits the resources of the process, so an expensive mail ends only this process.

    Args:
        work: Computes the answer to a request.
        seconds: Seconds of CPU for one request; the process ends if it needs more.
        memory: The address space of the process in bytes.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # Output that a library prints must not appear as an answer.
    sys.stdout = sys.stderr
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    _write(answers, READY)

    def ask(question: dict[str, Any]) -> Any:  # noqa: ANN401 -- any JSON
        _write(answers, json.dumps(question).encode())
        answer = _read(requests)
        if answer is None:
            sys.exit()
        return json.loads(answer)

    while (request := _read(requests)) is not None:
        _allow(seconds)
        answer = _answer(work, request, ask)
        _write(answers, json.dumps(answer, default=_plain).encode())


def _answer(
    work: Callable[[bytes, Ask], dict[str, Any]], request: bytes, ask: Ask
) -> dict[str, Any]:
    try:
        return work(request, ask)
    except MailTooLarge as error:
        return {"too_large": str(error)}
    except UnreadableMail as error:
        return {"unreadable": str(error)}
    except MemoryError:
        return {"memory": ""}
    except Exception as error:  # noqa: BLE001 -- the parent process handles it
        return {"failed": f"{type(error).__name__}: {error}"}


def _allow(seconds: int) -> None:
    """Allow the process this many more seconds of CPU."""
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
