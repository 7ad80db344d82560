"""The Celery tasks of the worker: the doorbells of the stages `run` and `resume` of its apps."""

from __future__ import annotations

import structlog
from celery import Celery

from signoff.broker import stages
from signoff.broker.doorbells.loop import LoopThread
from signoff.core.base.errors import LedgerError
from signoff.worker.executor import Executor

log = structlog.get_logger(__name__)


def register(app: Celery, loop: LoopThread, executor: Executor) -> None:
    """Register `signoff.run` and `signoff.resume`.

    The only argument of a task is its stage, because the work is in the ledger. The thread of a
    task waits while the loop of the process works on the stage.
    """

    def drain(stage: str) -> None:
        try:
            loop.run(executor.drain(stage))
        except LedgerError as error:
            # Nothing is lost: leases expire, and the reconciler rings again.
            log.warning("stage.ledger_unavailable", stage=stage, error=str(error))

    @app.task(name=stages.task(stages.RUN), shared=False)
    def run(stage: str) -> None:
        drain(stage)

    @app.task(name=stages.task(stages.RESUME), shared=False)
    def resume(stage: str) -> None:
        drain(stage)


def stages_of(app_names: list[str]) -> list[str]:
    """Return the stages that a worker for these apps consumes."""
    return [stage(name) for name in app_names for stage in (stages.run, stages.resume)]
