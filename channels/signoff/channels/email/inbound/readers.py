"""Reads mails in a few separate processes, which can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import sys
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pydantic import JsonValue, TypeAdapter, ValidationError

from signoff.channels.email.authentication.proof import Proof
from signoff.channels.email.inbound.reader import LENGTH
from signoff.channels.email.parsing.incoming import IncomingMail
from signoff.core.base.errors import MailTooCostly, MailTooLarge, UnreadableMail

if TYPE_CHECKING:
    from signoff.channels.email.authentication.authenticator import Authenticator

T = TypeVar("T")

MEMORY: Final = 512 << 20
"""Bytes of address space for one process; an empty one has about 50 MB."""

_STARTING: Final = 60.0
_WALL: Final = 30.0
"""The factor by which a reading may exceed its CPU time, because the machine may be busy."""

_READER: Final = ("-P", "-m", "signoff.channels.email.inbound.reader")
"""-P: Python does not import from the working directory."""

_PROVER: Final = ("-P", "-m", "signoff.channels.email.inbound.prover")

_KEPT: Final = re.compile("PATH|PYTHON.*|VIRTUAL_ENV|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH")
"""The environment variables of a process: without secrets, in case a mail exploits a parser."""

_MOST_QUESTIONS: Final = 100
"""The most look-ups; a mail with five signatures needs fifteen DNS records."""

_LARGEST_ANSWER: Final = 64 << 20

_MAIL: Final = TypeAdapter(IncomingMail)
_PROOF: Final = TypeAdapter(Proof)


_TOO_MANY: Final = (
    f"Reading the message took more than {_MOST_QUESTIONS} look-ups; it was not processed."
)
_NO_TEXT: Final = "The result of reading the message is not valid; it was not processed."

_FAULTS: Final = frozenset({"too_large", "unreadable", "memory", "failed"})

Ask = Callable[[dict[str, Any]], Awaitable[JsonValue]]
"""Answers a question from a process."""

SentTo = Callable[[tuple[str, ...]], Awaitable[Collection[str]]]
"""Returns the lines that were sent to the recipients of a mail."""


async def nothing_sent(recipients: tuple[str, ...]) -> Collection[str]:
    """Return that nothing was sent to anybody."""
    del recipients
    return ()


class ReaderDied(Exception):
    """The process that read a mail ended or hung within its limits; try again."""


class Processes:
    """A few processes of one program; each is started on demand and then kept.

    A mail can be crafted so that a parser needs a lot of time or memory. In a separate process, the
    damage is limited to that process, and the others continue.

    Args:
        program: The arguments for Python.
        most: The most processes.
        seconds: CPU seconds for one mail; a mail that takes more is `MailTooCostly`.
        wall: Seconds on the clock for each of the CPU seconds; after them the process is ended.
    """

    def __init__(
        self, program: Sequence[str], *, most: int, seconds: int, wall: float = _WALL
    ) -> None:
        self._seconds = seconds
        self._patience = seconds * wall
        self._program = program
        self._slots = asyncio.Semaphore(most)
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    @property
    def alive(self) -> int:
        """The number of processes that are not known to have ended."""
        return sum(one.alive for one in self._all)

    async def request(self, request: bytes, name: str, kind: TypeAdapter[T], ask: Ask) -> T:
        """Return the answer of a process to a request.

        Args:
            request: The request.
            name: The name of the answer.
            kind: The type of the answer.
            ask: Answers the questions of the process during the request.

        Raises:
            MailTooCostly: It needed too much CPU time or memory, or too many look-ups.
            UnreadableMail: The mail cannot be parsed, or exceeds a limit.
            ReaderDied: The process ended for another reason, or hung.
        """
        async with self._slots:
            process = await self._free()
            done = False
            try:
                answer = await self._answered(process, request, name, ask)
                done = True
            except TimeoutError as error:
                # This is not the CPU limit, which ends the process.
                raise ReaderDied("The process that read it hung.") from error
            except (OSError, EOFError) as error:
                status = await process.end()
                if status == -signal.SIGXCPU:
                    raise self._too_costly() from error
                raise ReaderDied(f"The process that read it ended with status {status}.") from error
            finally:
                if done:
                    self._idle.append(process)
                else:
                    # It may still answer this request, and the next request must not get that
                    # answer.
                    await process.end()
                    self._all.discard(process)
        if name in answer:
            try:
                return kind.validate_python(answer[name], strict=False)
            except ValidationError as error:
                raise UnreadableMail(_NO_TEXT) from error
        raise _fault(answer)

    async def close(self) -> None:
        """End all processes."""
        processes = tuple(self._all)
        self._all.clear()
        self._idle.clear()
        for process in processes:
            await process.end()

    async def _free(self) -> _Process:
        while self._idle:
            process = self._idle.pop()
            if process.alive:
                return process
            await process.end()
            self._all.discard(process)
        process = await _Process.start(self._program, self._seconds)
        self._all.add(process)
        return process

    async def _answered(
        self, process: _Process, request: bytes, name: str, ask: Ask
    ) -> dict[str, Any]:
        """Send a request, and answer the questions of the process until it answers the request."""
        answer = await self._asked(process, request)
        questions = 0
        while not answer.keys() & {name, *_FAULTS}:
            if (questions := questions + 1) > _MOST_QUESTIONS:
                raise MailTooCostly(_TOO_MANY)
            answer = await self._asked(process, json.dumps(await ask(answer)).encode())
        return answer

    async def _asked(self, process: _Process, request: bytes) -> dict[str, Any]:
        answer = await process.ask(request, patience=self._patience)
        try:
            found: dict[str, Any] = json.loads(answer)
        except ValueError as error:
            raise UnreadableMail(_NO_TEXT) from error
        return found

    def _too_costly(self) -> MailTooCostly:
        return MailTooCostly(
            f"Reading the message took more than {self._seconds} seconds of work; it was "
            "not processed."
        )


class Readers(Processes):
    """Processes that read mails, with the arguments of `Processes`."""

    def __init__(
        self,
        *,
        most: int = 2,
        seconds: int = 2,
        wall: float = _WALL,
        program: Sequence[str] = _READER,
    ) -> None:
        super().__init__(program, most=most, seconds=seconds, wall=wall)

    async def read(self, raw: bytes, sent_to: SentTo = nothing_sent) -> IncomingMail:
        """Read a mail, as it was received, in the same way as `read_mail`.

        `sent_to` returns the lines that were sent to its recipients.

        Raises:
            MailTooCostly, UnreadableMail, ReaderDied: See `request`.
        """

        async def ask(question: dict[str, Any]) -> JsonValue:
            return [*sorted(await sent_to(tuple(question["recipients"])))]

        return await self.request(raw, "mail", _MAIL, ask)


class Provers(Processes):
    """Processes that prove the authors of mails, as an `Authenticator` does in this process.

    They are not the processes that read mails: HTML that exploits the parser there cannot forge a
    proof here.

    Args:
        authenticator: The processes use its settings; its DNS look-ups run in this process.
        most: See `Processes`.
        seconds: See `Processes`.
        program: See `Processes`.
    """

    def __init__(
        self,
        authenticator: Authenticator,
        *,
        most: int = 2,
        seconds: int = 2,
        program: Sequence[str] = _PROVER,
    ) -> None:
        super().__init__(program, most=most, seconds=seconds)
        self._authenticator = authenticator

    async def prove(self, raw: bytes, sender: str | None, *, peer: str, now: datetime) -> Proof:
        """Return what is proven about the author of a mail; see `Authenticator.prove`.

        Raises:
            MailTooCostly, UnreadableMail, ReaderDied: See `request`.
        """
        trust, txt = self._authenticator.trust, self._authenticator.txt

        async def ask(question: dict[str, Any]) -> JsonValue:
            found = await txt.records(str(question["txt"])) if txt is not None else ()
            return None if found is None else [one.decode("latin-1") for one in found]

        about = {"trust": trust, "sender": sender, "peer": peer, "now": now.isoformat()}
        request = json.dumps(about).encode() + b"\n" + raw
        return await self.request(request, "proof", _PROOF, ask)


def _fault(answer: dict[str, Any]) -> Exception:
    (kind, words), *_ = answer.items()
    if kind == "too_large":
        return MailTooLarge(words)
    if kind == "unreadable":
        return UnreadableMail(words)
    if kind == "memory":
        return MailTooCostly("Reading the message took too much memory; it was not processed.")
    return ReaderDied(str(words))


class _Process:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        # Only one coroutine at a time may read from the process.
        self._reading = asyncio.Lock()

    @property
    def alive(self) -> bool:
        """Whether the process is not known to have ended."""
        return self._process.returncode is None

    @classmethod
    async def start(cls, program: Sequence[str], seconds: int) -> _Process:
        """Start a process and wait until it is ready."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *program,
            str(seconds),
            str(MEMORY),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
            env={name: value for name, value in os.environ.items() if _KEPT.fullmatch(name)},
            # Ctrl-C must reach only the parent; this process ends with its standard input.
            start_new_session=True,
        )
        started = cls(process)
        try:
            async with asyncio.timeout(_STARTING):
                await started._frame()
        except BaseException:
            await started.end()
            raise
        return started

    async def ask(self, request: bytes, *, patience: float) -> bytes:
        """Send a request and return the answer.

        Raises:
            TimeoutError: It did not come in time.
            OSError, EOFError: The process ended.
        """
        writer = self._process.stdin
        if writer is None:
            raise OSError("no standard input")
        async with asyncio.timeout(patience), self._reading:
            writer.write(len(request).to_bytes(LENGTH) + request)
            await writer.drain()
            return await self._frame()

    async def end(self) -> int:
        """Kill the process, unless it has ended, and return its status."""
        if self._process.returncode is None:
            # Not with Process.kill: in Python 3.11 it may take the exit status from the waiting
            # task.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
        # The transport closes its pipes after the process has ended.
        async with self._reading:
            await self._process.communicate()
        return await self._process.wait()

    async def _frame(self) -> bytes:
        stream = self._process.stdout
        if stream is None:
            raise OSError("no standard output")
        size = int.from_bytes(await stream.readexactly(LENGTH))
        if size > _LARGEST_ANSWER:
            raise OSError("the answer is too large")
        return await stream.readexactly(size)
