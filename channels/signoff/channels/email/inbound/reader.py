"""The process in which mails are read.

Started as ``python -m signoff.channels.email.inbound.reader SECONDS BYTES`` by `readers.py`. In
the middle of each mail it asks which lines were sent to the mail's recipients.
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
"""Bytes of the length in front of each frame, the most significant first."""

READY: Final = b"{}"
"""What a process says first."""

Ask = Callable[[dict[str, Any]], Any]
"""Puts a question to the process that started this one, and returns the answer."""


def main(seconds: int, memory: int) -> None:
    """Read mails until there are no more; see `serve`."""
    # Here, because the processes that start this one import it too, and read nothing.
    from signoff.channels.email.parsing.reading import read_mail  # noqa: PLC0415

    def read(raw: bytes, ask: Ask) -> dict[str, Any]:
        def sent_to(recipients: tuple[str, ...]) -> Collection[str]:
            return frozenset(ask({"recipients": recipients}))

        return {"mail": dataclasses.asdict(read_mail(raw, sent_to))}

    serve(read, seconds, memory)


def serve(work: Callable[[bytes, Ask], dict[str, Any]], seconds: int, memory: int) -> None:
    """Answer the requests on standard input until it ends.

    The system limits what the process may use: a mail over that ends this process and nothing else.

    Args:
        work: Answers a request.
        seconds: Of CPU for one request; more ends the process.
        memory: Bytes of address space for all that the process holds.
    """
    requests, answers = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    # What a library prints is no answer.
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
    except Exception as error:  # noqa: BLE001 -- it is the other process's to handle
        return {"failed": f"{type(error).__name__}: {error}"}


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
