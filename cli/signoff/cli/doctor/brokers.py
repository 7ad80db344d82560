"""Checks whether the broker that carries the doorbells can be reached."""

from __future__ import annotations

from typing import Final

import structlog
from celery import Celery
from kombu.exceptions import OperationalError

from signoff.cli import log as logs
from signoff.core.base.errors import SignoffError

log = structlog.get_logger(__name__)

_TRIES: Final = 10


class BrokerUnavailable(SignoffError):
    """The broker that carries the doorbells cannot be reached."""


def require_broker(celery: Celery, *, tries: int = _TRIES) -> None:
    """Return when the broker answers, after at most this many tries, with growing pauses.

    Raises:
        BrokerUnavailable: It has not answered after all attempts.
    """

    def waiting(error: Exception, seconds: float) -> None:
        log.warning("broker.unreachable", error=str(error), retry_in=round(seconds, 1))

    connection = celery.connection_for_write()
    url = logs.hide_passwords(str(celery.conf.broker_url))
    try:
        with connection:
            connection.ensure_connection(
                errback=waiting if tries > 1 else None,
                max_retries=tries,
                interval_start=1,
                interval_step=1,
                interval_max=3,
            )
    except (OperationalError, OSError) as error:
        raise BrokerUnavailable(
            f"The broker at {url} cannot be reached: {str(error).rstrip('.')}. Check [broker] url; "
            "if it is not set, the broker is the ledger's Redis."
        ) from error
