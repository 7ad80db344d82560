"""An office with remote agents."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx

from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Asked
from signoff.core.approvals.run import Run
from signoff.core.policies.policy import InDoubt, Resume, Terms
from signoff.worker.adk_remote.runtime import RemoteRuntime
from signoff.worker.executor import Executor
from worker.office import MARA, HandClock
from worker.remote.api_server import ApiServer

USER = "riley@example.com"


@dataclass
class FarOffice:
    """One worker, its ledger, an approver, and a remote server."""

    ledger: Ledger
    decider: Decider
    executor: Executor
    clock: HandClock
    runtime: RemoteRuntime
    server: ApiServer | None = None

    @property
    def there(self) -> ApiServer:
        """The remote server."""
        assert self.server is not None
        return self.server

    async def submit(self, app: str, message: str, *, session: str = "") -> Run:
        """Submit a run and let the executor take it to its first pause or end."""
        run = await self.decider.submit(app, message, user=USER, session=session)
        return await self.work(run)

    async def work(self, run: Run) -> Run:
        """Let the executor do all waiting work of this run."""
        await self.executor.drain(stages.run(run.app))
        await self.executor.drain(stages.resume(run.app))
        return await self.ledger.run(run.id)

    async def ask(
        self, run: Run, in_doubt: InDoubt = InDoubt.ASK, resume: Resume = Resume.TOGETHER
    ) -> list[Approval]:
        """Route the pause's requests to Mara."""
        asked = []
        for was in await self.ledger.approvals(run.waiting):
            approval, events = was.ask(
                Terms(policy="test", ask=("mara",), in_doubt=in_doubt, resume=resume),
                (Asked(person="mara", channel="email", address=MARA.email),),
                now=self.clock.now(),
            )
            await self.ledger.commit(Change().put(approval, was=was).note(events))
            asked.append(approval)
        return asked

    async def approve(self, run: Run, **values: Any) -> None:
        """Let Mara approve all waiting requests."""
        for approval in await self.ask(run):
            await self.decider.approve(approval.id, MARA, channel="cli", values=values or None)

    async def reject(self, run: Run, reason: str) -> None:
        """Let Mara reject all waiting requests."""
        for approval in await self.ask(run):
            await self.decider.reject(approval.id, MARA, channel="cli", reason=reason)

    async def approval(self, run: Run) -> Approval:
        """Return the only approval of a run's pause."""
        (approval,) = await self.ledger.approvals(run.approvals)
        return approval

    async def session(self, run: Run) -> dict[str, Any]:
        """Return a session from the server."""
        async with httpx.AsyncClient(timeout=60) as client:
            answer = await client.get(self.there.session(run.app, run.user, run.session))
        answer.raise_for_status()
        return dict(answer.json())

    async def said(self, run: Run) -> list[str]:
        """Return the user's messages in the session: texts, and `answer` for each answer."""
        return [
            part.get("text", "answer")
            for event in (await self.session(run))["events"]
            if event["author"] == "user"
            for part in event.get("content", {}).get("parts", [])
        ]

    async def until(self, step: str) -> None:
        """Wait until the patient agent has reached a step."""
        async with asyncio.timeout(300):
            # Another process reaches it, and only its journal shows it.
            while not any(line.get("at") == step for line in self.there.lines()):  # noqa: ASYNC110
                await asyncio.sleep(0.01)

    async def let_leases_run_out(self) -> None:
        """Let the leases expire, as after the death of a worker."""
        self.clock.moment += timedelta(seconds=120)
        async with self.ledger.store.translated_client() as client:
            for key in await client.keys("*lease:*"):
                await client.delete(key)
