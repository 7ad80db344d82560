"""How each process is seen from outside: its metrics, by the settings."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics, tracing
from signoff.broker.monitoring.gauges import Known
from signoff.broker.monitoring.handover import Samples
from signoff.cli.composition.kinds import KINDS
from signoff.core.base.errors import LedgerUnavailable

if TYPE_CHECKING:
    from signoff.broker.monitoring.exposition import Metrics
    from signoff.cli.config.settings import Settings


COMMAND: Final = "cli"
"""What commands are called in traces, as a kind of process."""


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


@contextmanager
def traced(settings: Settings, kind: str) -> Iterator[None]:
    """Make spans and send them to the collector, if the settings want it.

    What OpenTelemetry has been set up with before stays, such as by `opentelemetry-instrument`.

    Args:
        settings: The settings.
        kind: The kind of process; with ``signoff-`` in front, the name of the service.

    Raises:
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    if not settings.tracing.enabled:
        yield
        return
    if not settings.tracing.content:
        # Before ADK looks. It would write down what a policy hides.
        os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")
    from opentelemetry import trace  # noqa: PLC0415 -- only where it is wanted
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    found: object = trace.get_tracer_provider()
    provider = None
    if isinstance(found, trace.ProxyTracerProvider):
        service = os.environ.get("OTEL_SERVICE_NAME", f"signoff-{kind}")
        provider = TracerProvider(
            resource=Resource.create(
                {"service.name": service, "service.version": version("signoff")}
            ),
            shutdown_on_exit=False,
        )
        url = settings.tracing.endpoint
        exporter = OTLPSpanExporter(
            f"{url.rstrip('/')}/v1/traces" if url else None,
            # Nobody at a terminal waits for a collector that is away.
            timeout=1 if kind == COMMAND else None,
        )
        provider.add_span_processor(BatchSpanProcessor(exporter))
        trace.set_tracer_provider(provider)
    tracing.trace_with(trace.get_tracer("signoff", version("signoff")))
    try:
        yield
    finally:
        tracing.trace_with(None)
        if provider is not None:
            provider.shutdown()


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
