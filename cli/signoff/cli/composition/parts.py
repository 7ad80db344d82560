"""What every process is made of."""

from __future__ import annotations

from dataclasses import dataclass

from celery import Celery

from signoff.broker.decisions import Decisions
from signoff.broker.doorbells.celery import CeleryBell, make_celery
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.config.settings import Settings


@dataclass(frozen=True, slots=True)
class Parts:
    """What every process is made of, on the same settings."""

    settings: Settings
    celery: Celery
    ledger: Ledger
    decisions: Decisions


def build(settings: Settings) -> Parts:
    """Put the parts together; nothing is connected yet."""
    celery = make_celery(settings.broker_url)
    replica = settings.redis.durability == "replica"
    store = Store.open(settings.redis_url, prefix=settings.redis.prefix, replica=replica)
    ledger = Ledger(store, CeleryBell(celery))
    return Parts(settings, celery, ledger, Decisions(ledger, settings.everybody))
