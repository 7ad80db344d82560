"""An office for the worker's tests: a real ledger, a real session store, the real Runner."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from google.adk.sessions.session import Session
from pydantic import JsonValue

from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Asked
from signoff.core.approvals.run import Run
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Edits, InDoubt, Resume, Terms
from signoff.worker.adk.apps import Apps
from signoff.worker.executor import Executor

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "agents"
AGENTS = Path(__file__).parent / "agents"

MARA = Person(id="mara", name="Mara Lind", email="mara@example.com")


@dataclass
class HandClock:
    """A clock that only moves when a test advances it."""

    moment: datetime = field(default_factory=lambda: datetime(2026, 3, 2, 9, 0, tzinfo=UTC))

    def now(self) -> datetime:
        """Return the current time."""
        return self.moment


@dataclass
class Office:
    """One worker, its ledger, and an approver."""

    ledger: Ledger
    decider: Decider
    executor: Executor
    apps: Apps
    clock: HandClock
    journal: Path

    async def submit(self, app: str, message: str) -> Run:
        """Submit a run and let the executor take it to its first pause or end."""
        run = await self.decider.submit(app, message, user="riley@example.com")
        await self.executor.drain(stages.run(app))
        return await self.ledger.run(run.id)

    async def ask(
        self,
        run: Run,
        rule: InDoubt = InDoubt.FAIL,
        resume: Resume = Resume.TOGETHER,
        edits: Edits = Edits.ASK,
    ) -> list[Approval]:
        """Route all approvals of the run to Mara."""
        asked = []
        for was in await self.ledger.approvals(run.waiting):
            approval, events = was.ask(
                Terms(policy="test", ask=("mara",), in_doubt=rule, resume=resume, edits=edits),
                (Asked(person="mara", channel="email", address=MARA.email),),
                now=self.clock.now(),
            )
            await self.ledger.commit(Change().put(approval, was=was).note(events))
            asked.append(approval)
        return asked

    async def approve(self, run: Run, rule: InDoubt = InDoubt.FAIL, /, **values: JsonValue) -> None:
        """Let Mara approve all waiting requests."""
        for approval in await self.ask(run, rule):
            await self.decider.approve(approval.id, MARA, channel="cli", values=values or None)

    async def resume(self, run: Run) -> Run:
        """Let the executor work on the resume stage and return the run."""
        await self.executor.drain(stages.resume(run.app))
        return await self.ledger.run(run.id)

    async def session(self, run: Run) -> Session:
        """Return the session of a run."""
        session = await self.apps.sessions.get_session(
            app_name=run.app, user_id=run.user, session_id=run.session
        )
        assert session is not None
        return session

    def pass_time(self, seconds: float = 120) -> None:
        """Let the leases expire."""
        self.clock.moment += timedelta(seconds=seconds)

    def executed(self) -> list[dict[str, object]]:
        """Return the effects of the tools."""
        if not self.journal.exists():
            return []
        return [json.loads(line) for line in self.journal.read_text().splitlines()]
