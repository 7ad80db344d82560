"""The parts that every process is made of: the ledger with its bell, and the decisions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from signoff.broker.decisions import Decisions
from signoff.broker.doorbells.push import RedisBell
from signoff.broker.ledger.ledger import Bell, Ledger
from signoff.broker.ledger.store import Store
from signoff.cli.composition.receipts import open_receipts
from signoff.cli.config.settings import Settings

if TYPE_CHECKING:
    from celery import Celery

    from signoff.channels.pipeline.route import Router


@dataclass(frozen=True)
class Parts:
    """The parts of a process, built from one set of settings."""

    settings: Settings
    ledger: Ledger
    decisions: Decisions

    @cached_property
    def celery(self) -> Celery:
        """The Celery app, for processes that work on stages."""
        return open_celery(self.settings)

    def router(self) -> Router:
        """Return a router for the policies: of the stage, or to decide a call immediately."""
        from signoff.channels.pipeline.route import Router  # noqa: PLC0415 -- a worker has none

        settings = self.settings
        return Router(
            self.ledger,
            policies=settings.policies,
            fallback=settings.default,
            directory=self.decisions.directory,
            channels=settings.channel_names,
            owners=settings.owners,
            notifications=settings.notifications.as_told(),
        )


def build(settings: Settings, *, decides: bool = True) -> Parts:
    """Build the parts of a process that decides approvals (a worker does not); nothing connects.

    Raises:
        ConfigError: A key of the receipts cannot be read or made.
    """
    replica = settings.redis.durability == "replica"
    store = Store.open(settings.redis_url, prefix=settings.redis.prefix, replica=replica)
    receipts = open_receipts(settings, signs=decides)
    ledger = Ledger(store, open_bell(settings, store), receipts=receipts)
    return Parts(settings, ledger, Decisions(ledger, settings.everybody))


def open_bell(settings: Settings, store: Store) -> Bell:
    """Return the bell of a process: in the ledger's Redis if that is the broker, or by Celery."""
    if settings.rings_in_redis:
        return RedisBell(store)
    from signoff.broker.doorbells.celery import CeleryBell  # noqa: PLC0415 -- few brokers need it

    return CeleryBell(open_celery(settings))


def open_celery(settings: Settings) -> Celery:
    """Return a Celery app; nothing is connected yet."""
    from signoff.broker.doorbells.celery import make_celery  # noqa: PLC0415 -- it takes 4 MiB

    return make_celery(settings.broker_url, prefix=settings.redis.prefix)
