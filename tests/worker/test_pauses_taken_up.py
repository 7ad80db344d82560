"""A worker dies at each step while people answer: nothing is asked or run twice."""

from __future__ import annotations

from collections import Counter
from itertools import count

import pytest
from _pytest.mark import ParameterSet
from pydantic import JsonValue

from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.long_running import LongRunning
from signoff.core.approvals.parts import Kind
from signoff.core.approvals.run import Run, RunState
from signoff.core.policies.policy import InDoubt
from worker.office import AGENTS, MARA, Office
from worker.test_taken_up import Fuse, lay, user_messages, work_until_death

MESSAGES = {"ticket": "ask:50 pay:A", "ticket_resumable": "ask:50 pay:A"}
ANSWERS: dict[JsonValue, dict[str, JsonValue]] = {
    "Where to?": {"street": "x", "country": "NO"},
    "How many?": {"value": 3},
    "Which code?": {"value": "0042"},
    "Which account?": {"value": 4711},
}
TURNS = {
    ("forms", 0): 3,
    ("forms", 1): 3,
    ("forms", 3): 3,
    ("forms_resumable", 0): 5,
    ("forms_resumable", 1): 6,
    ("forms_resumable", 3): 7,
    ("beside", 0): 6,
    ("beside", 1): 7,
    ("beside_resumable", 0): 7,
    ("beside_resumable", 1): 7,
    ("asks_model", 0): 3,
    ("asks_model", 1): 3,
    ("ticket", 0): 5,
    ("ticket", 1): 7,
    ("ticket_resumable", 0): 5,
    ("ticket_resumable", 1): 7,
}
"""The turns to die in, by app, with the number of commits and session writes (at most seven)."""

NODE_TURNS = {
    ("nodes", 1): 6,
    ("nodes", 2): 5,
    ("nodes_resumable", 1): 7,
    ("nodes_resumable", 2): 7,
}


def deaths(turns: dict[tuple[str, int], int]) -> list[ParameterSet]:
    """Return every place to die at: app, turn, step, and whether after it or before it.

    A death before a step equals a death after the previous step, and later turns are like the
    first two: both run in the soak only. So does every second step; a resumable agent and its
    plain form skip different steps.
    """

    def marks(app: str, turn: int, step: int, after: bool) -> tuple[pytest.MarkDecorator, ...]:
        other = (step + ("resumable" in app)) % 2 == 0
        return () if after and turn < 2 and not other else (pytest.mark.soak,)

    return [
        pytest.param(app, turn, step, after, marks=marks(app, turn, step, after))
        for (app, turn), steps in turns.items()
        for step in range(1, steps + 1)
        for after in (False, True)
    ]


EFFECTS = {
    "forms": ["place", "fragile", "count", "code"],
    "beside": ["paid", "done"],
    "asks_model": [],
    "ticket": ["ticket", "paid"],
}
RULES = (LongRunning(tool="ask_for_approval"), LongRunning(tool="wait_for_it"))

pytestmark = [
    # ADK announces its experimental features by warning about them.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True),
    pytest.mark.parametrize("long_running", [RULES], ids=["opted-in"]),
]


async def decide(office: Office, run: Run) -> None:
    """Let Mara approve all waiting requests, with the required values."""
    for approval in await office.ask(run, InDoubt.FAIL):
        values = ANSWERS.get(approval.call.args.get("message"))
        await office.decider.approve(approval.id, MARA, channel="cli", values=values)


async def all_asked(office: Office, run: Run) -> list[Approval]:
    """Return all approvals of a run, in the order of opening."""
    opened = [
        one.approval for one in await office.ledger.history(run.id) if one.what.value == "opened"
    ]
    return await office.ledger.approvals(opened)


@pytest.mark.parametrize(("app", "turn", "step", "after"), deaths(TURNS))
async def test_death_at_any_step_leads_to_the_same_end(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str, turn: int, *, step: int, after: bool
) -> None:
    """Each question is asked and answered once, and the run ends in the same way."""
    run = await office.decider.submit(app, MESSAGES.get(app, "go"), user="riley@example.com")
    # Of two related questions, the second may be asked a turn later after a death.
    for number in range(8):
        stage = stages.resume(app) if number else stages.run(app)
        if number == turn:
            fuse = Fuse(step, after=after)
            with monkeypatch.context() as patch:
                lay(patch, office, fuse)
                await work_until_death(office, stage)
            assert fuse.blown
        await office.executor.drain(stage)
        run = await office.ledger.run(run.id)
        if run.state is not RunState.PAUSED:
            break
        await decide(office, run)
    plain = app.removesuffix("_resumable")
    done = Counter(next(iter(line)) for line in office.executed())
    asked = await all_asked(office, run)
    if run.state is RunState.IN_DOUBT:
        # The guarded tool started and was not seen to finish, so a person has to check.
        assert done["paid"] <= 1
        return
    assert run.state is RunState.COMPLETED
    given = Counter(
        response.id
        for event in (await office.session(run)).events
        if event.author == "user"
        for response in event.get_function_responses()
    )
    for approval in asked:
        assert given[approval.origin.confirmation] >= 1
        if approval.kind is not Kind.CONFIRMATION:
            assert given[approval.origin.confirmation] == 1
    assert done["paid"] <= 1
    missing = [name for name in EFFECTS[plain] if not done[name]]
    assert not missing or "may or may not have happened" in run.text
    assert await user_messages(office, run) == [MESSAGES.get(app, "go")]
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("app", ["ticket", "ticket_resumable"])
@pytest.mark.parametrize("message", ["ask:50", "wait:50", "ask:50 wait:50"])
async def test_long_running_tool_is_asked_about_only_if_it_has_run(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str, message: str
) -> None:
    """A call whose worker died before the tool is lost, as any call; a result is not."""
    ends: Counter[RunState] = Counter()
    for step in count(1):
        office.journal.unlink(missing_ok=True)
        run = await office.decider.submit(app, message, user="riley@example.com")
        fuse = Fuse(step, after=True)
        with monkeypatch.context() as patch:
            lay(patch, office, fuse)
            await work_until_death(office, stages.run(app))
        if not fuse.blown:
            break
        await office.executor.drain(stages.run(app))
        run = await office.ledger.run(run.id)
        ends[run.state] += 1
        asked = await office.ledger.approvals(run.waiting)
        assert len(office.executed()) >= len(asked)
        for one in asked:
            assert one.call.name == "wait_for_it" or "t-17" in one.hint
        if asked:
            await decide(office, run)
            run = await office.resume(run)
        assert run.state is RunState.COMPLETED, run.problem
        assert run.text.count('"status": "approved"') == len(asked)
        lost = len(message.split()) - len(asked)
        assert run.text.count("may or may not have happened") == lost
    assert set(ends) == {RunState.COMPLETED, RunState.PAUSED}


@pytest.mark.parametrize(("app", "turn", "step", "after"), deaths(NODE_TURNS))
async def test_approved_node_runs_at_most_once(
    office: Office, monkeypatch: pytest.MonkeyPatch, app: str, turn: int, *, step: int, after: bool
) -> None:
    """No ADK plugin runs before a node, so one that may have begun is in doubt."""
    run = await office.submit(app, "go")
    for number in (1, 2):
        if run.state is not RunState.PAUSED:
            break
        await decide(office, run)
        if number == turn:
            fuse = Fuse(step, after=after)
            with monkeypatch.context() as patch:
                lay(patch, office, fuse)
                await work_until_death(office, stages.resume(app))
            assert fuse.blown
        run = await office.resume(run)
    done = Counter(next(iter(line)) for line in office.executed())
    assert max(done.values(), default=0) <= 1
    if run.state is RunState.COMPLETED:
        assert done == {"transferred": 1, "told": 1}
    else:
        assert run.state is RunState.IN_DOUBT
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("again", [True, False], ids=["again", "not-again"])
@pytest.mark.parametrize("step", range(3, 7))
async def test_node_in_doubt_runs_again_only_after_an_approval(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int, again: bool
) -> None:
    """The first approval is in the session; the second answer replaces it there."""
    run = await office.submit("nodes", "go")
    await office.approve(run, InDoubt.ASK)
    with monkeypatch.context() as patch:
        lay(patch, office, Fuse(step, after=True))
        await work_until_death(office, stages.resume("nodes"))
    before = len(office.executed())
    run = await office.resume(run)
    (question,) = await office.ledger.approvals(run.approvals)
    if question.origin.again == 0:
        assert question.call.name == "tell"
        return
    (question,) = await office.ask(run)
    if again:
        await office.decider.approve(question.id, MARA, channel="cli")
    else:
        await office.decider.reject(question.id, MARA, channel="cli", reason="I saw it")
    run = await office.resume(run)
    done = len(office.executed())
    assert done in ({before, before + 1} if again else {before})
    assert run.state is RunState.PAUSED
