"""Passes the metrics of commands on to a gateway, because commands end before they are scraped."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring.metrics import METRICS, Sample, record

_KEY: Final = "samples"
_MOST: Final = 10_000
_KEPT: Final = timedelta(days=1)


class Samples:
    """Collects the samples of a command."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def __call__(self, sample: Sample) -> None:
        """Collect a sample."""
        self._samples.append(sample)

    async def hand_over(self, ledger: Ledger) -> None:
        """Store the samples for a day, for the gateway that is scraped next.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if not self._samples:
            return
        key = ledger.store.prefix + _KEY
        texts = [json.dumps([metric.name, *rest]) for metric, *rest in self._samples]
        self._samples.clear()
        async with (
            ledger.store.translated_client() as client,
            client.pipeline(transaction=True) as pipe,
        ):
            pipe.execute_command("RPUSH", key, *texts)
            pipe.execute_command("LTRIM", key, -_MOST, -1)
            pipe.execute_command("EXPIRE", key, int(_KEPT.total_seconds()))
            await pipe.execute()


async def take_over(ledger: Ledger) -> None:
    """Record the stored samples of commands in this process, and delete them.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with (
        ledger.store.translated_client() as client,
        client.pipeline(transaction=True) as pipe,
    ):
        pipe.execute_command("LPOP", ledger.store.prefix + _KEY, _MOST)
        (texts,) = await pipe.execute()
    for metric, labels, value in _known(texts or []):
        record(metric, *labels, value=value)


def _known(texts: list[str]) -> Iterator[Sample]:
    """Yield the samples of metrics that this version has."""
    for text in texts:
        name, labels, value = json.loads(text)
        metric = METRICS.get(name)
        if metric is not None and len(labels) == len(metric.labels):
            yield metric, tuple(labels), value
