"""Celery's transport for Redis, for doorbells: it blocks until one comes, and stores no copies.

kombu's own transport polls each second. It writes each message that it receives into Redis until
the message is acknowledged, so that another worker gets it if this one dies. Both writes are waited
for before the task begins. The work of a lost doorbell is in the ledger, so it needs neither.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, Final

from kombu import Connection
from kombu.asynchronous import Hub, get_event_loop
from kombu.transport import redis, virtual

_WAIT: Final = 10
"""Seconds of one BRPOP: the longest time that the loop of a worker sleeps."""


def wake() -> None:
    """Wake the loop of this process's worker from another thread."""
    hub: Hub | None = get_event_loop()
    if hub is not None:
        hub.call_soon(_nothing)


def _nothing() -> None:
    pass


class _QoS(virtual.QoS):
    """Wakes the loop when a message is acknowledged and the prefetch limit had been reached."""

    # Attributes of kombu that its stubs leave out.
    _delivered: Any
    _flush: Any

    def ack(self, delivery_tag: str) -> None:
        full = not self.can_consume()
        super().ack(delivery_tag)
        if full:
            wake()

    def restore_unacked(self) -> None:
        """Put the messages that no thread has begun back into their queues.

        If Redis is away, they are lost, and the reconciler rings again.
        """
        self._flush()
        with suppress(Exception):
            while self._delivered:
                _, message = self._delivered.popitem()
                self.channel._restore(message)  # noqa: SLF001 -- as kombu does
        self._delivered.clear()


class BlockingChannel(redis.Channel):
    """Ends its BRPOP when it is closed, and when it starts to consume another queue.

    A ring at that moment may be lost; the reconciler repeats it.
    """

    ack_emulation = False
    QoS: Any
    _in_poll: Any

    def __init__(self, *args: Any, **more: Any) -> None:  # noqa: ANN401 -- kombu's own
        super().__init__(*args, **more)
        # Without copies in Redis, kombu takes a class of its own.
        self.QoS = _QoS

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


class BlockingMixin:
    """A mixin for transports with a `BlockingChannel`."""

    brpop_timeout = _WAIT

    def register_with_event_loop(self, connection: Connection, loop: Hub) -> None:
        """Register with a worker's loop, without kombu's timers that have nothing to do here.

        They check each second for expired queues, and every ten for copies of lost messages.
        """
        super().register_with_event_loop(connection, loop)  # type: ignore[misc] # the transport's
        self.cycle._binding_expiry_tref.cancel()  # type: ignore[attr-defined] # noqa: SLF001
        self.cycle._restore_messages_tref.cancel()  # type: ignore[attr-defined] # noqa: SLF001


class BlockingTransport(BlockingMixin, redis.Transport):
    """kombu's transport for a single Redis server, which blocks until a bell rings."""

    Channel: Any = BlockingChannel
