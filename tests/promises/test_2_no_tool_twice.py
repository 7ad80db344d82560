"""A tool never runs twice on one approval, whichever process is killed and whenever."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from promises.plant import plant
from signoff.broker.ledger import audit
from signoff.broker.submit import submit
from signoff.core.approvals.events import What
from signoff.core.approvals.lifecycle import Handoff, State

RUNS = 120 * int(os.environ.get("SIGNOFF_KILLS", "1"))
KILLS = 6


@pytest.mark.promise
@pytest.mark.soak
@pytest.mark.timeout(3600)
async def test_kill_9_at_random_during_a_hundred_runs(tmp_path: Path) -> None:
    """Every run ends, no tool runs twice, no acknowledged answer is lost, the audit verifies."""
    seed = random.randrange(2**32)
    print(f"seed {seed}")  # noqa: T201 -- the seed repeats the same order of kills
    dice = random.Random(seed)
    names = ("worker", "channels", "gateway")
    async with plant(tmp_path, *names, lease=2) as here:
        answering = asyncio.create_task(here.answer_everything(lambda _: "approve"))
        runs = [
            await submit(
                here.parts.ledger,
                "finance",
                f"Reimburse me $2500 for trip {n}",
                user=f"user{n}@example.com",
            )
            for n in range(RUNS)
        ]
        waiting = asyncio.create_task(here.ends(run.id for run in runs))
        for _ in range(KILLS):
            # Some work has to happen between two kills, or no kill interrupts any work.
            await asyncio.wait({waiting}, timeout=dice.uniform(0.3, 1.5))
            if waiting.done():
                break
            await here.kill(dice.choice(names))
        ends = await waiting
        answering.cancel()
        executed = here.executions()
        assert max(executed.values()) == 1
        doubted = {run for run, event in ends.items() if event.what is What.IN_DOUBT}
        assert {event.what for event in ends.values()} <= {What.COMPLETED, What.IN_DOUBT}
        for run in await here.parts.ledger.runs([run.id for run in runs]):
            (approval,) = await here.parts.ledger.approvals(run.approvals)
            assert approval.state is State.APPROVED
            if run.id in doubted:
                assert approval.handoff is Handoff.IN_DOUBT
                assert "may or may not have happened" in run.problem
            else:
                assert approval.handoff is Handoff.RESUMED
                assert executed[str(approval.call.args["purpose"])] == 1
        count, _ = await audit.verify(here.parts.ledger.store)
        assert count > RUNS
