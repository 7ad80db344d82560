"""SIGKILL between every two steps of a run and of a resume: nothing is done twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.parts import Asked
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import InDoubt, Terms
from worker.office import EXAMPLES, MARA

TESTS = Path(__file__).parents[1]
STEPS = range(1, 9)
ROUNDS = int(os.environ.get("SIGNOFF_KILLS", "1"))
"""How often each step is killed at; SIGNOFF_KILLS=100 runs for an evening."""


class Forge:
    """Workers that do one job each.

    Args:
        redis: The URL of the ledger.
        folder: Where the log and the tools' journal are.
        agents: The folder of the agents.
        names: The agents that are loaded before the workers are forked.
    """

    def __init__(self, redis: str, folder: Path, agents: Path, names: Sequence[str]) -> None:
        path = (str(EXAMPLES), str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")]))
        environment = os.environ | {
            "SIGNOFF_EXAMPLE_JOURNAL": str(folder / "journal.jsonl"),
            "PYTHONPATH": os.pathsep.join(path),
        }
        environment.pop("GOOGLE_API_KEY", None)
        with (folder / "forge.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    *(sys.executable, str(Path(__file__).with_name("forge.py")), redis),
                    *(str(agents), *names),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=environment,
            )

    def work(self, stage: str, *, step: int = 0, after: bool = False, thought: int = 0) -> int:
        """Let a worker work on a stage, and return its exit code: -9 if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        job = {"stage": stage, "step": step, "after": after, "thought": thought}
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def close(self) -> None:
        """End the forge."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@asynccontextmanager
async def forge(
    folder: Path,
    agents: Path = EXAMPLES,
    names: Sequence[str] = ("finance", "refunds"),
) -> AsyncIterator[tuple[Forge, Ledger]]:
    """Yield a forge and the ledger it works on."""
    with EmbeddedRedis(folder / "redis", fsync="everysec") as redis:
        made = Forge(redis.url, folder, agents, names)
        ledger = Ledger(Store.open(redis.url))
        try:
            yield made, ledger
        finally:
            made.close()
            await ledger.close()


async def take_up(workers: Forge, ledger: Ledger, stage: str) -> None:
    """End the leases of dead workers, and let living workers finish a stage."""
    while (await ledger.backlog()).get(stage):
        async with ledger.store.translated_client() as client:
            outbox = f"{ledger.store.prefix}outbox:{stage}"
            items = await client.zrange(outbox, 0, -1, desc=False)
            await client.zadd(outbox, dict.fromkeys(items, 0))
            for key in await client.keys("*}:lease:*"):
                await client.delete(key)
        assert workers.work(stage) == 0


async def approve(ledger: Ledger, decider: Decider, run: Run) -> None:
    """Ask Mara, and let her approve."""
    for was in await ledger.approvals(run.waiting):
        asked, events = was.ask(
            Terms(policy="test", ask=("mara",), in_doubt=InDoubt.FAIL),
            (Asked(person="mara", channel="email", address=MARA.email),),
            now=await ledger.now(),
        )
        await ledger.commit(Change().put(asked, was=was).note(events))
        await decider.approve(asked.id, MARA, channel="cli")


@pytest.mark.promise
@pytest.mark.timeout(3600)
async def test_sigkill_at_every_step(tmp_path: Path) -> None:
    """Each tool runs once, or is in doubt and has run at most once; the audit verifies."""
    run_stage, resume_stage = stages.run("finance"), stages.resume("finance")
    async with forge(tmp_path) as (workers, ledger):
        decider = Decider(ledger, Directory([MARA]))
        ends: Counter[RunState] = Counter()
        killed = 0
        for number in range(ROUNDS):
            runs = []
            for step in STEPS:
                for after in (False, True):
                    name = f"{number}-{step}-{after}"
                    run = await decider.submit(
                        "finance", f"Reimburse me $2500 for {name}", user="r"
                    )
                    killed += workers.work(run_stage, step=step, after=after) == -9
                    runs.append(run.id)
            await take_up(workers, ledger, run_stage)
            for run_id, (step, after) in zip(
                runs, ((step, after) for step in STEPS for after in (False, True)), strict=True
            ):
                run = await ledger.run(run_id)
                assert run.state is RunState.PAUSED
                assert len(run.approvals) == 1
                await approve(ledger, decider, run)
                killed += workers.work(resume_stage, step=step, after=after) == -9
            await take_up(workers, ledger, resume_stage)
            for run in await ledger.runs(runs):
                ends[run.state] += 1
                (approval,) = await ledger.approvals(run.approvals)
                expected = {
                    RunState.COMPLETED: Handoff.RESUMED,
                    RunState.IN_DOUBT: Handoff.IN_DOUBT,
                }
                assert approval.handoff is expected[run.state], run.problem
        journal = (tmp_path / "journal.jsonl").read_text().splitlines()
        executed = Counter(str(json.loads(line)["purpose"]) for line in journal)
        assert max(executed.values()) == 1
        assert len(executed) >= ends[RunState.COMPLETED]
        # Without kills in the middle of both stages, the test would prove nothing.
        assert killed > ROUNDS * len(STEPS) * 2
        assert ends[RunState.IN_DOUBT]
        await audit.verify(ledger.store)
