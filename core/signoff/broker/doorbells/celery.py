"""The Celery app: task names, queues, and the bell that rings them."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import structlog
from celery import Celery
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from signoff.broker import stages
from signoff.broker.monitoring import metrics
from signoff.broker.server.address import SCHEME, Sentinels

log = structlog.get_logger(__name__)

RING_EXPIRES: Final = 3600
"""Seconds after which a doorbell that nobody heard is dropped.

So long, because a worker compares it with its own clock: were it a minute, machines whose clocks
differ by one would drop every ring.
"""

_PAUSE: Final = 5.0
"""Seconds for which nothing is rung after the broker could not be reached."""


def make_celery(broker_url: str, *, name: str = "signoff") -> Celery:
    """Return an app that carries doorbells over Redis or RabbitMQ.

    The messages are doorbells: the work and its lease are in the ledger. So they are acknowledged
    early (a worker that dies with one costs a second, until the reconciler rings again), nothing
    is kept as a result, and no message ever has an ETA.

    Args:
        broker_url: ``redis://…``, ``rediss://…``, ``amqp://…`` or ``amqps://…``, or ``sentinel://…``
            as `signoff.broker.server.address.Sentinels` has it.
        name: The name of the app.
    """
    sentinel: dict[str, Any] = {}
    if broker_url.startswith(SCHEME):
        broker_url, sentinel = Sentinels.read(broker_url).for_celery()
        # By the scheme, because kombu goes by it when it tries another of the Sentinels.
        TRANSPORT_ALIASES["sentinel"] = "signoff.broker.doorbells.sentinels:Transport"
    # The usual fix-up is for Django, and has a whole worker imported.
    app = Celery(name, broker=broker_url, set_as_current=False, fixups=[])
    app.conf.update(
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        task_serializer="json",
        accept_content=["json"],
        task_acks_late=False,
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,
        worker_send_task_events=False,
        # By name, because a process that only rings needs no worker in memory.
        worker_consumer="signoff.broker.doorbells.consumer:BellConsumer",
        broker_connection_retry_on_startup=True,
        # What the consumer takes for such an error is any error at all.
        broker_channel_error_retry=True,
        # Without max_retries a sender would wait for its broker for ever.
        broker_transport_options={
            "socket_timeout": 30,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            **sentinel,
        },
        broker_connection_timeout=2,
        enable_utc=True,
    )
    return app


def queues(names: list[str]) -> list[Queue]:
    """Return the queues of these stages, for a worker to consume."""
    return [Queue(stages.queue(one), routing_key=stages.queue(one)) for one in names]


class CeleryBell:
    """Rings by sending a task without data to the queue of a stage."""

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._quiet_until = 0.0

    async def ring(self, stage: str) -> None:
        """Ring once, off the event loop; a broker that is away is logged and not waited for."""
        if time.monotonic() >= self._quiet_until:
            await asyncio.to_thread(self.ring_now, stage)

    def ring_now(self, stage: str) -> None:
        """Ring once, here and now; never raises."""
        try:
            self._app.send_task(
                stages.task(stage),
                args=(stage,),
                queue=stages.queue(stage),
                expires=RING_EXPIRES,
                ignore_result=True,
                retry=False,
            )
            metrics.record(metrics.DOORBELLS, "rung")
        except Exception as error:  # noqa: BLE001 -- each broker has errors of its own
            # Nothing is lost: the work is in the ledger, and the reconciler rings every second.
            self._quiet_until = time.monotonic() + _PAUSE
            metrics.record(metrics.DOORBELLS, "failed")
            log.warning("broker.unreachable", stage=stage, error=str(error))
