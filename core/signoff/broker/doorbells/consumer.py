"""The part of a Celery worker that takes messages: doorbells, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import kombu
import structlog
from celery.worker import state as worker_state
from celery.worker.consumer import Consumer
from kombu.message import Message

from signoff.broker import stages

log = structlog.get_logger(__name__)

_LONGEST: Final = 4096
"""Bytes of the longest message that is looked at; a doorbell has about a hundred."""

_AGAIN: Final = 1
"""Seconds between two attempts to connect; Celery's own pauses grow to half a minute."""


class BellConsumer(Consumer):
    """Takes the doorbells of this process's stages; what else is in its queues is rejected.

    Others may write into the queues of a broker that is shared, and Celery's own handler raises on
    what it does not expect: the error ends the worker, and the message is there again when it
    starts. What a message is not rejected for cannot be foreseen either, so no error ends it: the
    connection is made anew, as after one of the broker's own errors.
    """

    # Attributes of Celery's that celery-types leaves out.
    task_consumer: kombu.Consumer
    connection_errors: tuple[type[Exception], ...]
    first_connection_attempt: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Celery's own arguments
        super().__init__(*args, **kwargs)
        self.channel_errors = (Exception,)

    def ensure_connected(self, conn: kombu.Connection) -> kombu.Connection:
        """Connect, as long as that takes; what is rung meanwhile waits in the ledger."""

        def failed(error: Exception, interval: float) -> None:
            if interval:  # not for each of several Sentinels
                log.warning("broker.unreachable", error=str(error), retry_in=interval)

        conn.ensure_connection(
            failed,
            interval_start=_AGAIN,
            interval_step=0,
            interval_max=_AGAIN,
            callback=worker_state.maybe_shutdown,
        )
        self.first_connection_attempt = False
        return conn

    def on_connection_error_after_connected(self, exc: Exception) -> None:
        """Give up a connection that is broken.

        kombu fails to close one to Redis where a message had been received and not yet been
        acknowledged, with an error that Celery does not expect, and that would end the worker.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:  # noqa: BLE001 -- it is broken in any case
            log.warning("broker.not_closed", error=repr(error))

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Message], None]:  # noqa: ANN401 -- as above
        """Return what is called with each message."""
        handle = super().create_task_handler(*args, **kwargs)
        heard = {queue.name for queue in self.task_consumer.queues}

        def take(message: Message) -> None:
            problem: object = None
            try:
                if is_bell(message, heard):
                    handle(message)
                    return
            except Exception as error:  # noqa: BLE001 -- whatever a message of others brings about
                problem = error
            log.warning(
                "broker.foreign_message",
                queue=(message.delivery_info or {}).get("routing_key", ""),
                content_type=message.content_type,
                problem=None if problem is None else repr(problem),
            )
            if not message.acknowledged:
                message.reject_log_error(log, self.connection_errors)

        return take


def is_bell(message: Message, heard: set[str]) -> bool:
    """Say whether a message is a doorbell, as `CeleryBell` sends it.

    Args:
        message: As it was received.
        heard: The queues that this process consumes.

    Raises:
        Exception: It is not, and cannot even be read.
    """
    headers, body = message.headers, message.body
    if message.content_type != "application/json" or len(body or "") > _LONGEST:
        return False
    arguments, options, embedded = message.decode()
    (stage,) = arguments
    return (
        isinstance(stage, str)
        and stages.queue(stage) in heard
        and headers["task"] == stages.task(stage)
        and isinstance(headers["id"], str)
        and headers.get("eta") is None
        and options == {}
        and not any(embedded.values())
    )
