"""`/metrics` of the gateway: its own metrics, and those of the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol

import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Router

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import handover, metrics
from signoff.broker.monitoring.exposition import Metrics, is_allowed
from signoff.broker.monitoring.gauges import KnownNames, measure
from signoff.channels.web.problems import Problem
from signoff.core.base.errors import LedgerUnavailable

log = structlog.get_logger(__name__)

_PATIENCE: Final = 5.0
"""Seconds within which the ledger must answer; scrapers give up after ten."""


class Check(Protocol):
    """A check of the gateway, such as one of its listeners."""

    @property
    def name(self) -> str:
        """The name in ``/readyz``."""

    @property
    def problem(self) -> str:
        """The problem, "" if there is none."""


def make_metrics_router(
    ledger: Ledger,
    found: Metrics,
    known: Callable[[], KnownNames],
    *,
    checks: Sequence[Check],
    token: str,
) -> Router:
    """Return the route.

    Args:
        ledger: The ledger, which is measured at each scrape. While it cannot be reached, only the
            metrics of this process are served. `signoff_ledger_up` is 0 then, and also while it
            takes no writes.
        found: The metrics of this process.
        known: Returns the names in the current settings.
        checks: The checks of the gateway, which do not need the ledger.
        token: The token that scrapers must send, "" for none.
    """
    router = Router()

    async def scrape(request: Request) -> Response:
        if not is_allowed(request.headers.get("authorization", ""), token):
            raise Problem(
                401,
                "token",
                "The metrics need a token",
                "Send `[metrics] token` as a bearer token.",
                headers={"WWW-Authenticate": 'Bearer realm="signoff"'},
            )
        samples = [*await _samples(ledger, known())]
        samples += [(metrics.GATEWAY_OK, (one.name,), not one.problem) for one in checks]
        body, media_type = found.text(request.headers.get("accept", ""), samples)
        return Response(body, headers={"Content-Type": media_type})

    router.add_route("/metrics", scrape)
    return router


async def _samples(ledger: Ledger, known: KnownNames) -> Iterable[metrics.Sample]:
    up, found = 1, list[metrics.Sample]()
    try:
        async with asyncio.timeout(_PATIENCE):
            try:
                await handover.take_over(ledger)
            except LedgerUnavailable as error:
                # It may take no writes and still be measured, and that shows why.
                up = 0
                log.warning("metrics.ledger_unavailable", error=str(error))
            found += (await measure(ledger, known)).samples()
    except (LedgerUnavailable, TimeoutError) as error:
        up = 0
        log.warning("metrics.ledger_unavailable", error=str(error))
    return [(metrics.LEDGER_UP, (), up), *found]
