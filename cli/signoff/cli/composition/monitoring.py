"""The metrics and traces of each process, as the settings configure them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics, tracing
from signoff.cli.composition.kinds import KINDS
from signoff.core.base.errors import LedgerUnavailable

if TYPE_CHECKING:
    from signoff.broker.monitoring.exposition import Metrics
    from signoff.broker.monitoring.gauges import KnownNames
    from signoff.cli.config.settings import Settings


COMMAND: Final = "cli"
"""The kind of process for commands, in traces."""


def known(settings: Settings) -> KnownNames:
    """Return the names in the settings for which the gauges report a value."""
    from signoff.broker.monitoring.gauges import KnownNames  # noqa: PLC0415 -- the timers

    policies = [one.name for one in settings.policies]
    return KnownNames(
        queues=[one.name for one in settings.queues],
        policies=["", *policies, "default"],
        kinds=KINDS,
    )


def count(settings: Settings, kind: str, stages: Sequence[str] = ()) -> Metrics | None:
    """Start the metrics of this process and its stages; None if the settings disable them."""
    if not settings.metrics.enabled:
        return None
    from signoff.broker.monitoring.exposition import Metrics  # noqa: PLC0415 -- prometheus-client

    found = Metrics(kind)
    found.begin_at_zero(stages)
    metrics.record_to(found)
    return found


@contextmanager
def exported(settings: Settings, kind: str, stages: Sequence[str]) -> Iterator[dict[str, int]]:
    """Serve the metrics of a worker or channels process; yield the port for the log.

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
    """Send spans to the collector, if the settings enable traces.

    An earlier configuration of OpenTelemetry stays, such as that of `opentelemetry-instrument`.

    Args:
        settings: The settings.
        kind: The kind of process; the name of the service is ``signoff-`` and the kind.

    Raises:
        ModuleNotFoundError: OpenTelemetry is not installed.
    """
    if not settings.tracing.enabled:
        yield
        return
    if not settings.tracing.content:
        # Set before ADK reads it. ADK's spans would otherwise contain values that a policy hides.
        os.environ.setdefault("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", "false")
    from importlib.metadata import version  # noqa: PLC0415 -- only if it is enabled

    from opentelemetry import trace  # noqa: PLC0415 -- only if it is enabled
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
            # A command at a terminal must not wait for an unreachable collector.
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
    """Record the metrics of a command, for a gateway to export."""
    if not settings.metrics.enabled:
        yield
        return
    from signoff.broker.monitoring.handover import Samples  # noqa: PLC0415 -- only if it is enabled

    samples = Samples()
    metrics.record_to(samples)
    try:
        yield
    finally:
        metrics.record_to(None)
        # The command has succeeded, even if its metrics are lost.
        with contextlib.suppress(LedgerUnavailable):
            await samples.hand_over(ledger)
