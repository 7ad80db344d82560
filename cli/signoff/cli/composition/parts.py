"""The parts that every process is made of."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from signoff.broker.decisions import Decisions
from signoff.broker.doorbells.celery import CeleryBell, make_celery
from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.composition.receipts import open_receipts
from signoff.cli.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """The parts of a process, built from one set of settings."""

    settings: Settings
    celery: Celery
    ledger: Ledger
    decisions: Decisions


def build(settings: Settings, *, decides: bool = True) -> Parts:
    """Build the parts; nothing is connected yet.

    Args:
        settings: The settings.
        decides: Whether this process decides approvals; a worker does not.

    Raises:
        ConfigError: A key of the receipts cannot be read or made.
    """
    celery = make_celery(settings.broker_url, prefix=settings.redis.prefix)
    replica = settings.redis.durability == "replica"
    store = Store.open(settings.redis_url, prefix=settings.redis.prefix, replica=replica)
    receipts = open_receipts(settings, signs=decides)
    bell = RedisBell(store) if settings.rings_in_redis else CeleryBell(celery)
    ledger = Ledger(store, bell, receipts=receipts)
    return Parts(settings, celery, ledger, Decisions(ledger, settings.everybody))
