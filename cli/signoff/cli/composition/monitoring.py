"""How each process is seen from outside: its metrics, by the settings."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.gauges import Known
from signoff.broker.monitoring.handover import Samples
from signoff.cli.composition.kinds import KINDS
from signoff.core.base.errors import LedgerUnavailable

if TYPE_CHECKING:
    from signoff.broker.monitoring.exposition import Metrics
    from signoff.cli.config.settings import Settings


def known(settings: Settings) -> Known:
    """Return what the settings name, for the gauges."""
    policies = [one.name for one in settings.policies]
    return Known(
        queues=[one.name for one in settings.queues],
        policies=["", *policies, "default"],
        kinds=KINDS,
    )


def count(settings: Settings, kind: str, stages: Sequence[str] = ()) -> Metrics | None:
    """Count in this process from now on, if the settings want it; None if they do not.

    Args:
        settings: The settings.
        kind: The kind of process.
        stages: Those that it works on.
    """
    if not settings.metrics.enabled:
        return None
    from signoff.broker.monitoring.exposition import Metrics  # noqa: PLC0415 -- prometheus-client

    found = Metrics(kind)
    found.begin_at_zero(stages)
    metrics.record_to(found)
    return found


@contextmanager
def exported(settings: Settings, kind: str, stages: Sequence[str]) -> Iterator[dict[str, int]]:
    """Count, and serve the metrics of a worker or a channels process; yield the port for the log.

    Raises:
        ConfigError: The port is taken.
    """
    found = count(settings, kind, stages)
    if found is None:
        yield {}
        return
    from signoff.broker.monitoring.exposition import Exporter  # noqa: PLC0415 -- prometheus-client

    given = settings.metrics
    port = given.worker_port if kind == "worker" else given.channels_port
    token = given.token.get_secret_value()
    exporter = Exporter(found, given.host, port, token=token, key=f"metrics.{kind}_port")
    try:
        yield {"metrics": exporter.port}
    finally:
        exporter.stop()


@asynccontextmanager
async def handed_over(settings: Settings, ledger: Ledger) -> AsyncIterator[None]:
    """Count what a command does, for a gateway to export."""
    if not settings.metrics.enabled:
        yield
        return
    samples = Samples()
    metrics.record_to(samples)
    try:
        yield
    finally:
        metrics.record_to(None)
        # What was done is done, whether or not anybody can count it.
        with contextlib.suppress(LedgerUnavailable):
            await samples.hand_over(ledger)
