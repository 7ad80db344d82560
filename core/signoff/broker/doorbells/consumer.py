"""The part of a Celery worker that takes messages: doorbells, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import kombu
import structlog
from celery.worker.consumer import Consumer
from kombu.message import Message

from signoff.broker import stages

log = structlog.get_logger(__name__)

_LONGEST: Final = 4096
"""Bytes of the longest message that is looked at; a doorbell has about a hundred."""


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

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Celery's own arguments
        super().__init__(*args, **kwargs)
        self.channel_errors = (Exception,)

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
