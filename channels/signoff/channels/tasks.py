"""The Celery tasks of the channels: each drains its stage on the loop of the process."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

import structlog
from celery import Celery

from signoff.broker import stages
from signoff.broker.doorbells.loop import LoopThread
from signoff.channels.email.inbound.intake import Intake
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.route import Router
from signoff.core.base.errors import LedgerError

log = structlog.get_logger(__name__)

Drain = Callable[[], Coroutine[Any, Any, int]]
"""Works through one stage until nothing waits, and returns how many items there were."""


def drains(router: Router, intake: Intake, deliveries: Iterable[Delivery]) -> dict[str, Drain]:
    """Return the drain of each stage of the channels, by the name of the stage.

    The router delivers through these channels in its own process.
    """
    channels = {stages.deliver(one.name): one for one in deliveries}
    router.work_locally({stage: one.work for stage, one in channels.items()})
    found: dict[str, Drain] = {stages.ROUTE: router.drain, stages.INTAKE: intake.drain}
    return found | {stage: one.drain for stage, one in channels.items()}


def register(app: Celery, loop: LoopThread, stage_drains: Mapping[str, Drain]) -> None:
    """Register a task for each stage on a Celery app.

    The message is a doorbell. The task drains the stage that it is named after, with any argument.

    Args:
        app: The Celery app of the process.
        loop: Where all coroutines of the process run.
        stage_drains: As `drains` returns them.
    """
    for stage, drain in stage_drains.items():
        # Not shared: Celery would hand the task to every other app of the process.
        made = app.task(name=stages.task(stage), shared=False, ignore_result=True)
        made(_task(loop, stage, drain))


def _task(loop: LoopThread, stage: str, drain: Drain) -> Callable[..., None]:
    def task(*_args: Any) -> None:  # noqa: ANN401 -- the arguments of a doorbell are ignored
        try:
            count = loop.run(drain())
        except LedgerError as error:
            # Nothing is lost: leases expire, and the reconciler rings again.
            log.warning("stage.ledger_unavailable", stage=stage, error=str(error))
            return
        if count:
            log.debug("stage.drained", stage=stage, items=count)

    return task
