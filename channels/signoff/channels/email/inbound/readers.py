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
_WALL: Final = 5
"""How much longer than its CPU time a reading may take. A busy machine is no fault of the mail."""

_READER: Final = ("-P", "-m", "signoff.channels.email.inbound.reader")
"""-P: nothing is imported from the working directory."""

_PROVER: Final = ("-P", "-m", "signoff.channels.email.inbound.prover")

_KEPT: Final = re.compile("PATH|PYTHON.*|VIRTUAL_ENV|LANG|LC_.*|TZ|TMPDIR|LD_LIBRARY_PATH")
"""The environment variables that it gets: no secrets for somebody who breaks a parser."""

_MOST_QUESTIONS: Final = 100
"""A mail with five signatures asks for fifteen DNS records."""

_LARGEST_ANSWER: Final = 64 << 20

_MAIL: Final = TypeAdapter(IncomingMail)
_PROOF: Final = TypeAdapter(Proof)


_NO_TEXT: Final = "What was read in the message is no text; it was left as it is."

_FAULTS: Final = frozenset({"too_large", "unreadable", "memory", "failed"})

Ask = Callable[[dict[str, Any]], Awaitable[JsonValue]]
"""Answers a question of a process."""

SentTo = Callable[[tuple[str, ...]], Awaitable[Collection[str]]]
"""Returns the lines that were sent to the recipients of a mail."""


async def nothing_sent(recipients: tuple[str, ...]) -> Collection[str]:
    """Return that nothing was sent to anybody."""
    del recipients
    return ()


class ReaderDied(Exception):
    """The process that read a mail ended, and not by the limits: trying again is right."""


class Processes:
    """A few processes of one program; each is started when it is needed and then kept.

    A parser may be slow, or hold a lot of memory, over a mail that somebody made for that. In a
    process of its own it costs what that process may use, and the others work on.

    Args:
        program: What Python is to run.
        most: How many there are.
        seconds: Of CPU for one mail; a mail that takes more is `MailTooCostly`.
    """

    def __init__(self, program: Sequence[str], *, most: int, seconds: int) -> None:
        self._seconds = seconds
        self._program = program
        self._slots = asyncio.Semaphore(most)
        self._idle: list[_Process] = []
        self._all: set[_Process] = set()

    async def request(self, request: bytes, name: str, kind: TypeAdapter[T], ask: Ask) -> T:
        """Return what a process answers to a request.

        Args:
            request: The request.
            name: The name of the answer.
            kind: The type of the answer.
            ask: Answers the questions that the process has meanwhile.

        Raises:
            MailTooCostly: It took too long or too much memory.
            UnreadableMail: The mail cannot be parsed, or is over a cap.
            ReaderDied: The process ended for another reason.
        """
        async with self._slots:
            process = await self._free()
            done = False
            try:
                answer = await self._asked(process, request)
                questions = 0
                while not answer.keys() & {name, *_FAULTS}:
                    if (questions := questions + 1) > _MOST_QUESTIONS:
                        raise self._too_costly()
                    reply = json.dumps(await ask(answer)).encode()
                    answer = await self._asked(process, reply)
                done = True
            except TimeoutError as error:
                raise self._too_costly() from error
            except (OSError, EOFError) as error:
                status = await process.end()
                if status == -signal.SIGXCPU:
                    raise self._too_costly() from error
                raise ReaderDied(f"The process that read it ended with status {status}.") from error
            finally:
                if done:
                    self._idle.append(process)
                else:
                    # It may still answer this request, which must not become the next one's.
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

    async def _asked(self, process: _Process, request: bytes) -> dict[str, Any]:
        answer = await process.ask(request, patience=self._seconds * _WALL)
        try:
            found: dict[str, Any] = json.loads(answer)
        except ValueError as error:
            raise UnreadableMail(_NO_TEXT) from error
        return found

    def _too_costly(self) -> MailTooCostly:
        return MailTooCostly(
            f"Reading the message took more than {self._seconds} seconds of work; it was left as "
            "it is."
        )


class Readers(Processes):
    """Processes that read mails, with the arguments of `Processes`."""

    def __init__(
        self, *, most: int = 2, seconds: int = 2, program: Sequence[str] = _READER
    ) -> None:
        super().__init__(program, most=most, seconds=seconds)

    async def read(self, raw: bytes, sent_to: SentTo = nothing_sent) -> IncomingMail:
        """Read a mail, as `read_mail` does.

        Args:
            raw: The message as it came in.
            sent_to: Returns the lines that were sent to the recipients of the mail.

        Raises:
            MailTooCostly, UnreadableMail, ReaderDied: See `request`.
        """

        async def ask(question: dict[str, Any]) -> JsonValue:
            return [*sorted(await sent_to(tuple(question["recipients"])))]

        return await self.request(raw, "mail", _MAIL, ask)


class Provers(Processes):
    """Processes that find out who wrote a mail, as an `Authenticator` does in this one.

    They are not the processes that read: HTML that breaks the parser there proves nothing here.

    Args:
        authenticator: Its settings are used there, and its DNS is asked here.
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
        """Return what is proven about who wrote a mail; see `Authenticator.prove`.

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
        return MailTooCostly("Reading the message took too much memory; it was left as it is.")
    return ReaderDied(str(words))


class _Process:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def alive(self) -> bool:
        """Whether the process has not ended, as far as is known."""
        return self._process.returncode is None

    @classmethod
    async def start(cls, program: Sequence[str], seconds: int) -> _Process:
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
        async with asyncio.timeout(patience):
            writer.write(len(request).to_bytes(LENGTH) + request)
            await writer.drain()
            return await self._frame()

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
        if size > _LARGEST_ANSWER:
            raise OSError("an answer without end")
        return await stream.readexactly(size)
