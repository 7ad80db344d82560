"""ADK's Redis session service, for sessions that last as long as an approval may."""

from __future__ import annotations

import redis.asyncio
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig

_CONNECTIONS = 64
_PATIENCE = 20


class LastingRedisSessionService(RedisSessionService):
    """Keeps sessions until they are deleted, and lets many runs share few connections.

    ADK's service deletes a session seven days after its last event, which may be before a person on
    holiday answers. It also fails if all of its connections are in use; this service waits.

    Args:
        url: ``redis://…``, ``rediss://…`` or ``unix://…``.

    Raises:
        ValueError: The URL has another form.
    """

    def __init__(self, url: str) -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(
            url, max_connections=_CONNECTIONS, timeout=_PATIENCE, decode_responses=True
        )
        self._pool = pool
        super().__init__(
            RedisSessionServiceConfig(uri=url, ttl_seconds=0),
            redis_client=redis.asyncio.Redis(connection_pool=pool),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._pool.aclose()
