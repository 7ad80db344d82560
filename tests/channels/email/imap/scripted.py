"""A scripted IMAP server for cases that a real server does not produce on demand."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

CAPABILITIES = b"IMAP4rev1 IDLE AUTH=PLAIN"


@dataclass
class Scripted:
    """A server with scripted answers, and the lines that it received.

    Attributes:
        says: Answers by the beginning of a command, without its tag; ``%s`` stands for the tag.
            The longest beginning counts. An answer that ends with ``HANGUP`` ends the connection.
        greeting: Its first line.
        heard: The lines that it received, without their tags.
        tls: Used for STARTTLS.
        port: The port of the server.
        capabilities: The capabilities that it announces.
        idling: Set when a client idles.
    """

    says: dict[str, bytes] = field(default_factory=dict)
    greeting: bytes = b"* OK hello\r\n"
    heard: list[str] = field(default_factory=list)
    tls: ssl.SSLContext | None = None
    port: int = 0
    capabilities: bytes = CAPABILITIES
    idling: asyncio.Event = field(default_factory=asyncio.Event)

    def answer(self, command: str) -> bytes:
        """Return its answer to a command."""
        usual = {
            "CAPABILITY": b"* CAPABILITY " + self.capabilities + b"\r\n%s OK done\r\n",
            "AUTHENTICATE": b"+ \r\n",
            "LOGOUT": b"* BYE\r\n%s OK done\r\nHANGUP",
            "SELECT": (
                b"* 2 EXISTS\r\n* OK [UIDVALIDITY 7] x\r\n"
                b"* OK [PERMANENTFLAGS (\\*)] x\r\n%s OK [READ-WRITE]\r\n"
            ),
            "UID SEARCH": b"* SEARCH 1 2\r\n%s OK done\r\n",
            "UID FETCH 1,2": (
                b"* 1 FETCH (UID 1 RFC822.SIZE 20 FLAGS ())\r\n"
                b"* 2 FETCH (UID 2 RFC822.SIZE 20 FLAGS ())\r\n%s OK done\r\n"
            ),
            "UID FETCH 1 ": b"* 1 FETCH (UID 1 BODY[]<0> {5}\r\none\r\n)\r\n%s OK done\r\n",
            "UID FETCH 2 ": b"* 2 FETCH (UID 2 BODY[]<0> {5}\r\ntwo\r\n)\r\n%s OK done\r\n",
            "IDLE": b"+ idling\r\n",
        } | self.says
        fitting = [one for one in usual if command.upper().startswith(one)]
        return usual[max(fitting, key=len)] if fitting else b"%s OK done\r\n"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        try:
            with contextlib.suppress(OSError, ValueError):
                await self._talk(reader, writer)
        finally:
            writer.transport.abort()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self.greeting)
        waiting = b""
        while line := await reader.readline():
            tag, _, command = line.strip().partition(b" ")
            if waiting:  # the rest of AUTHENTICATE, or DONE
                tag, command, waiting = waiting, tag or b"EMPTY", b""
            text = command.decode("ascii", "replace")
            self.heard.append(text)
            if text == "IDLE":
                self.idling.set()
            said = self.answer(text)
            writer.write(said.removesuffix(b"HANGUP").replace(b"%s", tag))
            await writer.drain()
            if said.endswith(b"HANGUP"):
                return
            if said.startswith(b"+"):
                waiting = tag
            if text == "STARTTLS" and self.tls is not None:
                await writer.start_tls(self.tls)


@asynccontextmanager
async def scripted(**parts: Any) -> AsyncIterator[Scripted]:
    """Run a server; keyword arguments are its attributes."""
    made = Scripted(**parts)
    talking: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talking.add(task)
        await made.serve(reader, writer)
        talking.discard(task)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, limit=1 << 20)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()
        for task in tuple(talking):
            task.cancel()
        await asyncio.gather(*talking, return_exceptions=True)
