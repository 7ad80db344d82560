"""How a process rings: over the ledger's Redis if that is the broker, and otherwise with Celery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger.ledger import Bell
from signoff.broker.ledger.store import Store
from signoff.cli.config.settings import Settings

if TYPE_CHECKING:
    from celery import Celery


def open_bell(settings: Settings, store: Store) -> Bell:
    """Return the bell of a process."""
    if settings.rings_in_redis:
        return RedisBell(store)
    from signoff.broker.doorbells.celery import CeleryBell  # noqa: PLC0415 -- few brokers need it

    return CeleryBell(open_celery(settings))


def open_celery(settings: Settings) -> Celery:
    """Return a Celery app; nothing is connected yet."""
    from signoff.broker.doorbells.celery import make_celery  # noqa: PLC0415 -- it takes 4 MiB

    return make_celery(settings.broker_url, prefix=settings.redis.prefix)
