"""The gate between the standard streams of a client and a server that it starts."""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

import structlog

from signoff.channels.mcp import messages
from signoff.channels.mcp.calls import Calls
from signoff.channels.mcp.messages import Answer, BadMessage, Call, Id, JsonRpcMessage
from signoff.channels.mcp.records import Caller
from signoff.channels.mcp.running import CallLost, NotSent

log = structlog.get_logger(__name__)

LONGEST_LINE: Final = 16 * 1024 * 1024
"""The largest message, in bytes."""

_ENDS_WITHIN: Final = 5.0
_CANCELLED: Final = "notifications/cancelled"
_GONE: Final = "the server has ended"

Write = Callable[[str], Awaitable[None]]
"""Writes a line to the client."""


class Pipe:
    """One client and its server.

    Args:
        calls: Asks about calls.
        caller: The client.
        read: What the client writes.
        write: Writes to the client.
        command: Starts the server: program and arguments.
        env: The environment of the server.
    """

    def __init__(
        self,
        calls: Calls,
        caller: Caller,
        *,
        read: asyncio.StreamReader,
        write: Write,
        command: Sequence[str],
        env: Mapping[str, str],
    ) -> None:
        self._calls = calls
        self._caller = caller
        self._read = read
        self._write = write
        self._command = command
        self._env = env
        # No client can guess the ids under which calls go to the server.
        self._mark, self._count = secrets.token_hex(8), itertools.count(1)
        self._sent: dict[Id, asyncio.Future[Answer]] = {}
        self._asked: dict[Id, asyncio.Task[None]] = {}
        self._forwarded: dict[Id, str] = {}
        self._server: asyncio.subprocess.Process | None = None
        self._stopped = asyncio.Event()

    def stop(self) -> None:
        """End as if the client had ended."""
        self._stopped.set()

    async def run(self) -> int:
        """Pass messages until one side ends, and return the exit code of the server.

        Raises:
            OSError: The server cannot be started.
        """
        server = self._server = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env=dict(self._env),
            limit=LONGEST_LINE,
        )
        ends = (self._from_client, self._from_server, self._stopping)
        sides = [asyncio.create_task(one()) for one in ends]
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            for one in sides:
                if one.done():
                    one.result()
        finally:
            await self._end(sides, server)
        return server.returncode or 0

    async def _write_line(self, line: str) -> bool:
        """Write a line to the client, and return whether it was taken.

        A client that does not read any more has ended.
        """
        try:
            await self._write(line)
        except ConnectionError:
            self.stop()
            return False
        return True

    async def _stopping(self) -> None:
        await self._stopped.wait()

    async def _end(
        self, sides: Sequence[asyncio.Task[None]], server: asyncio.subprocess.Process
    ) -> None:
        """Let the server answer what it has begun, as the protocol says, and end it."""
        if server.stdin is not None:
            server.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN):
                await asyncio.wait([sides[1]])
                await server.wait()
        for end in (server.terminate, server.kill):
            if server.returncode is None:
                end()
                with suppress(TimeoutError):
                    await asyncio.wait_for(server.wait(), _ENDS_WITHIN)
        for one in sides:
            one.cancel()
        self._lose()
        # Calls that have just been answered are recorded; waiting for decisions ends.
        self._calls.close()
        asked = [*self._asked.values()]
        if asked:
            await asyncio.wait(asked, timeout=_ENDS_WITHIN)
        await self._calls.ended()
        for one in asked:
            one.cancel()
        await asyncio.gather(*sides, *asked, return_exceptions=True)

    async def _from_client(self) -> None:
        async for line in _lines(self._read):
            try:
                message = messages.read(line)
                call = messages.call_of(message)
            except BadMessage as problem:
                await self._write_line(messages.error_line(problem))
                continue
            if call is None:
                try:
                    await self._pass_on(message)
                except (NotSent, CallLost):
                    return
            elif call.id in self._asked:
                twice = BadMessage("Another request has this id.", id_=call.id)
                await self._write_line(messages.error_line(twice))
            else:
                self._asked[call.id] = asyncio.create_task(self._ask(call))

    async def _pass_on(self, message: JsonRpcMessage) -> None:
        if message.method == _CANCELLED:
            params = message.value.get("params")
            id_ = messages.id_of(params.get("requestId")) if isinstance(params, dict) else None
            if id_ is not None and (task := self._asked.pop(id_, None)) is not None:
                # Its approval stays: made again, the call goes on with it.
                task.cancel()
                await self._cancel(self._forwarded.get(id_))
                return
        await self._to_server(message.text)

    async def _cancel(self, own: str | None) -> None:
        """Cancel a call that the server has."""
        waiting = self._sent.get(own) if own is not None else None
        if own is None or waiting is None:
            return
        text = f'"jsonrpc":"2.0","method":"{_CANCELLED}","params":{{"requestId":"{own}"}}'
        await self._to_server(f"{{{text}}}")
        if not waiting.done():
            waiting.set_exception(CallLost("the client has cancelled it"))

    async def _ask(self, call: Call) -> None:
        """Answer a call, once it is approved and has run."""
        told = itertools.count(1)

        async def send(more: Mapping[str, str]) -> Answer:
            own = f"{self._mark}-{next(self._count)}"
            self._forwarded[call.id] = own
            sent: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
            self._sent[own] = sent
            try:
                await self._to_server(call.request(own, more))
                return await sent
            finally:
                del self._sent[own]
                self._forwarded.pop(call.id, None)

        async def tell(text: str) -> None:
            if call.token is not None:
                await self._write_line(messages.progress_line(call.token, next(told), text))

        try:
            answer = await self._calls.answer_always(self._caller, call, send, tell)
            if await self._write_line(answer.line(call.id)):
                await self._calls.delivered(answer)
        finally:
            if self._asked.get(call.id) is asyncio.current_task():
                del self._asked[call.id]

    async def _to_server(self, line: str) -> None:
        """Write a line to the server.

        Raises:
            NotSent: It has ended.
        """
        server = self._server
        if server is None or server.stdin is None or server.stdin.is_closing():
            raise NotSent(_GONE)
        try:
            server.stdin.write(line.encode() + b"\n")
            await server.stdin.drain()
        except (BrokenPipeError, ConnectionResetError) as error:
            # It may have read what was written first.
            raise CallLost(_GONE) from error

    async def _from_server(self) -> None:
        if self._server is None or self._server.stdout is None:
            return
        try:
            async for line in _lines(self._server.stdout):
                if not self._take(line):
                    await self._write_line(line.decode(errors="replace").rstrip("\r\n"))
        finally:
            self._lose()

    def _take(self, line: bytes) -> bool:
        """Take a line of the server; return whether it answers a call of the gate."""
        answer = None
        try:
            message = messages.read(line)
            id_, answer = message.id, message.answer() if message.is_response else None
        except BadMessage:
            id_ = messages.id_in(line)
        sent = self._sent.get(id_) if id_ is not None else None
        if sent is None:
            # An answer to one of our ids is too late: the client has cancelled the call.
            return isinstance(id_, str) and id_.startswith(self._mark)
        if not sent.done():
            if answer is not None:
                sent.set_result(answer)
            else:
                sent.set_exception(CallLost("its answer cannot be read"))
        return True

    def _lose(self) -> None:
        for one in self._sent.values():
            if not one.done():
                one.set_exception(CallLost(_GONE))


async def _lines(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    """Yield the lines of a stream that are not blank; a line that is too long ends the stream."""
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as end:
            line = end.partial
        except asyncio.LimitOverrunError:
            log.exception("mcp.line_too_long", limit=LONGEST_LINE)
            return
        if not line:
            return
        if line.strip():
            yield line
        if not line.endswith(b"\n"):
            return
