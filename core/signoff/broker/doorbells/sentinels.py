"""Celery's transport for Sentinels, which finds the primary by the same rule as the ledger."""

from __future__ import annotations

from typing import Any

from kombu.transport.redis import SentinelChannel, SentinelTransport
from redis.exceptions import RedisError
from redis.sentinel import SentinelManagedConnection

from signoff.broker.doorbells.waiting import BlockingChannel, BlockingMixin
from signoff.broker.server.address import named_primary


class _Connection(SentinelManagedConnection):
    """Asks a majority of the Sentinels before each attempt to connect.

    redis-py asks one Sentinel, and repeats a command at the old address.
    """

    def _connect(self) -> Any:  # noqa: ANN401 -- the socket
        pool = self.connection_pool
        sentinels = pool.sentinel_manager.sentinels
        states: list[dict[str, Any]] = []
        for one in tuple(sentinels):
            try:
                states.append(one.sentinel_masters()[pool.service_name])
            except (RedisError, OSError, KeyError):
                # Ask it last the next time, because waiting for it takes long.
                sentinels.remove(one)
                sentinels.append(one)
            if 2 * len(states) > len(sentinels):
                break
        self.host, self.port = named_primary(states)
        return super()._connect()  # type: ignore[no-untyped-call]


class _Channel(BlockingChannel, SentinelChannel):
    connection_class = _Connection


class BlockingSentinelTransport(BlockingMixin, SentinelTransport):
    """kombu's transport for Sentinels, with connections to the current primary."""

    Channel = _Channel
