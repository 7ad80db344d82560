"""Names TLS as a possible cause if a Redis does not take a new connection.

A server without TLS waits for the rest of a TLS handshake, and one with TLS closes a connection
without it. Neither of them says why.
"""

from __future__ import annotations

from typing import Any

from signoff.broker.server.redis_py import Unreachable, redis

_Timeout = redis.exceptions.TimeoutError


class _PlainConnection(redis.asyncio.Connection):
    async def on_connect_check_health(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Log in.

        Raises:
            Unreachable: The server has closed the connection.
        """
        try:
            await super().on_connect_check_health(*args, **options)
        except Unreachable as error:
            if type(error) is not Unreachable:
                # A subclass, such as a refused login, is a reply of a server without TLS.
                raise
            why = "It has closed a new connection. If it uses TLS, write rediss://"
            raise Unreachable(f"{_sentence(error)} {why}") from error


class _TlsConnection(redis.asyncio.SSLConnection):
    async def connect_check_health(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Connect with TLS, and log in.

        Raises:
            TimeoutError: The server does not answer.
        """
        try:
            await super().connect_check_health(*args, **options)
        except _Timeout as error:
            why = "If it does not use TLS, write redis://"
            raise _Timeout(f"{_sentence(error)} {why}") from error


def name_tls(pool: redis.asyncio.ConnectionPool) -> None:
    """Make the new connections of a pool name TLS in their errors."""
    if pool.connection_class is redis.asyncio.Connection:
        pool.connection_class = _PlainConnection
    elif pool.connection_class is redis.asyncio.SSLConnection:
        pool.connection_class = _TlsConnection


def _sentence(error: Exception) -> str:
    return f"{str(error).rstrip('.')}."
