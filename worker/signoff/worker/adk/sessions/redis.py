"""ADK's Redis session service, as long-lived as an approval may be."""

from __future__ import annotations

import redis.asyncio
from google.adk.integrations.redis import RedisSessionService, RedisSessionServiceConfig

SCHEMES = ("redis://", "rediss://", "unix://")

_CONNECTIONS = 64
_PATIENCE = 20


class LastingRedisSessionService(RedisSessionService):
    """Keeps sessions until they are deleted, and lets many runs share few connections.

    ADK's service forgets a session seven days after its last event: sooner than a person on
    holiday answers. And its connections fail when all are in use; these wait.

    Args:
        url: ``redis://…``, ``rediss://…`` or ``unix://…``.

    Raises:
        ValueError: It is not such a URL.
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
