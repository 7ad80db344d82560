"""The metrics of a process for Prometheus; the only module that uses prometheus-client."""

from __future__ import annotations

import hmac
import socket
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    disable_created_metrics,
    make_wsgi_app,
)
from prometheus_client.exposition import ThreadingWSGIServer, choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from signoff.broker.monitoring import metrics
from signoff.broker.monitoring.metrics import METRICS, MOST, OTHER, MetricKind, Sample
from signoff.core.base.errors import ConfigError

_PATIENCE: Final = 10
"""Seconds within which a scraper must send its request."""


class Bounded:
    """Limits the number of values of a label, because some come from outside."""

    def __init__(self) -> None:
        self._known: defaultdict[str, set[str]] = defaultdict(set)

    def __call__(self, metric: metrics.Metric, values: Iterable[str]) -> list[str]:
        """Return the label values of a metric; `OTHER` replaces further values above the limit."""
        return [
            self._one(f"{metric.name}:{name}", value)
            for name, value in zip(metric.labels, values, strict=True)
        ]

    def _one(self, label: str, value: str) -> str:
        known = self._known[label]
        if value not in known:
            if len(known) >= MOST:
                return OTHER
            known.add(value)
        return value


class Metrics:
    """The metrics of a process: collects samples and exports them.

    Args:
        kind: The kind of process.
    """

    def __init__(self, kind: str) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # it has no annotations
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._bounded = Bounded()
        self._lock = threading.Lock()
        self._made = {
            one.name: _made(one, self.registry)
            for one in METRICS.values()
            if one.of in {"all", kind}
        }
        self((metrics.INFO, (version("signoff"), kind), 1))

    def __call__(self, sample: Sample) -> None:
        """Record a sample; it is dropped if this kind of process does not export the metric."""
        metric, labels, value = sample
        made = self._made.get(metric.name)
        if made is None:
            return
        if metric.labels:
            with self._lock:
                values = self._bounded(metric, labels)
            made = made.labels(*values)
        if isinstance(made, Histogram):
            made.observe(value)
        else:
            made.inc(value)

    def begin_at_zero(self, stages: Iterable[str]) -> None:
        """Export the counters that alerts use with value 0 at the start.

        Prometheus sees no increase in a series that begins with 1.

        Args:
            stages: The stages that this process works on.
        """
        for stage in stages:
            head, _, name = stage.partition(".")
            self((metrics.DEAD_LETTERS, (stage,), 0))
            if head == "run":
                for state in ("completed", "failed", "in_doubt"):
                    self((metrics.RUNS_ENDED, (name, state), 0))
            if head in {"deliver", "webhook"}:
                channel = name if head == "deliver" else stage
                for result in ("delivered", "retry", "refused"):
                    self((metrics.DELIVERIES, (channel, result), 0))
        for result in ("resumed", "failed", "unverified", "expired"):
            self((metrics.RESUMES, (result,), 0))
        for result in ("rung", "failed"):
            self((metrics.DOORBELLS, (result,), 0))
        for result in ("ok", "failed"):
            self((metrics.ARCHIVE_ATTEMPTS, (result,), 0))

    def text(self, accept: str, ledger: Iterable[Sample] = ()) -> tuple[bytes, str]:
        """Return all metrics in a format that a scraper accepts, and its media type.

        Args:
            accept: The `Accept` header of the scraper.
            ledger: The gauges of a ledger.
        """
        together = CollectorRegistry()
        together.register(_Whole(self.registry, list(ledger)))
        encode, media_type = choose_encoder(accept)
        return encode(together), media_type


class _Whole(Collector):
    def __init__(self, process: CollectorRegistry, ledger: list[Sample]) -> None:
        self._process = process
        self._ledger = ledger

    def collect(self) -> Iterator[Metric]:
        yield from self._process.collect()
        families: dict[str, GaugeMetricFamily] = {}
        sums: defaultdict[tuple[str, tuple[str, ...]], float] = defaultdict(float)
        bounded = Bounded()
        for metric, labels, value in self._ledger:
            families.setdefault(
                metric.name, GaugeMetricFamily(metric.name, metric.text, labels=metric.labels)
            )
            sums[metric.name, tuple(bounded(metric, labels))] += value
        for (name, values), value in sums.items():
            families[name].add_metric(values, value)
        yield from families.values()


def _made(metric: metrics.Metric, registry: CollectorRegistry) -> Counter | Gauge | Histogram:
    match metric.kind:
        case MetricKind.COUNTER:
            return Counter(metric.name, metric.text, metric.labels, registry=registry)
        case MetricKind.HISTOGRAM:
            return Histogram(
                metric.name,
                metric.text,
                metric.labels,
                buckets=metric.buckets,
                registry=registry,
            )
    return Gauge(metric.name, metric.text, metric.labels, registry=registry)


def is_allowed(authorization: str, token: str) -> bool:
    """Say whether a scraper's `Authorization` header has the token; "" needs none."""
    return not token or hmac.compare_digest(authorization.encode(), f"Bearer {token}".encode())


class Exporter:
    """Serves the metrics of a process on a separate port, in its own thread.

    Args:
        found: The metrics.
        host: The address to listen on.
        port: The port; 0 lets the system choose.
        token: The token that scrapers must send, "" for none.
        key: The setting of the port, for messages.

    Attributes:
        port: The port that it listens on.

    Raises:
        ConfigError: The address or the port cannot be used.
    """

    def __init__(
        self, found: Metrics, host: str, port: int, *, token: str = "", key: str = "metrics"
    ) -> None:
        app = _only_with(token, make_wsgi_app(found.registry))
        server = _Server6 if ":" in host else ThreadingWSGIServer
        try:
            self._server = make_server(host, port, app, server, _Handler)
        except OSError as error:
            variable = f"SIGNOFF_{key.upper().replace('.', '__')}"
            raise ConfigError(
                f"cannot listen on {host}:{port}: {error.strerror or error}; give each process on "
                f"this machine a port of its own, with {variable} in its environment",
                key=key,
            ) from error
        self.port = int(self._server.server_address[1])
        self._ended = False
        self._thread = threading.Thread(target=self._serve, name="signoff-metrics", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        self._ended = True
        # The thread sleeps until a client connects; `serve_forever` would wake each half second.
        where = (str(self._server.server_address[0]), self.port)
        with suppress(OSError), socket.create_connection(where, _PATIENCE):
            self._thread.join(_PATIENCE)
        self._server.server_close()

    def _serve(self) -> None:
        while not self._ended:
            self._server.handle_request()


class _Server6(ThreadingWSGIServer):
    address_family = socket.AF_INET6


class _Handler(WSGIRequestHandler):
    timeout = _PATIENCE

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002, ANN401 -- as the base has it
        """Log nothing for a scrape."""


App = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def _only_with(token: str, app: App) -> App:
    def guarded(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
        if environ.get("PATH_INFO") != "/metrics":
            start("404 Not Found", [("Content-Type", "text/plain")])
            return [b"There is only /metrics.\n"]
        if not is_allowed(environ.get("HTTP_AUTHORIZATION", ""), token):
            start("401 Unauthorized", [("WWW-Authenticate", 'Bearer realm="signoff"')])
            return [b""]
        return app(environ, start)

    return guarded
