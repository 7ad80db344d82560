"""SIGKILL between every two steps of a run and of its resumes, for agents of other frameworks."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from deciding import Desk
from promises.test_2_killed_at_every_step import approve, forge, take_up
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory
from worker.frameworks.script import paying, plan
from worker.frameworks.test_contract import AGENTS, OTHERS
from worker.office import MARA

STEPS = range(1, 9)
"""A resume with two calls: two starts, two effects, two results, a look at the lease, its state.

A worker dies before each of them; after one is before the next.
"""


@pytest.mark.promise
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("app", list(OTHERS))
async def test_sigkill_at_every_step(tmp_path: Path, app: str) -> None:
    """Each run ends with each tool run once, or in doubt with once at most; the audit verifies."""
    if find_spec(OTHERS[app]) is None:
        pytest.skip(f"{OTHERS[app]} is not installed")
    run_stage, resume_stage = stages.run(app), stages.resume(app)
    async with forge(tmp_path, AGENTS, [app]) as (workers, ledger):
        desk = Desk(ledger, Directory([MARA]))
        runs, killed = [], 0
        for step in STEPS:
            who = f"step{step}"
            message = plan(paying(f"{who}-a", f"{who}-b"), paying(f"{who}-c"))
            runs.append((await desk.submit(app, message, user="r")).id)
            killed += workers.work(run_stage, step=step) == -9
        await take_up(workers, ledger, run_stage)
        for _ in range(2):
            for run_id, step in zip(runs, STEPS, strict=True):
                run = await ledger.run(run_id)
                if run.state is RunState.PAUSED:
                    await approve(ledger, desk, run)
                    killed += workers.work(resume_stage, step=step) == -9
            await take_up(workers, ledger, resume_stage)
        ends = Counter(run.state for run in await ledger.runs(runs))
        assert set(ends) <= {RunState.COMPLETED, RunState.IN_DOUBT}
        assert killed > len(STEPS)
        lines = (tmp_path / "journal.jsonl").read_text().splitlines()
        paid = Counter(str(json.loads(line)["paid"]) for line in lines)
        assert max(paid.values()) == 1
        for run in await ledger.runs(runs):
            if run.state is RunState.COMPLETED:
                who = json.loads(run.message)[0][0][1]["to"].removesuffix("-a")
                assert [paid[f"{who}-{one}"] for one in "abc"] == [1, 1, 1]
            for one in await ledger.approvals(run.approvals):
                assert one.handoff is not Handoff.RESUMED or paid[str(one.call.args["to"])] == 1
        await audit.verify(ledger.store)
