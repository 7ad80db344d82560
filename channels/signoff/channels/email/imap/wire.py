"""The IMAP connection of imaplib, with limits on the memory that a server can make us use."""

from __future__ import annotations

import contextlib
import imaplib
import select
import socket
import ssl
import time
from typing import Final

LONGEST_LINE: Final = 1 << 20
"""The longest line in bytes; it has room for 100,000 message numbers."""

_ROOM: Final = 1 << 21
"""The most bytes of all lines in one response, without the mail in it."""

_CHUNK: Final = 1 << 16

_PROBES: Final = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 20, "TCP_KEEPCNT": 3}
"""Seconds of silence before the first probe, seconds between two, and how many fail at most.

Cloud networks silently forget a connection that is idle for four minutes or more. The system's own
first probe comes after two hours.
"""


class Wire(imaplib.IMAP4):
    """A connection with limited responses that can wait for new data.

    This class replaces the file object of imaplib for reading: that would read a literal of any
    size that a server announces, and data in its buffer cannot be waited for.

    Args:
        host: The server.
        port: Its port.
        timeout: Seconds for each step.
        tls: The TLS context, if TLS starts with the connection.
        largest: The largest literal, in bytes.
    """

    def __init__(
        self, host: str, port: int, timeout: float, *, tls: ssl.SSLContext | None, largest: int
    ) -> None:
        self._tls = tls
        self._patience = timeout
        self._largest = largest
        self._read_from: socket.socket | None = None
        self._ahead = bytearray()
        self._left = _ROOM
        super().__init__(host, port, timeout)

    def _create_socket(self, timeout: float | None) -> socket.socket:
        made = socket.create_connection((self.host, self.port), timeout)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _PROBES.items():
            if (option := getattr(socket, name, None)) is not None:  # not on every system
                made.setsockopt(socket.IPPROTO_TCP, option, value)
        if self._tls is None:
            return made
        try:
            return self._tls.wrap_socket(made, server_hostname=self.host)
        except BaseException:
            made.close()
            raise

    def hang_up(self) -> None:
        """Close the connection during a read; callable from any thread."""
        line: socket.socket | None = getattr(self, "sock", None)
        if line is not None:
            with contextlib.suppress(OSError):
                # `SSLSocket.shutdown` would remove its TLS object while another thread uses it.
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    # -- what imaplib reads by -----------------------------------------------------------------

    def readline(self) -> bytes:
        """Read a line."""
        while (end := self._source().find(b"\n")) < 0:
            if len(self._ahead) > LONGEST_LINE:
                raise self.abort(f"a line of more than {LONGEST_LINE} bytes")
            if not self._more():
                return b""
        return self._take(end + 1)

    def read(self, size: int) -> bytes:
        """Read a literal."""
        if size > self._largest:
            raise self.abort(f"a literal of {size} bytes; the limit is {self._largest}")
        self._left += size
        while len(self._source()) < size:
            if not self._more():
                raise self.abort("socket error: EOF")
        return self._take(size)

    def _source(self) -> bytearray:
        # Data from before TLS is not trusted (CVE-2021-33515 and similar attacks).
        if self._read_from is not self.sock:
            self._ahead.clear()
            self._read_from = self.sock
        return self._ahead

    def _more(self) -> bool:
        got = self.sock.recv(_CHUNK)
        self._ahead += got
        return bool(got)

    def _take(self, size: int) -> bytes:
        self._left -= size
        if self._left < 0:
            raise self.abort("a response without an end")
        taken = bytes(self._ahead[:size])
        del self._ahead[:size]
        return taken

    def _command(self, name: str, *args: str) -> bytes:
        self._left = _ROOM
        # typeshed omits this internal method of imaplib.
        tag: bytes = super()._command(name, *args)  # type: ignore[misc]
        return tag

    # -- waiting -------------------------------------------------------------------------------

    @property
    def has_new_mail(self) -> bool:
        """Whether the server reported new messages since `forget_new_mail`."""
        return "EXISTS" in self.untagged_responses

    def forget_new_mail(self) -> None:
        """Reset `has_new_mail`, before a search for messages."""
        self.untagged_responses.pop("EXISTS", None)

    def wait_for_new_mail(self, seconds: float) -> None:
        """Wait until the server reports new messages (IDLE, RFC 2177), or the time is up."""
        tag = self._command("IDLE")
        while self._get_response() is not None:
            self._refuse_the_end(tag)
        until = time.monotonic() + seconds
        while not self.has_new_mail and self._readable(until):
            self._left = _ROOM
            self._get_response()
            self._refuse_the_end(tag)
        self.send(b"DONE\r\n")
        typ, data = self._command_complete("IDLE", tag)
        if typ != "OK":
            raise self.error(f"IDLE: {data!r}")

    def _refuse_the_end(self, tag: bytes) -> None:
        if (ended := self.tagged_commands[tag]) is not None:
            raise self.error(f"IDLE: {ended!r}")
        if "BYE" in self.untagged_responses:
            raise self.abort(f"the server disconnected: {self.untagged_responses['BYE']!r}")

    def _readable(self, until: float) -> bool:
        """Wait until there is data, which is then buffered, or the time is up."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        while not self._source():
            buffered = isinstance(self.sock, ssl.SSLSocket) and self.sock.pending()
            if not buffered and not poll.poll(max(until - time.monotonic(), 0) * 1000):
                return False
            self.sock.settimeout(0)
            # The data may belong to TLS only, without content for us.
            with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                if not self._more():
                    raise self.abort("socket error: EOF")
            self.sock.settimeout(self._patience)
        return True
