"""SIGKILL while code of CX Agent Studio goes from stop to stop: no call in it is made twice."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from promises.test_2_killed_at_every_step import Forge, approve, forge, take_up
from signoff.broker import audit, stages
from signoff.broker.desk import Desk
from signoff.broker.ledger import Ledger
from signoff.core.people import Directory
from signoff.core.run import Run, RunState
from worker.office import MARA

RUN, RESUME = stages.run("refunds"), stages.resume("refunds")


def refunded(folder: Path) -> list[str]:
    """Return the orders that were really refunded."""
    journal = (folder / "journal.jsonl").read_text().splitlines()
    return [json.loads(line)["order"] for line in journal]


async def goes_on(workers: Forge, ledger: Ledger, run: Run, *, step: int) -> Run:
    """Approve, let a worker die at a step and another one take it up, and return the run."""
    await approve(ledger, Desk(ledger, Directory([MARA])), run)
    assert workers.work(RESUME, step=step, after=True) == -9
    await take_up(workers, ledger, RESUME)
    return await ledger.run(run.id)


@pytest.mark.promise
async def test_a_refund_loop_survives_a_kill_between_each(tmp_path: Path) -> None:
    """Three refunds, two of them approved, a worker killed at each stop: each is made once."""
    async with forge(tmp_path) as (workers, ledger):
        desk = Desk(ledger, Directory([MARA]))
        run = await desk.submit("refunds", "refund 50, 200 and 300", user="r")
        # Killed when the pause is in the session, and nobody has been asked yet.
        assert workers.work(RUN, step=5, after=False) == -9
        await take_up(workers, ledger, RUN)
        run = await ledger.run(run.id)
        assert refunded(tmp_path) == ["o1"]
        # Killed when it is said that yes was said, before the code goes on; then at the very end.
        run = await goes_on(workers, ledger, run, step=1)
        assert run.state is RunState.PAUSED
        assert refunded(tmp_path) == ["o1", "o2"]
        run = await goes_on(workers, ledger, run, step=1)
        assert run.state is RunState.COMPLETED
        assert refunded(tmp_path) == ["o1", "o2", "o3"]
        await audit.verify(ledger.store)
