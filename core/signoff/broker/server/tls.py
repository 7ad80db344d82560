"""Says what is behind a URL if it is no Redis, or one that uses TLS otherwise than the URL says.

A server without TLS waits for the rest of a TLS handshake, one with TLS closes a connection without
it, and a web server waits for the rest of a request. None of them says why. A Redis that is slow is
silent too. So a connection that gets no reply counts as one to a slow Redis, and is tried again,
unless a second connection shows that there is something else.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from pathlib import Path
from typing import Any, Final

from signoff.broker.server.redis_py import RedisError, Unreachable, redis

_Timeout = redis.exceptions.TimeoutError

_PATIENCE: Final = 1.0
"""Seconds for the second connection."""

_WITH_TLS: Final = "a server that uses TLS"
_WITHOUT_TLS: Final = "a Redis that does not use TLS"

# Redis takes it as a command with an argument too many, and refuses it.
_QUESTION: Final = b"GET / HTTP/1.0\r\n\r\n"
_ANSWERS: Final = {
    b"HTTP/": "an HTTP server, no Redis",
    b"SSH-": "an SSH server, no Redis",
    b"220": "a mail or FTP server, no Redis",
    b"\x15\x03": _WITH_TLS,
}
_REDIS: Final = (b"-", b"+")


class NotRedis(RedisError):
    """What answers is no Redis, or uses TLS otherwise than the URL says; it is not tried again."""


class _Asking:
    """A connection that asks once what is there, so that retries take no longer."""

    host: str
    port: int
    _asked = False

    async def answer(self) -> bytes:
        """Return the first bytes that the server sends without TLS; empty after the first call."""
        if self._asked:
            return b""
        self._asked = True
        return await _answer_of(self.host, self.port)


class _PlainConnection(_Asking, redis.asyncio.Connection):
    async def on_connect_check_health(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Log in.

        Raises:
            NotRedis: Something other than a Redis has answered.
            Unreachable: The server has closed the connection.
            TimeoutError: The server does not answer.
        """
        try:
            await super().on_connect_check_health(*args, **options)
        except redis.exceptions.InvalidResponse as error:
            found = _named(await self.answer())
            raise _not_redis("redis", self, found or "something that is no Redis") from error
        except _Timeout as error:
            if found := _named(await self.answer()):
                raise _not_redis("redis", self, found) from error
            why = "It takes connections, but does not answer"
            raise _Timeout(f"{_sentence(error)} {why}") from error
        except Unreachable as error:
            if type(error) is not Unreachable:
                # A subclass, such as a refused login, is a reply of a server without TLS.
                raise
            why = "It has closed a new connection. If it uses TLS, write rediss://"
            raise Unreachable(f"{_sentence(error)} {why}") from error


class _TlsConnection(_Asking, redis.asyncio.SSLConnection):
    async def connect_check_health(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Connect with TLS, and log in.

        Raises:
            NotRedis: Something without TLS has answered.
            TimeoutError: The server does not answer.
        """
        try:
            await super().connect_check_health(*args, **options)
        except _Timeout as error:
            why = "If it does not use TLS, write redis://"
            raise _Timeout(f"{_sentence(error)} {why}") from error
        except Unreachable as error:
            if isinstance(error.__cause__, NotRedis):
                raise error.__cause__ from None
            raise

    async def _connect(self) -> None:
        try:
            await super()._connect()  # type: ignore[no-untyped-call]
        except FileNotFoundError as error:
            given = self.ssl_context
            path = _missing(given.ca_certs, given.certfile, given.keyfile)
            if not path:
                raise
            # It is read for each connection, so it may be there next time.
            why = f"{path}, which [redis] url names, cannot be read: {error.strerror}"
            raise Unreachable(why) from error
        except (TimeoutError, ssl.SSLError) as error:
            if isinstance(error, ssl.SSLError) and error.reason != "WRONG_VERSION_NUMBER":
                raise
            answer = await self.answer()
            found = _WITHOUT_TLS if answer.startswith(_REDIS) else _named(answer)
            if found:
                raise _not_redis("rediss", self, found) from error
            raise


def name_tls(pool: redis.asyncio.ConnectionPool) -> None:
    """Make the new connections of a pool say what they have found, and name TLS in their errors."""
    if pool.connection_class is redis.asyncio.Connection:
        pool.connection_class = _PlainConnection
    elif pool.connection_class is redis.asyncio.SSLConnection:
        pool.connection_class = _TlsConnection


async def _answer_of(host: str, port: int) -> bytes:
    """Return the first bytes that a server sends without TLS, on a connection of its own."""
    answer = b""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_PATIENCE):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(_QUESTION)
                answer = await reader.read(16)
            finally:
                writer.close()
    return answer


def _missing(*paths: str | None) -> str:
    """Return the first file that is not there, "" if all are there or not given."""
    return next((one for one in paths if one and not Path(one).exists()), "")


def _named(answer: bytes) -> str:
    """Return what gives such an answer; "" for a Redis, or if that is unknown."""
    return next((name for start, name in _ANSWERS.items() if answer.startswith(start)), "")


def _not_redis(scheme: str, connection: _Asking, found: str) -> NotRedis:
    where = f"{scheme}://{connection.host}:{connection.port}"
    remedy = {
        _WITHOUT_TLS: "Write redis:// into [redis] url.",
        _WITH_TLS: "If it is a Redis, write rediss:// into [redis] url.",
    }.get(found, "Correct the host and port in [redis] url.")
    return NotRedis(f"At {where} is {found}. {remedy}")


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.')}."
