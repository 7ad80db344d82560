"""SIGKILL while a model thinks, in a turn of several agents: no work is lost."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from deciding import Decider
from promises.test_2_killed_at_every_step import Forge, approve, forge, take_up
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from worker.dying_worker import require_nothing_lost
from worker.office import MARA
from worker.shapes import write_folders

MOST_TURNS = 8
APPS = (
    *(
        "sequence_bare",
        "sequence_resumable",
        "parallel_bare",
        "parallel_resumable",
        "loop_bare",
        "loop_resumable",
    ),
    *("transfer_bare", "transfer_resumable", "singles_bare", "graph_bare"),
    *("sequence_of_parallel_bare", "transfer_in_sequence_bare"),
    *("transfer_beside_bare", "transfer_twice_resumable", "same_ids_in_sequence_bare"),
)

pytestmark = [
    # ADK warns about its experimental and its deprecated features.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
]


class Journey:
    """Takes runs of one app to their ends with workers that may be killed."""

    def __init__(self, workers: Forge, ledger: Ledger, folder: Path, app: str) -> None:
        self.workers = workers
        self.ledger = ledger
        self.app = app
        self._decider = Decider(ledger, Directory([MARA]))
        self._journal = folder / "journal.jsonl"

    async def walk(self, turn: int, thought: int) -> tuple[Run | None, bool]:
        """Take a run to its end, and kill its worker in one turn, at one call of a model.

        Returns:
            The run, or None if it has no such turn; and whether the worker was killed.
        """
        self._journal.unlink(missing_ok=True)
        run = await self._decider.submit(self.app, "go", user="riley@example.com")
        dead = False
        for number in range(MOST_TURNS):
            stage = stages.resume(self.app) if number else stages.run(self.app)
            status = self.workers.work(stage, thought=thought if number == turn else 0)
            dead = dead or status == -9
            await take_up(self.workers, self.ledger, stage)
            run = await self.ledger.run(run.id)
            if run.state is not RunState.PAUSED:
                return (run if number >= turn else None), dead
            await approve(self.ledger, self._decider, run)
        raise AssertionError(f"{self.app} does not come to an end")

    def executed(self) -> list[dict[str, object]]:
        """Return the executions of the tools in the last walk."""
        lines = self._journal.read_text().splitlines() if self._journal.exists() else []
        return [json.loads(line) for line in lines]


@pytest.mark.soak
@pytest.mark.promise
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("app", APPS)
async def test_no_agent_of_several_is_forgotten(tmp_path: Path, app: str) -> None:
    """A run that is killed at a call of a model, before or after an approval, does all its work."""
    agents = write_folders(tmp_path / "agents")
    ends: Counter[RunState] = Counter()
    async with forge(tmp_path, agents, [app]) as (workers, ledger):
        journey = Journey(workers, ledger, tmp_path, app)
        deaths: Counter[int] = Counter()
        for turn in range(MOST_TURNS):
            for thought in range(1, 20):
                run, dead = await journey.walk(turn, thought)
                if run is None or not dead:
                    break
                deaths[turn] += 1
                shape = app.rpartition("_")[0]
                where = f"{app} {turn}.{thought}"
                await require_nothing_lost(ledger, journey.executed(), run, shape, where)
                ends[run.state] += 1
            if run is None:
                break
        # The first turn ends with a question, the second begins with its answer.
        assert deaths[0]
        assert deaths[1]
        # When agents run in parallel, as single-turn agents do, a worker may die while another
        # agent's tool runs.
        beside = "parallel" in app or "singles" in app
        doubtful = {RunState.IN_DOUBT} if beside else set()
        assert RunState.COMPLETED in ends
        assert set(ends) <= {RunState.COMPLETED} | doubtful
        await audit.verify(ledger.store)
