"""redis-py without the SDK of OpenTelemetry.

If the SDK is installed, redis-py imports it for its own metrics, which Signoff does not use. That
costs each process and command 10 MB and a tenth of a second. Modules that use redis-py import it
from here.
"""

from __future__ import annotations

import sys
from typing import Any, Final

_KEPT_OUT: Final = ("opentelemetry.metrics", "opentelemetry.sdk.metrics")

# None makes an import fail as if the module were not installed.
_hidden = [name for name in _KEPT_OUT if name not in sys.modules]
sys.modules.update(dict.fromkeys(_hidden))  # type: ignore[arg-type] # the stub has no None
try:
    import redis.asyncio
    import redis.asyncio.retry
    import redis.backoff
    import redis.exceptions
    import redis.retry
    from redis.asyncio.sentinel import (
        Sentinel,
        SentinelConnectionPool,
        SentinelManagedConnection,
    )
    from redis.backoff import NoBackoff
    from redis.crc import key_slot
    from redis.exceptions import (
        AskError,
        ClusterDownError,
        MovedError,
        RedisError,
        TryAgainError,
    )
    from redis.exceptions import ConnectionError as Unreachable
finally:
    for _name in _hidden:
        del sys.modules[_name]

ELSEWHERE: Final = (MovedError, AskError, TryAgainError, ClusterDownError)
"""The errors of a cluster node that does not serve a slot at the moment."""

NAMED: Final[dict[str, Any]] = (
    {"driver_info": redis.DriverInfo(lib_version=redis.__version__)}
    if hasattr(redis, "DriverInfo")
    else {"lib_version": redis.__version__}
)
"""The version of redis-py, as an option of a connection.

Otherwise, redis-py reads it from the metadata of its package for each connection.
"""

__all__ = [
    "ELSEWHERE",
    "NAMED",
    "NoBackoff",
    "RedisError",
    "Sentinel",
    "SentinelConnectionPool",
    "SentinelManagedConnection",
    "Unreachable",
    "key_slot",
    "redis",
]
