"""An OpenTelemetry collector: it takes spans by OTLP over HTTP from any process."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector:
    """The received spans.

    Attributes:
        url: The address of the collector.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._spans: list[tuple[str, Span]] = []
        self._came = threading.Condition()

    def take(self, body: bytes) -> None:
        """Take the spans of a process."""
        request = ExportTraceServiceRequest.FromString(body)
        with self._came:
            for resource in request.resource_spans:
                attributes = {
                    one.key: one.value.string_value for one in resource.resource.attributes
                }
                for scope in resource.scope_spans:
                    self._spans += [(attributes["service.name"], one) for one in scope.spans]
            self._came.notify_all()

    def wait_for(self, *names: str, within: float) -> list[tuple[str, Span]]:
        """Wait until each of these names has a span; return all received spans by service."""

        def there() -> bool:
            return {one.name for _, one in self._spans} >= set(names)

        with self._came:
            if not self._came.wait_for(there, within):
                missing = set(names) - {one.name for _, one in self._spans}
                raise TimeoutError(f"No span of {missing} came.")
            return list(self._spans)


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector on loopback."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.take(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 -- the base class names it so
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    collector = Collector(f"http://127.0.0.1:{server.server_address[1]}")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
