"""Doorbells over the ledger's own connection, if its Redis is the broker."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import socket
import uuid
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.ledger.store import Store
from signoff.broker.monitoring import metrics
from signoff.broker.server.cluster import celery_prefix
from signoff.core.base.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

RING_EXPIRES: Final = 3600
"""Seconds after which a doorbell that no worker received is dropped.

It is this long because a worker compares it with its own clock: with one minute, machines whose
clocks differ by a minute would drop every ring.
"""

_PATIENCE: Final = 2.0
"""Seconds until a ring is given up."""


class RedisBell:
    """Rings by adding a Celery message to the queue of a stage.

    Celery itself would send each ring in a thread and on another connection, which takes ten times
    as long.

    Args:
        store: The ledger's store, in the Redis that is the broker.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    async def ring(self, *rung: str) -> None:
        """Ring for each of these stages. If Redis is away, this is logged and not retried."""
        start = celery_prefix(self._store.prefix) if self._store.in_cluster else ""
        bells = [(start + stages.queue(stage), message(stage)) for stage in rung]
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._store.push(bells)
        except (LedgerUnavailable, TimeoutError) as error:
            # Nothing is lost: the work is in the ledger, and the reconciler rings again.
            metrics.record(metrics.DOORBELLS, "failed", value=len(bells))
            log.warning("broker.unreachable", stages=rung, error=str(error))
        else:
            metrics.record(metrics.DOORBELLS, "rung", value=len(bells))


def message(stage: str) -> str:
    """Return a doorbell as Celery stores it in Redis: message protocol 2, in kombu's envelope.

    A test compares it with what Celery sends.
    """
    own = str(uuid.uuid4())
    args = [[stage], {}, {"callbacks": None, "errbacks": None, "chain": None, "chord": None}]
    headers: dict[str, object] = {
        "lang": "py",
        "task": stages.task(stage),
        "id": own,
        "shadow": None,
        "eta": None,
        "expires": (datetime.now(UTC) + timedelta(seconds=RING_EXPIRES)).isoformat(),
        "group": None,
        "group_index": None,
        "retries": 0,
        "timelimit": [None, None],
        "root_id": own,
        "parent_id": None,
        "argsrepr": repr((stage,)),
        "kwargsrepr": "{}",
        "origin": f"gen{os.getpid()}@{_host()}",
        "ignore_result": True,
        "replaced_task_nesting": 0,
        "stamped_headers": None,
        "stamps": {},
    }
    properties = {
        "correlation_id": own,
        "reply_to": "",
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": stages.queue(stage)},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": own,
        "expiration": str(RING_EXPIRES * 1000),
    }
    return json.dumps(
        {
            "body": base64.b64encode(json.dumps(args).encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": headers,
            "properties": properties,
        }
    )


@cache
def _host() -> str:
    return socket.gethostname()
