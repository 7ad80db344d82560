"""A worker that dies at a given step of its work, with any agent."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import LedgerError, LedgerUnavailable
from worker import shapes
from worker.office import Office


class Died(BaseException):
    """The process has died; nothing catches this."""


class Life:
    """Counts the steps of a worker, and ends it before one of them.

    A step is a commit to the ledger, an event that is put into the session, a call of a model or
    the effect of a tool. A dead worker takes no further step: its agents end one by one.

    Attributes:
        left: The remaining steps; 0 or less means no limit.
        steps: The steps so far, in order.
        ended: Whether the worker is dead.
        errors: What its work raises then.
    """

    errors: tuple[type[BaseException], ...] = (Died, BaseExceptionGroup)

    def __init__(self, left: int = 0) -> None:
        self.left = left
        self.steps: list[str] = []
        self.ended = False

    def step(self, what: str) -> None:
        """Take a step, or die before it."""
        self.left -= 1
        if self.ended or self.left == 0:
            self.ended = True
            raise Died
        self.steps.append(what)


class Blip(Life):
    """Counts the commits of a worker to the ledger; Redis is away at one of them."""

    errors = (LedgerUnavailable,)

    def step(self, what: str) -> None:
        """Take a step; raise if it is the commit at which Redis is away."""
        self.left -= what == "commit"
        if what == "commit" and self.left == 0:
            self.ended = True
            raise LedgerUnavailable("Redis is away.")
        self.steps.append(what)


@contextmanager
def living(office: Office, life: Life) -> Iterator[None]:
    """Use a life for the worker in this process."""
    store = type(office.apps.sessions)
    commit_all, append = Ledger.commit_all, store.append_event
    think, journal = shapes.Actor.generate_content_async, shapes.journal

    async def commit(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        life.step("commit")
        return await commit_all(self, changes)

    async def put(self: BaseSessionService, session: Session, event: Event) -> Event:
        life.step("event")
        return await append(self, session, event)

    async def call(self: shapes.Actor, *args: Any, **more: Any) -> AsyncGenerator[Any, None]:
        life.step("model")
        async for response in think(self, *args, **more):
            yield response

    def write(line: dict[str, object]) -> None:
        life.step("tool")
        journal(line)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Ledger, "commit_all", commit)
        patch.setattr(store, "append_event", put)
        patch.setattr(shapes.Actor, "generate_content_async", call)
        patch.setattr(shapes, "journal", write)
        yield


async def work(office: Office, stage: str, life: Life) -> None:
    """Work on a stage during a life, and leave what a dead process leaves."""
    with living(office, life), contextlib.suppress(*life.errors):
        await asyncio.create_task(office.executor.drain(stage))
    office.pass_time()
    async with office.ledger.store.translated_client() as client:
        for key in await client.keys("*lease:*"):
            await client.delete(key)


async def require_nothing_lost(
    ledger: Ledger, lines: Sequence[dict[str, object]], run: Run, shape: str, where: str
) -> None:
    """Compare an ended run with the effects that its tools recorded."""
    paid = Counter(str(line["paid"]) for line in lines if "paid" in line)
    done = {str(line[key]) for line in lines for key in ("paid", "noted") if key in line}
    assert not paid or max(paid.values()) == 1, where
    assert not done - shapes.EFFECTS[shape], where
    if run.state is RunState.COMPLETED:
        why = (await ledger.history(run.id))[-1].why
        missing = shapes.EFFECTS[shape] - done
        assert not missing or why.startswith("ADK did not go on to"), (where, missing)
        assert not any("misled" in line for line in lines), where
    else:
        assert run.problem, where
    for one in await ledger.approvals(run.approvals):
        executed = str(one.call.args.get("to")) in paid
        assert one.handoff is not Handoff.RESUMED or executed or "to" not in one.call.args, where
