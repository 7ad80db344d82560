"""The consumer of a Celery worker, which accepts doorbells and nothing else."""

from __future__ import annotations

import math
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, Final

import kombu
import structlog
from celery.worker import state as worker_state
from celery.worker.consumer import Consumer
from kombu.asynchronous import Hub
from kombu.message import Message

from signoff.broker import stages

log = structlog.get_logger(__name__)

_LONGEST: Final = 4096
"""Bytes of the longest message that is parsed; a doorbell has about a hundred."""

_AGAIN: Final = 1
"""Seconds between attempts to connect; Celery's own pauses grow to half a minute."""


class BellConsumer(Consumer):
    """Accepts the doorbells of this process's stages, and rejects all other messages.

    On a shared broker, others may write into the queues. Celery's own handler raises an error for a
    message that it does not expect: the worker ends, and gets the message again when it restarts.
    An accepted message may raise an unexpected error too. So no error ends the worker: it
    reconnects, as after an error of the broker.

    Attributes:
        signals: The sockets by which signals wake the loop.
    """

    # Attributes of Celery that celery-types leaves out.
    task_consumer: kombu.Consumer
    hub: Hub | None
    connection_errors: tuple[type[Exception], ...]
    first_connection_attempt: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 -- Celery's own arguments
        super().__init__(*args, **kwargs)
        self.channel_errors = (Exception,)
        self.signals = socket.socketpair()
        for one in self.signals:
            one.setblocking(False)
        self._wakes = False
        self._broken_at = -math.inf

    def on_ready(self) -> None:
        """Let signals wake the loop, which sleeps for many seconds if no bell rings.

        A signal handler only records that the worker should stop, and Python then goes on waiting.
        """
        super().on_ready()
        read, write = self.signals
        if self.hub is not None and threading.current_thread() is threading.main_thread():
            self.hub.add_reader(read, read.recv, 64)
            signal.set_wakeup_fd(write.fileno(), warn_on_full_buffer=False)
            self._wakes = True

    def stop(self) -> None:
        """Stop, and close the sockets by which signals wake the loop."""
        super().stop()
        read, write = self.signals
        # Reset it before the socket is closed: its descriptor may be reused.
        if self._wakes:
            signal.set_wakeup_fd(-1)
            self._wakes = False
        if self.hub is not None:
            self.hub.remove(read)
        read.close()
        write.close()

    def ensure_connected(self, conn: kombu.Connection) -> kombu.Connection:
        """Retry until the broker is connected; the work waits in the ledger meanwhile."""

        def failed(error: Exception, interval: float) -> None:
            if interval:  # it is 0 between several Sentinels
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
        """Close a broken connection. Celery would end the worker if that fails.

        A broker may accept each connection and refuse the next command, such as a Redis that has
        become a replica. Celery would connect to it about ten times a second, without end.
        """
        try:
            super().on_connection_error_after_connected(exc)
        except Exception as error:  # noqa: BLE001 -- the connection is broken anyway
            log.warning("broker.not_closed", error=repr(error))
        if (wait := self._broken_at + _AGAIN - time.monotonic()) > 0:
            log.warning("broker.unreachable", error=str(exc), retry_in=_AGAIN)
            time.sleep(wait)
        self._broken_at = time.monotonic()

    def create_task_handler(self, *args: Any, **kwargs: Any) -> Callable[[Message], None]:  # noqa: ANN401 -- as above
        """Return the function that is called with each message."""
        handle = super().create_task_handler(*args, **kwargs)
        heard = {queue.name for queue in self.task_consumer.queues}

        def take(message: Message) -> None:
            problem: object = None
            try:
                if is_bell(message, heard):
                    handle(message)
                    return
            except Exception as error:  # noqa: BLE001 -- foreign messages can raise anything
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
    """Say whether a message is a doorbell from `CeleryBell` for one of the queues in `heard`.

    Raises:
        Exception: The message cannot be read, so it is not a doorbell.
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
