"""The Celery app, its queues, and the bell that sends its tasks."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote, urlsplit

import structlog
from celery import Celery
from kombu import Queue
from kombu.transport import TRANSPORT_ALIASES

from signoff.broker import stages
from signoff.broker.doorbells.push import RING_EXPIRES
from signoff.broker.monitoring import metrics
from signoff.broker.server.address import SCHEME, Sentinels, open_pool
from signoff.broker.server.cluster import Cluster, Nodes, celery_prefix, is_cluster

log = structlog.get_logger(__name__)

_PAUSE: Final = 5.0
"""Seconds without rings after the broker could not be reached."""


def make_celery(broker_url: str, *, name: str = "signoff", prefix: str = "{signoff}:") -> Celery:
    """Return an app that carries doorbells over Redis or RabbitMQ.

    The messages are doorbells: the work and its lease are in the ledger. So they are acknowledged
    early (if a worker dies with one, the reconciler rings again after some seconds), results are
    not stored, and no message has an ETA.

    Args:
        broker_url: ``amqp://…``, ``amqps://…`` or a URL of Redis, except ``unix://…``; see
            `signoff.broker.server.address.open_pool`.
        name: The name of the app.
        prefix: The prefix of the ledger's keys; in a cluster, the queues are in the same slot.

    Raises:
        ConfigError: The URL of Redis is invalid, or the prefix does not suit a cluster.
    """
    where: dict[str, Any] = {}
    tls: dict[str, Any] = {}
    transport = None
    if broker_url.startswith(("redis://", "rediss://")):
        broker_url, tls = _of_single(broker_url)
        transport = "signoff.broker.doorbells.waiting:BlockingTransport"
    if broker_url.startswith(SCHEME):
        broker_url, where = Sentinels.read(broker_url).for_celery()
        # Registered by scheme, because kombu uses that when it tries another Sentinel.
        TRANSPORT_ALIASES["sentinel"] = (
            "signoff.broker.doorbells.sentinels:BlockingSentinelTransport"
        )
    elif is_cluster(broker_url):
        nodes = Nodes(Cluster.read(broker_url), prefix)
        host, port = nodes.cluster.hosts[0]
        # kombu takes the text before a "+" as the transport. The nodes are passed as an option.
        broker_url = f"redis-cluster://{host}:{port}/0"
        where = {"nodes": nodes, "global_keyprefix": celery_prefix(prefix)}
        TRANSPORT_ALIASES["redis-cluster"] = "signoff.broker.doorbells.cluster:ClusterTransport"
    # The default fix-up is for Django, and imports the whole worker.
    app = Celery(name, broker=broker_url, set_as_current=False, fixups=[])
    app.conf.update(
        broker_transport=transport,
        broker_use_ssl=tls,
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
        # By name, so that a process which only rings does not import the worker.
        worker_consumer="signoff.broker.doorbells.consumer:BellConsumer",
        broker_connection_retry_on_startup=True,
        # The consumer treats any exception as such an error.
        broker_channel_error_retry=True,
        # Without max_retries, a sender would wait for the broker forever.
        broker_transport_options={
            "socket_timeout": 30,
            "socket_connect_timeout": 2,
            "socket_keepalive": True,
            "max_retries": 1,
            "interval_start": 0,
            "interval_step": 0,
            **where,
        },
        broker_connection_timeout=2,
        enable_utc=True,
    )
    return app


def _of_single(url: str) -> tuple[str, dict[str, Any]]:
    """Return the URL and TLS options with which Celery connects to the Redis of a URL.

    kombu ignores the scheme if a transport is given, and refuses options that are not its own.
    Timeouts in the URL are for commands: a worker waits longer for the next bell.

    Raises:
        ConfigError: The URL is invalid.
    """
    options = open_pool(url, prefix="").connection_kwargs
    user, password = (quote(options.get(key, ""), "") for key in ("username", "password"))
    login = f"{user}:{password}@" if user or password else ""
    parts = urlsplit(url)
    server = parts.netloc.rpartition("@")[2]
    tls = {key: one for key, one in options.items() if key.startswith("ssl_")}
    if parts.scheme == "rediss":
        tls.setdefault("ssl_cert_reqs", "required")
    return f"{parts.scheme}://{login}{server}/{options.get('db', 0)}", tls


def queues(names: list[str]) -> list[Queue]:
    """Return the queues of stages for a worker to consume."""
    return [Queue(stages.queue(one), routing_key=stages.queue(one)) for one in names]


class CeleryBell:
    """Rings by sending a Celery task to the queue of a stage, over any broker.

    `signoff.broker.doorbells.push.RedisBell` is faster if the broker is the ledger's Redis.
    """

    def __init__(self, app: Celery) -> None:
        self._app = app
        self._quiet_until = 0.0

    async def ring(self, *rung: str) -> None:
        """Ring for each of these stages in a thread.

        If the broker is unreachable, this is logged and not retried.
        """
        await asyncio.to_thread(self._ring_all, rung)

    def _ring_all(self, rung: Sequence[str]) -> None:
        for stage in rung:
            if time.monotonic() >= self._quiet_until:
                self.ring_now(stage)

    def ring_now(self, stage: str) -> None:
        """Ring once in this thread; never raises."""
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
            # Nothing is lost: the work is in the ledger, and the reconciler rings again.
            self._quiet_until = time.monotonic() + _PAUSE
            metrics.record(metrics.DOORBELLS, "failed")
            log.warning("broker.unreachable", stage=stage, error=str(error))
