"""A worker dies at each possible step: no message and no tool is repeated."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import pytest
from google.adk.events.event import Event
from google.adk.sessions.base_session_service import BaseSessionService
from google.adk.sessions.session import Session
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.work import ReportFailure
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import LedgerError
from signoff.core.policies.policy import InDoubt
from signoff.worker.adk.guard.guard import GuardPlugin
from worker.office import AGENTS, MARA, Office


class Died(BaseException):
    """The process has died; nothing catches this."""


T = TypeVar("T")


class Fuse:
    """Raises at the n-th step, before or after the step."""

    def __init__(self, at: int, *, after: bool) -> None:
        self.left = at
        self.after = after
        self.blown = False

    async def step(self, do: Callable[[], Awaitable[T]]) -> T:
        """Do a step, unless the process dies at it."""
        self.left -= 1
        if self.left != 0:
            return await do()
        self.blown = True
        if self.after:
            await do()
        raise Died


def lay(monkeypatch: pytest.MonkeyPatch, office: Office, fuse: Fuse) -> None:
    """Let the fuse count every commit to the ledger and every event put into the session."""
    commit_all, append = Ledger.commit_all, type(office.apps.sessions).append_event

    async def commit(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        return await fuse.step(lambda: commit_all(self, changes))

    async def put(self: BaseSessionService, session: Session, event: Event) -> Event:
        return await fuse.step(lambda: append(self, session, event))

    monkeypatch.setattr(Ledger, "commit_all", commit)
    monkeypatch.setattr(type(office.apps.sessions), "append_event", put)


async def work_until_death(office: Office, stage: str) -> None:
    """Work on a stage like a worker that may die at a step."""
    with contextlib.suppress(Died):
        await asyncio.create_task(office.executor.drain(stage))
    # A dead process leaves its leases behind, and those expire.
    office.pass_time()
    async with office.ledger.store.translated_client() as client:
        for key in await client.keys("*lease:*"):
            await client.delete(key)


async def user_messages(office: Office, run: Run) -> list[str]:
    """Return the user's messages in the session, as ADK has stored them."""
    session = await office.session(run)
    return [
        part.text
        for event in session.events
        if event.author == "user" and event.content
        for part in event.content.parts or []
        if part.text
    ]


STEPS = range(1, 9)
SIDES = [pytest.param(False, id="before", marks=pytest.mark.soak), pytest.param(True, id="after")]
"""A death before a step equals one after the previous step, so it only runs in the soak."""
CASES: dict[str, tuple[str, dict[str, JsonValue]]] = {
    "finance": ("Reimburse me $2500 for the conference", {}),
    "time_off": ("I need 5 days off", {"approved_days": 3}),
}

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("app", ["finance", pytest.param("time_off", marks=pytest.mark.soak)])
async def test_repeated_run_adds_the_message_once(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool, app: str
) -> None:
    """Wherever the worker dies, the next one reaches the same pause, which can be answered."""
    message, values = CASES[app]
    run = await office.decider.submit(app, message, user="riley@example.com")
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=after))
        await work_until_death(office, stages.run(app))
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    assert run.state is RunState.PAUSED
    assert len(run.approvals) == 1
    assert await user_messages(office, run) == [message]
    await office.approve(run, **values)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    if app == "finance":
        assert len(office.executed()) == 1
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("after", SIDES)
@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("app", CASES)
async def test_repeated_resume_never_runs_the_tool_twice(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, after: bool, app: str
) -> None:
    """Wherever the worker dies in a resume, the tool runs once or is in doubt."""
    message, values = CASES[app]
    run = await office.submit(app, message)
    await office.approve(run, **values)
    fuse = Fuse(step, after=after)
    with monkeypatch.context() as patch:
        lay(patch, office, fuse)
        await work_until_death(office, stages.resume(app))
    run = await office.resume(run)
    (approval,) = await office.ledger.approvals(run.approvals)
    assert len(office.executed()) <= 1
    if run.state is RunState.IN_DOUBT:
        assert fuse.blown
        assert approval.handoff is Handoff.IN_DOUBT
        assert "may or may not have happened" in run.problem
    else:
        assert run.state is RunState.COMPLETED
        assert approval.handoff is Handoff.RESUMED
        assert run.text.startswith(("I have reimbursed", "You may take 3 days"))
        if app == "finance":
            assert len(office.executed()) == 1
    assert await user_messages(office, run) == [message]
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize(
    "step", [pytest.param(one, marks=() if one % 2 else pytest.mark.soak) for one in range(1, 13)]
)
@pytest.mark.parametrize("app", ["siblings", "siblings_resumable", "nested"])
@pytest.mark.parametrize("stage", [stages.run, stages.resume], ids=["run", "resume"])
async def test_siblings_and_sub_agents_survive_a_death_at_any_step(
    office: Office,
    monkeypatch: pytest.MonkeyPatch,
    stage: Callable[[str], str],
    app: str,
    step: int,
) -> None:
    """Nobody is paid twice, missing payments are in doubt, and every run ends."""
    run = await office.decider.submit(app, "pay", user="riley@example.com")
    if stage is stages.resume:
        await office.executor.drain(stages.run(app))
        await office.approve(await office.ledger.run(run.id))
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=True))
        await work_until_death(office, stage(app))
    if stage is stages.run:
        await office.executor.drain(stages.run(app))
        await office.approve(await office.ledger.run(run.id))
    run = await office.resume(await office.ledger.run(run.id))
    paid = [str(line["paid"]) for line in office.executed()]
    assert len(paid) == len(set(paid))
    assert run.state in {RunState.COMPLETED, RunState.IN_DOUBT}
    if run.state is RunState.COMPLETED:
        assert set(paid) == ({"A"} if app == "nested" else {"A", "B"})
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize(
    ("rule", "again"), [(InDoubt.ASK, True), (InDoubt.ASK, False), (InDoubt.RETRY, True)]
)
@pytest.mark.parametrize("step", range(1, 8))
async def test_a_call_in_doubt_is_asked_about_or_retried_by_policy(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, again: bool, rule: InDoubt
) -> None:
    """The question says that it may have happened; only an approval or the policy repeats it."""
    run = await office.submit("finance", CASES["finance"][0])
    (first,) = run.approvals
    await office.approve(run, rule)
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=True))
        await work_until_death(office, stages.resume("finance"))
    before = len(office.executed())
    run = await office.resume(run)
    if run.state is RunState.PAUSED:
        assert rule is InDoubt.ASK
        (question,) = await office.ask(run)
        assert question.id != first
        assert question.supersedes == first
        assert "may or may not have happened" in question.hint
        if again:
            await office.decider.approve(question.id, MARA, channel="cli")
        else:
            await office.decider.reject(question.id, MARA, channel="cli", reason="I saw it")
        run = await office.resume(run)
        assert len(office.executed()) == before + again
        assert ("I saw it" in run.text) is not again
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) <= 2
    assert await user_messages(office, run) == [CASES["finance"][0]]
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
@pytest.mark.parametrize("approves", [True, False], ids=["approved", "rejected"])
async def test_other_answers_of_a_run_in_doubt_are_reported_as_lost(
    office: Office, approves: bool
) -> None:
    """Who answered the other calls reads that their answers had no effect, as in a failed run."""
    run = await office.submit("siblings", "pay both")
    first, second = await office.ask(run)
    await office.decider.approve(first.id, MARA, channel="cli")
    decide = office.decider.approve if approves else office.decider.reject
    await decide(second.id, MARA, channel="cli")
    first = await office.ledger.approval(first.id)
    started, events = first.hand_on(Handoff.STARTED, now=office.clock.now())
    await office.ledger.commit(Change().put(started, was=first).note(events))
    run = await office.resume(run)
    assert run.state is RunState.IN_DOUBT
    assert office.executed() == []
    first, second = await office.ledger.approvals([first.id, second.id])
    assert (first.handoff, first.reported) == (Handoff.IN_DOUBT, True)
    assert (second.handoff, second.reported) == (Handoff.FAILED, True)
    items = (await office.ledger.claim("deliver.email", limit=100)).items
    lost = [one.work for one in items if isinstance(one.work, ReportFailure)]
    assert {one.approval for one in lost} == {first.id, second.id}
    await audit.verify(office.ledger.store)


async def test_a_tool_that_kills_every_worker_is_retried_three_times_and_then_asked_about(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An endless retry would kill one worker after the other."""
    run = await office.submit("finance", CASES["finance"][0])
    await office.approve(run, InDoubt.RETRY)
    for _ in range(4):
        with monkeypatch.context() as patch:
            patch.setattr(GuardPlugin, "finish", die)
            await work_until_death(office, stages.resume("finance"))
    assert len(office.executed()) == 3
    run = await office.ledger.run(run.id)
    assert run.state is RunState.PAUSED


async def die(*_: object, **__: Any) -> None:
    """Die in place of any method."""
    raise Died
