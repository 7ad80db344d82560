"""``python -m benchmarks.code``: the cost of a pause inside code, compared with a plain call.

One worker process does one run after the other, on its own Redis and session store. Each variant
is the same refund by the same agent:

- call: the model calls the tool, which needs no approval;
- sandbox: the model calls code of CX Agent Studio, which calls the tool;
- gate: the model calls the tool, which asks for a confirmation; somebody approves;
- code: the code stops at the call, somebody approves, and the code continues.

Rounds are interleaved and each is compared with its neighbours. The bytes are the size of a waiting
run in Redis, and of its session as JSON; a run that does not wait has neither.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from rich.console import Console

from benchmarks.office import DIRECTORY, MARA, USER
from benchmarks.process import quieten
from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.submit import submit
from signoff.core.approvals.moves import Actor, Approve
from signoff.core.approvals.parts import Asked
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import Fallback
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor

AGENTS = Path(__file__).parent / "agents"
APP = "priced"
SIDES = ("call", "sandbox", "gate", "code")
_WAIT = ("gate", "code")
_RUNS = ("approval:*", "run:*", "snapshot:*", "journal:*")


@dataclass(frozen=True, slots=True)
class Weight:
    """The size of a waiting run: bytes in Redis and in its session."""

    ledger: int
    snapshot: int
    session: int


class Shop:
    """One worker and an approver.

    Args:
        ledger: The ledger.
        folder: The folder for the sessions.
    """

    def __init__(self, ledger: Ledger, folder: Path) -> None:
        guard = GuardPlugin(ledger)
        self.ledger = ledger
        self.decisions = Decisions(ledger, DIRECTORY)
        self.apps = Apps(AGENTS, session_service(f"sqlite:///{folder}/s.db", AGENTS), lambda: guard)
        self.executor = Executor(ledger, AdkRuntime(self.apps, guard))

    async def round(self, side: str, count: int) -> float:
        """Do this number of runs, one after the other, and return the milliseconds of each."""
        started = time.perf_counter()
        for _ in range(count):
            run = await self.begin(side)
            if side in _WAIT:
                run = await self.go_on(run)
            if run.state is not RunState.COMPLETED:
                raise RuntimeError(f"A run of {side!r} is {run.state}: {run.problem}")
        return (time.perf_counter() - started) * 1000 / count

    async def begin(self, side: str) -> Run:
        """Submit a run, and work on it until its pause or its end."""
        run = await submit(self.decisions.ledger, APP, side, user=USER)
        await self.executor.drain(stages.run(APP))
        return await self.ledger.run(run.id)

    async def go_on(self, run: Run) -> Run:
        """Approve the request of a run, and work on the run until its end."""
        for was in await self.ledger.approvals(run.waiting):
            card = Asked(person=MARA.id, channel="email", address=MARA.email)
            terms = Fallback(ask=(MARA.id,)).terms({})
            asked, events = was.ask(terms, (card,), now=await self.ledger.now())
            await self.ledger.commit(Change().put(asked, was=was).note(events))
            await self.decisions.take(asked.id, Approve(), Actor(MARA, "email"))
        await self.executor.drain(stages.resume(APP))
        return await self.ledger.run(run.id)

    async def weigh(self, side: str) -> Weight:
        """Return the size of a waiting run of a side, and let the run continue."""
        before = await self._bytes()
        run = await self.begin(side)
        after = await self._bytes()
        session = await self.apps.sessions.get_session(
            app_name=APP, user_id=USER, session_id=run.session
        )
        events = session.events if session is not None else []
        await self.go_on(run)
        return Weight(
            ledger=sum(after.values()) - sum(before.values()),
            snapshot=after["snapshot:*"] - before["snapshot:*"],
            session=sum(len(one.model_dump_json(exclude_none=True).encode()) for one in events),
        )

    async def _bytes(self) -> dict[str, int]:
        client, prefix = self.ledger.store.client, self.ledger.store.prefix
        return {
            kind: sum([await client.strlen(key) async for key in client.scan_iter(prefix + kind)])
            for kind in _RUNS
        }


async def measure(rounds: int, count: int, *, fsync: str, folder: Path, console: Console) -> None:
    """Measure everything and print it."""
    with EmbeddedRedis(folder / "redis", fsync=fsync) as server:
        ledger = Ledger(Store.open(server.url))
        shop = Shop(ledger, folder)
        took: dict[str, list[float]] = {side: [] for side in SIDES}
        try:
            for side in SIDES:
                await shop.round(side, 2)
            for place in range(rounds):
                for side in SIDES:
                    took[side].append(await shop.round(side, count))
                line = " ".join(f"{side} {found[-1]:,.1f} ms" for side, found in took.items())
                console.print(f"Round {place + 1} of {rounds}: {line}", highlight=False)
            weights = {side: await shop.weigh(side) for side in _WAIT}
        finally:
            await shop.apps.close()
            await ledger.close()
    console.print("Ratios, the median of the rounds:")
    for name, other in (("sandbox", "call"), ("gate", "call"), ("code", "gate"), ("code", "call")):
        pairs = zip(took[name], took[other], strict=True)
        console.print(f"  {name} / {other}, ms: {median(one / two for one, two in pairs):.2f}")
    pauses = zip(took["code"], took["sandbox"], strict=True)
    console.print(f"  a pause of code: {median(one - two for one, two in pauses):.1f} ms")
    for side, one in weights.items():
        console.print(
            f"  {side} that waits: {one.ledger:,} B in Redis, of these {one.snapshot:,} B of "
            f"snapshot; {one.session:,} B in the session",
            soft_wrap=True,
        )
    plain, code = weights["gate"], weights["code"]
    console.print(f"  code / gate, bytes in Redis: {code.ledger / plain.ledger:.2f}")


def main() -> None:
    """Read the arguments and measure in a temporary folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.code", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small run, to see that it runs")
    parser.add_argument("--fsync", choices=("always", "everysec"), default="always")
    given = parser.parse_args()
    quieten()
    rounds, count = (1, 2) if given.quick else (7, 50)
    with tempfile.TemporaryDirectory(prefix="signoff-bench-") as folder:
        asyncio.run(
            measure(rounds, count, fsync=given.fsync, folder=Path(folder), console=Console())
        )


if __name__ == "__main__":
    main()
