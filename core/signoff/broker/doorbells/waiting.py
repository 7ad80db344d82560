"""Celery's transport for Redis, which blocks until a bell rings; kombu's own polls each second."""

from __future__ import annotations

from typing import Any, Final

from kombu import Connection
from kombu.asynchronous import Hub, get_event_loop
from kombu.transport import redis

_WAIT: Final = 10
"""Seconds of one BRPOP: the longest time that the loop of a worker sleeps."""


def wake() -> None:
    """Wake the loop of this process's worker from another thread."""
    hub: Hub | None = get_event_loop()
    if hub is not None:
        hub.call_soon(_nothing)


def _nothing() -> None:
    pass


class _QoS(redis.QoS):
    """Wakes the loop when a message is acknowledged and the prefetch limit had been reached."""

    def ack(self, delivery_tag: str) -> None:
        full = not self.can_consume()
        super().ack(delivery_tag)
        if full:
            wake()


class WaitingChannel(redis.Channel):
    """Ends its BRPOP when it is closed, and when it starts to consume another queue.

    A ring at that moment may be lost; the reconciler repeats it.
    """

    QoS = _QoS
    _in_poll: Any

    def basic_consume(self, *args: Any, **more: Any) -> Any:  # noqa: ANN401 -- kombu's own
        """Consume one more queue."""
        self._give_up()
        return super().basic_consume(*args, **more)

    def close(self) -> None:
        """Close the channel."""
        self._give_up()
        super().close()

    def _give_up(self) -> None:
        if self._in_poll:
            self._in_poll.disconnect()
            self._in_poll = None


class Waiting:
    """A mixin for transports with a `WaitingChannel`."""

    brpop_timeout = _WAIT

    def register_with_event_loop(self, connection: Connection, loop: Hub) -> None:
        """Register with a worker's loop, without kombu's check for expired queues each second."""
        super().register_with_event_loop(connection, loop)  # type: ignore[misc] # the transport's
        self.cycle._binding_expiry_tref.cancel()  # type: ignore[attr-defined] # noqa: SLF001


class Transport(Waiting, redis.Transport):
    """kombu's transport for a single Redis server, which blocks until a bell rings."""

    Channel: Any = WaitingChannel
