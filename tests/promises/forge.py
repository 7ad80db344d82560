"""Forks workers that kill themselves with SIGKILL at a given step; a program, not a test.

Reads one job per line from standard input::

    {"stage": ..., "step": n, "after": bool, "thought": n}

A step of 0 means that the worker survives. A thought is a call of a model of `worker.shapes`; the
worker dies in it. A child process does each job: it is forked after the slow imports, and its exit
status is printed on one line.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import structlog
from google.adk.cli.utils.agent_loader import AgentLoader

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.sessions import SessionRecords
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.dispatch import MixedRuntime
from signoff.worker.executor import Executor
from signoff.worker.frameworks.loading import ADK, Agents, framework_of
from signoff.worker.frameworks.runtime import framework_runtime
from worker import shapes
from worker.frameworks import script

LEASE = 600.0
"""Seconds; longer than a slow machine delays the heartbeats of a living worker."""


async def work(redis: str, agents: Path, job: dict[str, Any], others: Sequence[str]) -> None:
    """Work on a stage, and die at the step of the job; `others` are agents of other frameworks."""
    left = int(job["step"])

    async def step(do: Callable[[], Awaitable[Any]]) -> Any:
        nonlocal left
        left -= 1
        if left == 0 and not job["after"]:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await do()
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    def effect() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    script.before_effect.append(effect)
    if job["thought"]:
        die_thinking(int(job["thought"]))
    ledger = Ledger(Store.open(redis))
    store = session_service("", agents, ledger.store)
    commit_all = ledger.commit_all
    # Each write of the worker counts as a step.
    ledger.commit_all = lambda changes: step(lambda: commit_all(changes))  # type: ignore[method-assign]
    put = SessionRecords.append
    SessionRecords.append = lambda *args: step(lambda: put(*args))  # type: ignore[method-assign]
    frameworks = framework_runtime(agents, ledger)
    guard = GuardPlugin(ledger)
    apps = Apps(agents, store, lambda: guard)
    runtime = MixedRuntime(AdkRuntime(apps, guard), dict.fromkeys(others, frameworks))
    await Executor(ledger, runtime, lease=LEASE).drain(job["stage"])
    await apps.close()
    await ledger.close()


def die_thinking(number: int) -> None:
    """Die while a model thinks: in the call with this number, counted from now."""
    think = shapes.Actor.generate_content_async
    left = number

    async def call(self: shapes.Actor, *args: Any, **more: Any) -> AsyncGenerator[Any, None]:
        nonlocal left
        left -= 1
        if left == 0:
            # Let the parallel tasks go first, as they would while a model takes seconds.
            await asyncio.sleep(0)
            os.kill(os.getpid(), signal.SIGKILL)
        async for response in think(self, *args, **more):
            yield response

    shapes.Actor.generate_content_async = call  # type: ignore[method-assign]


def main() -> None:
    """Run each job in a child process."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    redis, folder, *names = sys.argv[1:]
    agents = Path(folder)
    others = [name for name in names if framework_of(agents, name) != ADK]
    for name in names:
        if name not in others:
            AgentLoader(folder).load_agent(name)
        else:
            Agents(agents).load(name)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            asyncio.run(work(redis, agents, json.loads(line), others))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
