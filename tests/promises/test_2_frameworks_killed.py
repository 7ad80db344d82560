"""SIGKILL between every two steps of a run and of its resume, for agents of other frameworks."""

from __future__ import annotations

import json
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

from deciding import Decider
from promises.test_2_killed_at_every_step import approve, forge, take_up
from services import missing
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory
from worker.frameworks.script import paying, plan
from worker.frameworks.test_contract import AGENTS, OTHERS
from worker.office import MARA

STARTING = range(1, 6)
"""The lease and the message, the lease and the state, the end of the turn."""
RESUMING = range(1, 10)
"""Two starts, two effects, two results, the lease and the state, the end of the turn."""


@pytest.mark.promise
@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("app", list(OTHERS))
async def test_sigkill_at_every_step(tmp_path: Path, app: str) -> None:
    """Each tool runs once, or is in doubt and has run at most once; the audit verifies."""
    if find_spec(OTHERS[app]) is None:
        missing(OTHERS[app], "make .venv/.dev")
    run_stage, resume_stage = stages.run(app), stages.resume(app)
    async with forge(tmp_path, AGENTS, [app]) as (workers, ledger):
        decider = Decider(ledger, Directory([MARA]))
        runs, killed = [], 0
        for step in RESUMING:
            message = plan(paying(f"a{step}", f"b{step}"))
            runs.append((await decider.submit(app, message, user="r")).id)
            if step in STARTING:
                killed += workers.work(run_stage, step=step) == -9
        await take_up(workers, ledger, run_stage)
        for step, run in zip(RESUMING, await ledger.runs(runs), strict=True):
            assert run.state is RunState.PAUSED, run.problem
            await approve(ledger, decider, run)
            killed += workers.work(resume_stage, step=step) == -9
        await take_up(workers, ledger, resume_stage)
        assert killed > len(STARTING)
        lines = (tmp_path / "journal.jsonl").read_text().splitlines()
        paid = Counter(str(json.loads(line)["paid"]) for line in lines)
        assert max(paid.values()) == 1
        for step, run in zip(RESUMING, await ledger.runs(runs), strict=True):
            assert run.state in {RunState.COMPLETED, RunState.IN_DOUBT}
            if run.state is RunState.COMPLETED:
                assert (paid[f"a{step}"], paid[f"b{step}"]) == (1, 1)
            for one in await ledger.approvals(run.approvals):
                assert one.handoff is not Handoff.RESUMED or paid[str(one.call.args["to"])] == 1
        await audit.verify(ledger.store)
