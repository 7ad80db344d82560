"""SIGKILL while code of CX Agent Studio goes from stop to stop: no call runs twice."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from deciding import Decider
from promises.test_2_killed_at_every_step import ROUNDS, Forge, forge, take_up
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.parts import Asked
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import InDoubt, Terms
from worker.office import MARA

RUN, RESUME = stages.run("refunds"), stages.resume("refunds")
TERMS = Terms(policy="test", ask=("mara",), in_doubt=InDoubt.ASK)
FIRST, OTHERS = range(2, 10), range(1, 12)
"""The steps of a turn up to its first stop, and of a turn from one stop to the next."""


def refunded(folder: Path) -> Counter[str]:
    """Return how often each order was refunded."""
    journal = folder / "journal.jsonl"
    lines = journal.read_text().splitlines() if journal.exists() else []
    return Counter(json.loads(line)["order"] for line in lines)


class Manager:
    """Answers for Mara, who checks if money was sent before she answers about a call in doubt."""

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        self.ledger = ledger
        self.folder = folder
        self.decider = Decider(ledger, Directory([MARA]))

    async def answer(self, run: Run) -> bool:
        """Answer the approvals that a run waits for; return whether any of them was in doubt."""
        doubted = False
        for was in await self.ledger.approvals(run.waiting):
            card = Asked(person="mara", channel="email", address=MARA.email)
            asked, events = was.ask(TERMS, (card,), now=await self.ledger.now())
            await self.ledger.commit(Change().put(asked, was=was).note(events))
            doubted = doubted or asked.origin.again > 0
            sent = refunded(self.folder)[str(asked.call.args["order"])]
            decide = self.decider.reject if sent else self.decider.approve
            await decide(asked.id, MARA, channel="cli")
        return doubted

    async def answer_all(self, runs: Sequence[str]) -> bool:
        """Answer all waiting approvals; return whether there were any."""
        waits = [run for run in await self.ledger.runs(runs) if run.state is RunState.PAUSED]
        for run in waits:
            await self.answer(run)
        return bool(waits)


def kills(stop: int, number: int) -> list[tuple[int, bool]]:
    """Return the steps to kill at and whether before or after; every second round swaps the two."""
    steps = OTHERS if stop else FIRST
    return [(step, bool((step + number) % 2)) for step in steps]


async def killed(workers: Forge, manager: Manager, stop: int, *, number: int) -> tuple[int, int]:
    """Kill a worker at each step of the way from one stop to the next.

    Returns:
        How many workers were killed, and how many runs asked about a call in doubt.
    """
    ledger, dead, doubts = manager.ledger, 0, 0
    runs: list[str] = []
    for step, after in kills(stop, number):
        name = f"r{number}-{stop}-{step}-{int(after)}"
        said = f"refund {name}-a: 50, {name}-b: 200 and {name}-c: 300"
        run = await manager.decider.submit("refunds", said, user="r")
        if stop == 0:
            dead += workers.work(RUN, step=step, after=after) == -9
        else:
            assert workers.work(RUN) == 0
            for _ in range(stop - 1):
                await manager.answer(await ledger.run(run.id))
                assert workers.work(RESUME) == 0
            await manager.answer(await ledger.run(run.id))
            dead += workers.work(RESUME, step=step, after=after) == -9
        runs.append(run.id)
    await take_up(workers, ledger, RUN)
    await take_up(workers, ledger, RESUME)
    for run in await ledger.runs(runs):
        again = [one for one in await ledger.approvals(run.waiting) if one.origin.again]
        doubts += bool(again)
    while await manager.answer_all(runs):
        await take_up(workers, ledger, RESUME)
    for run in await ledger.runs(runs):
        assert run.state is RunState.COMPLETED, run.problem
    return dead, doubts


@pytest.mark.promise
@pytest.mark.timeout(3600)
@pytest.mark.soak
@pytest.mark.parametrize("stop", [0, 1, 2], ids=["before the first", "first", "second"])
async def test_a_refund_loop_survives_a_kill_at_every_step(tmp_path: Path, stop: int) -> None:
    """Two of three refunds are approved; each runs once, whichever step the worker is killed at."""
    async with forge(tmp_path) as (workers, ledger):
        manager = Manager(ledger, tmp_path)
        for number in range(ROUNDS):
            dead, doubts = await killed(workers, manager, stop, number=number)
            # Without kills in the middle of calls, the test would prove nothing.
            assert dead > len(kills(stop, number)) / 4
            assert doubts
        counted = refunded(tmp_path)
        assert set(counted.values()) == {1}
        assert len(counted) == 3 * sum(len(kills(stop, number)) for number in range(ROUNDS))
        await audit.verify(ledger.store)
