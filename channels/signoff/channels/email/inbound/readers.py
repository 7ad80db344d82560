"""Reading mails in processes that can be killed, a few of them, beside each other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from signoff.channels.email.inbound.reader import LENGTH
from signoff.channels.email.parsing.reading import IncomingMail
from signoff.core.base.errors import MailTooCostly, MailTooLarge, UnreadableMail

MEMORY: Final = 512 << 20
"""Bytes of address space for one process; an empty one has about 50 MB."""

_STARTING: Final = 60.0
_WALL: Final = 5
"""How much longer than its CPU time a reading may take. A busy machine is no fault of the mail."""

_PROGRAM: Final = ("-P", "-m", "signoff.channels.email.inbound.reader")
"""-P: nothing is imported from the working directory."""

_KEPT: Final = re.compile("PATH|PYTHON.*|VIRTUAL_ENV|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH")
"""The environment variables that it gets: no secrets for somebody who breaks a parser."""

_MAIL: Final = TypeAdapter(IncomingMail)


_NO_TEXT: Final = "What was read in the message is no text; it was left as it is."

SentTo = Callable[[tuple[str, ...]], Awaitable[Collection[str]]]
"""Returns the lines that were sent to the recipients of a mail."""


async def nothing_sent(recipients: tuple[str, ...]) -> Collection[str]:
    """Return that nothing was sent to anybody."""
    del recipients
    return ()


class ReaderDied(Exception):
    """The process that read a mail ended, and not by the limits: trying again is right."""


class Readers:
    """A few processes that read mails; each is started when it is needed and then kept.

    A parser may be slow, or hold a lot of memory, over a mail that somebody made for that. In a
    process of its own it costs what that process may use, and the others read on.

    Args:
        most: How many there are.
        seconds: Of CPU for one mail; a mail that takes more is `MailTooCostly`.
        program: What Python is to run, for tests.
    """

    def __init__(
        self, *, most: int = 2, seconds: int = 2, program: Sequence[str] = _PROGRAM
    ) -> None:
        self._seconds = seconds
        self._program = program
        self._slots = asyncio.Semaphore(most)
        self._idle: list[_Reader] = []
        self._all: set[_Reader] = set()

    async def read(self, raw: bytes, sent_to: SentTo = nothing_sent) -> IncomingMail:
        """Read a mail, as `read_mail` does.

        Args:
            raw: The message as it came in.
            sent_to: Returns the lines that were sent to the recipients of the mail.

        Raises:
            MailTooCostly: It took too long or too much memory.
            UnreadableMail: It cannot be parsed, or is over a cap.
            ReaderDied: The process ended for another reason.
        """
        async with self._slots:
            reader = await self._free()
            try:
                patience = self._seconds * _WALL
                answer = _parsed(await reader.ask(raw, patience=patience))
                if (recipients := answer.get("recipients")) is not None:
                    reader.busy = True
                    lines = json.dumps(sorted(await sent_to(tuple(recipients)))).encode()
                    answer = _parsed(await reader.ask(lines, patience=patience))
            except TimeoutError as error:
                raise self._too_costly() from error
            except (OSError, EOFError) as error:
                status = await reader.end()
                if status == -signal.SIGXCPU:
                    raise self._too_costly() from error
                raise ReaderDied(f"The process that read it ended with status {status}.") from error
            finally:
                if reader.busy:
                    await reader.end()
                    self._all.discard(reader)
                else:
                    self._idle.append(reader)
        return self._mail(answer)

    async def close(self) -> None:
        """End all processes."""
        readers = tuple(self._all)
        self._all.clear()
        self._idle.clear()
        for reader in readers:
            await reader.end()

    async def _free(self) -> _Reader:
        while self._idle:
            reader = self._idle.pop()
            if reader.alive:
                return reader
            await reader.end()
            self._all.discard(reader)
        reader = await _Reader.start(self._program, self._seconds)
        self._all.add(reader)
        return reader

    def _mail(self, answer: dict[str, Any]) -> IncomingMail:
        (kind, content), *_ = answer.items()
        try:
            if kind == "mail":
                return _MAIL.validate_python(content, strict=False)
        except ValidationError as error:
            raise UnreadableMail(_NO_TEXT) from error
        if kind == "too_large":
            raise MailTooLarge(content)
        if kind == "unreadable":
            raise UnreadableMail(content)
        if kind == "memory":
            words = "Reading the message took too much memory; it was left as it is."
            raise MailTooCostly(words)
        raise ReaderDied(content)

    def _too_costly(self) -> MailTooCostly:
        return MailTooCostly(
            f"Reading the message took more than {self._seconds} seconds of work; it was left as "
            "it is."
        )


def _parsed(answer: bytes) -> dict[str, Any]:
    """Read the answer of a process.

    Raises:
        UnreadableMail: It is no JSON.
    """
    try:
        found: dict[str, Any] = json.loads(answer)
    except ValueError as error:
        raise UnreadableMail(_NO_TEXT) from error
    return found


class _Reader:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.busy = False

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    @classmethod
    async def start(cls, program: Sequence[str], seconds: int) -> _Reader:
        """Start a process and wait until it can read."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            str(seconds),
            str(MEMORY),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)},
            # Ctrl-C is for the process that started it; this one ends with its standard input.
            start_new_session=True,
        )
        reader = cls(process)
        try:
            async with asyncio.timeout(_STARTING):
                await reader._frame()
        except BaseException:
            await reader.end()
            raise
        return reader

    async def ask(self, request: bytes, *, patience: float) -> bytes:
        """Send a request and return the answer.

        Until it has come, the process is busy, and of no use for another request.

        Raises:
            TimeoutError: It did not come in time.
            OSError, EOFError: The process ended.
        """
        writer = self._process.stdin
        if writer is None:
            raise OSError("no standard input")
        self.busy = True
        async with asyncio.timeout(patience):
            writer.write(len(request).to_bytes(LENGTH) + request)
            await writer.drain()
            answer = await self._frame()
        self.busy = False
        return answer

    async def end(self) -> int:
        """Kill the process, unless it has ended, and return its status."""
        if self._process.returncode is None:
            # Not by Process.kill: in Python 3.11 that may take the status away from the waiting
            # task.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        # The transport closes its pipes when the process has ended.
        await self._process.communicate()
        return await self._process.wait()

    async def _frame(self) -> bytes:
        stream = self._process.stdout
        if stream is None:
            raise OSError("no standard output")
        size = int.from_bytes(await stream.readexactly(LENGTH))
        return await stream.readexactly(size)
