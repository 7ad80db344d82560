"""`signoff worker`: runs agents."""

from __future__ import annotations

from collections.abc import Sequence

from signoff.cli.composition.consumer import consume
from signoff.cli.composition.parts import build
from signoff.cli.composition.process import prepare
from signoff.cli.composition.runtimes import open_runtime
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import AppNotFound
from signoff.worker import tasks
from signoff.worker.agent_folders import agents_in
from signoff.worker.executor import Executor


def run_worker(settings: Settings, apps: Sequence[str] = ()) -> int:
    """Run agents until told to stop; return the exit code.

    Without names, all agents in the folder and all remote agents run.

    Raises:
        ConfigErrors: The settings have errors.
        AppNotFound: A named agent is not there.
        LedgerUnavailable, BrokerUnavailable: See `consume`.
    """
    prepare(settings, "worker")
    found = agents_in(settings.agents_folder, settings.agents.remote)
    names = list(apps) or found
    if missing := [name for name in names if name not in found]:
        raise AppNotFound(
            f"There is no agent {missing[0]!r} in {settings.agents_folder}. "
            f"There are: {', '.join(found)}."
        )
    parts = build(settings, decides=False)
    runtime, renew_runtime, close = open_runtime(parts, names)
    executor = Executor(
        parts.ledger,
        runtime,
        lease=settings.agents.lease,
        slots=settings.agents.concurrency,
        valid_for=settings.agents.valid_for,
        hide=settings.all_hidden,
    )

    def renew(fresh: Settings) -> None:
        executor.hide = fresh.all_hidden
        renew_runtime(fresh)

    return consume(
        parts,
        kind="worker",
        stages=tasks.stages_of(names),
        threads=settings.agents.concurrency,
        register=lambda loop: tasks.register(parts.celery, loop, executor),
        close=close,
        renew=renew,
        stopping=executor.stop_claiming,
    )
