"""The runtimes of a worker: for ADK agents in the process or behind servers, and for others."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import structlog

from signoff.cli.composition.parts import Parts
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import AppNotFound
from signoff.worker.dispatch import MixedRuntime
from signoff.worker.frameworks.loading import ADK, framework_of
from signoff.worker.frameworks.runtime import FrameworkRuntime, framework_runtime
from signoff.worker.port import Runtime

log = structlog.get_logger(__name__)

Renew = Callable[[Settings], None]

Close = Callable[[], Coroutine[Any, Any, None]]


def open_runtime(parts: Parts, names: Sequence[str]) -> tuple[Runtime, Renew, Close]:
    """Return the runtime for these apps, a function that applies new settings, and one to close it.

    ADK is imported only if an app needs it: the import takes seconds, and ADK is optional.

    Raises:
        ConfigErrors: The settings of sessions or artifacts have errors.
        ModuleNotFoundError: An app needs ADK, and it is not installed.
    """
    settings = parts.settings
    remote, folder = settings.agents.remote, settings.agents_folder
    local = [name for name in names if name not in remote]
    adks = [name for name in local if framework_of(folder, name) == ADK]
    others = [name for name in local if name not in adks]
    frameworks = framework_runtime(
        folder, parts.ledger, valid_for=settings.agents.valid_for, inputs=settings.inputs
    )
    _load(frameworks, others)
    runtimes: dict[str, Runtime] = dict.fromkeys(others, frameworks)
    if not adks and not any(name in remote for name in names):
        return MixedRuntime(frameworks, runtimes), _nothing_to_renew, _nothing_to_close
    usual, servers, renew, close = _open_adk(parts, adks)
    return MixedRuntime(usual, {**runtimes, **dict.fromkeys(remote, servers)}), renew, close


def _open_adk(parts: Parts, names: Sequence[str]) -> tuple[Runtime, Runtime, Renew, Close]:
    """Return the runtimes for ADK agents here and behind servers, and functions to renew and close.

    Args:
        parts: The parts of the process.
        names: The agents in this process.
    """
    from signoff.cli.composition.sessions import open_sessions  # noqa: PLC0415 -- as above
    from signoff.worker.adk.apps import open_apps  # noqa: PLC0415
    from signoff.worker.adk.guard.guard import GuardPlugin  # noqa: PLC0415
    from signoff.worker.adk.guard.holding import Holding  # noqa: PLC0415
    from signoff.worker.adk.runtime import AdkRuntime  # noqa: PLC0415
    from signoff.worker.adk.showing import json_shown_through, shown_through  # noqa: PLC0415
    from signoff.worker.adk_remote.runtime import RemoteRuntime  # noqa: PLC0415
    from signoff.worker.ces import rules  # noqa: PLC0415
    from signoff.worker.ces.seal import own_key  # noqa: PLC0415

    settings = parts.settings
    rules.use(own_key(settings.ces, settings.state_folder))
    guard = GuardPlugin(
        parts.ledger,
        valid_for=settings.agents.valid_for,
        holding=Holding(settings.policies, settings.default),
    )
    runners = open_apps(
        settings.agents_folder, open_sessions(parts), settings.artifacts_url, lambda: guard
    )
    servers = RemoteRuntime(
        settings.agents.remote,
        parts.ledger,
        show=json_shown_through(parts.ledger),
        long_running=settings.long_running,
        inputs=settings.inputs,
    )
    local = AdkRuntime(
        runners,
        guard,
        long_running=settings.long_running,
        inputs=settings.inputs,
        show=shown_through(parts.ledger),
    )
    runners.load_all(names)

    def renew(fresh: Settings) -> None:
        guard.holding = Holding(fresh.policies, fresh.default)

    async def close() -> None:
        await runners.close()
        await servers.close()

    return local, servers, renew, close


def _load(frameworks: FrameworkRuntime, names: Sequence[str]) -> None:
    """Load agents, and log each one that does not load; the others still run."""
    for name in names:
        try:
            frameworks.agents.load(name)
        except AppNotFound as error:
            log.error("agent.broken", app=name, problem=str(error))  # noqa: TRY400 -- the message says everything


def _nothing_to_renew(_: Settings) -> None:
    pass


async def _nothing_to_close() -> None:
    pass
