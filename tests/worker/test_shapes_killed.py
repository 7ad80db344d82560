"""A worker that dies before each step of each agent shape: no work is lost silently."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from deciding import Decider
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Resume
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.composites import is_composite
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.dying_worker import Blip, Life, require_nothing_lost, work
from worker.office import MARA, HandClock, Office
from worker.shapes import EFFECTS, SHAPES, write_folders

pytestmark = [
    # ADK announces its experimental features by warning about them, and what it will take away.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The .plugins. argument is deprecated:DeprecationWarning"),
]

SHORT = (
    *("sequence", "parallel", "loop", "transfer", "singles", "graph"),
    *("same_ids", "transfer_beside", "loop_with_parallel"),
)
"""The shapes whose workers die at every model call in `make test`; `make soak` has all."""

NOT_TAKEN_UP = {
    *("own", "transfer_to_sequence", "transfer_to_parallel", "tracing_in_fan"),
    # ADK cancels an agent whose approved tool has not started yet when another one asks first.
    "singles",
}
TAKEN_UP = {one for one in SHAPES if "_in_graph" not in one} - NOT_TAKEN_UP
"""Shapes that ADK can always continue; with others a run may fail, and says so."""


def manners(shape: str) -> tuple[str, str]:
    """Return the different manners of a shape: a bare root is resumable if it is composite."""
    return ("bare", "plain") if is_composite(SHAPES[shape]()) else ("bare", "resumable")


LEFT_OUT = {
    # How many turns it has depends on which agent is faster, so a step may not be reached.
    ("singles_twice", "bare"),
    ("singles_twice", "resumable"),
    # If the app is not resumable, ADK calls the model while an AgentTool waits.
    ("agent_tool_in_sequence", "plain"),
}

with pytest.warns(Warning):  # noqa: PT030 -- from each of ADK's composite agents
    VARIANTS = [
        (shape, manner)
        for shape in SHAPES
        for manner in manners(shape)
        if (shape, manner) not in LEFT_OUT
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the agents."""
    return write_folders(tmp_path_factory.mktemp("shapes"))


@pytest.fixture
async def office(
    worker_redis: EmbeddedRedis, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Office]:
    """Return an office whose sessions outlive its workers, in this process."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    clock = HandClock()
    ledger = Ledger(Store.open(worker_redis.url, clock=clock))
    await ledger.store.client.flushall()
    guard = GuardPlugin(ledger)
    apps = Apps(folder, InMemorySessionService(), lambda: guard)
    decider = Decider(ledger, Directory([MARA]))
    yield Office(ledger, decider, Executor(ledger, AdkRuntime(apps, guard)), apps, clock, journal)
    await apps.close()
    await ledger.close()


async def walk(office: Office, app: str, turn: int, life: Life) -> Run | None:
    """Take a run to its end; the worker of one turn has the given life, and a living one follows.

    Returns:
        The run, or None if it has no such turn.
    """
    office.journal.unlink(missing_ok=True)
    run = await office.decider.submit(app, "go", user="riley@example.com")
    for number in range(8):
        stage = stages.resume(app) if number else stages.run(app)
        if number == turn:
            await work(office, stage, life)
        await office.executor.drain(stage)
        run = await office.ledger.run(run.id)
        if run.state is not RunState.PAUSED:
            return run if number >= turn else None
        await office.approve(run)
    raise AssertionError(f"{app} does not come to an end")


def model_calls(steps: Sequence[str]) -> list[int]:
    """Return the numbers of the steps that are model calls."""
    return [place for place, step in enumerate(steps, 1) if step == "model"]


def commits(steps: Sequence[str]) -> list[int]:
    """Return the numbers of the commits, counted by themselves."""
    return list(range(1, steps.count("commit") + 1))


def many(steps: Sequence[str]) -> list[int]:
    """Return the model calls, and every third of all steps."""
    return sorted({*model_calls(steps), *range(1, len(steps) + 1, 3)})


def every(steps: Sequence[str]) -> list[int]:
    """Return all steps."""
    return list(range(1, len(steps) + 1))


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "manner"), [one for one in VARIANTS if one[0] in SHORT])
async def test_no_work_is_lost_in_silence(office: Office, shape: str, manner: str) -> None:
    """A completed run has done everything, and each payment was made once at most."""
    await kill(office, shape, manner, model_calls)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("shape", "manner"), VARIANTS)
async def test_no_work_is_lost_in_silence_in_any_shape(
    office: Office, shape: str, manner: str
) -> None:
    """This holds for every shape, and for deaths between model calls."""
    await kill(office, shape, manner, many)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(("shape", "manner"), [one for one in VARIANTS if one[0] in SHORT])
async def test_no_work_is_lost_while_redis_is_away(office: Office, shape: str, manner: str) -> None:
    """An error of the guard ends the turn as a death does; ADK must not tell an agent about it."""
    await kill(office, shape, manner, commits, Blip)


@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(("shape", "manner"), VARIANTS)
async def test_no_work_is_lost_while_redis_is_away_in_any_shape(
    office: Office, shape: str, manner: str
) -> None:
    """This holds for every shape."""
    await kill(office, shape, manner, commits, Blip)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("manner", ["bare", "resumable"])
@pytest.mark.parametrize("shape", ["state", "state_of_question", "transfer_by_tool"])
async def test_what_a_tool_has_told_adk_is_not_lost(
    office: Office, shape: str, manner: str
) -> None:
    """A worker may die between the end of a tool, or its question, and its changes of the state."""
    await kill(office, shape, manner, every)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("manner", ["bare", "resumable"])
@pytest.mark.parametrize(
    "shape", ["tracing", "tracing_in_sequence", "tracing_in_graph", "tracing_in_fan"]
)
async def test_callback_of_an_agent_does_not_hide_its_calls(
    office: Office, shape: str, manner: str
) -> None:
    """A callback may write an event between a call and its result, when the turn is taken up."""
    await kill(office, shape, manner, every)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("manner", ["bare", "resumable"])
@pytest.mark.parametrize(
    "shape", ["two_steps", "two_steps_in_sequence", "two_steps_beside", "agent_tool_in_sequence"]
)
async def test_second_question_of_a_call_is_asked(office: Office, shape: str, manner: str) -> None:
    """No agent goes on before it is answered, wherever a worker dies."""
    await kill(office, shape, manner, every)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "shape", ["left_loop", "early_left_loop", "left_loop_of_sequence", "sequence_of_left_loop"]
)
async def test_loop_that_was_left_does_nothing_more(office: Office, shape: str) -> None:
    """A worker may die, or the turn may pause, between `escalate` and the end of the loop."""
    await kill(office, shape, "bare", every)


async def test_agents_side_by_side_are_stopped_together(office: Office) -> None:
    """ADK raises their errors as one group, which must not end the worker."""
    app = "parallel_of_sequences_bare"
    freezes = Freezes(office.ledger)
    await freezes.freeze(by="ops", why="wait", app="", tool="note")
    run = await office.submit(app, "go")
    assert (run.state, run.held, office.executed()) == (RunState.QUEUED, "note", [])
    await freezes.thaw(by="ops", why="go on", app="", tool="note")
    await office.executor.drain(stages.run(app))
    run = await office.ledger.run(run.id)
    assert run.state is RunState.PAUSED
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    done = {str(value) for line in office.executed() for value in line.values()}
    assert done == EFFECTS["parallel_of_sequences"]


@pytest.mark.parametrize("shape", ["two_calls", "two_calls_of_single", "two_calls_in_graph"])
async def test_no_agent_goes_on_after_one_answer_of_two(office: Office, shape: str) -> None:
    """ADK takes an agent that still waits for done, so the answers are given together."""
    app = f"{shape}_resumable"
    run = await office.submit(app, "go")
    first, second = await office.ask(run, resume=Resume.EACH)
    await office.decider.approve(first.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.waiting == (second.id,)
    assert office.executed() == []
    await office.decider.approve(second.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert sorted(map(str, office.executed())) == [
        *("{'noted': 'b1'}", "{'paid': 'a1'}", "{'paid': 'a2'}")
    ]


async def kill(
    office: Office,
    shape: str,
    manner: str,
    deaths: Callable[[Sequence[str]], list[int]],
    lived: type[Life] = Life,
) -> None:
    """Kill the worker of each turn at these steps, and compare each end with the effects."""
    app = f"{shape}_{manner}"
    ends: Counter[RunState] = Counter()
    for turn in range(8):
        whole = Life()
        run = await walk(office, app, turn, whole)
        if run is None:
            break
        for place in deaths(whole.steps):
            life = lived(place)
            run = await walk(office, app, turn, life)
            assert run is not None
            assert life.ended
            await require_nothing_lost(
                office.ledger, office.executed(), run, shape, f"{app} {turn}.{place}"
            )
            ends[run.state] += 1
    # Only a tool that was running causes a doubt.
    if shape in TAKEN_UP and manner != "plain":
        assert not ends[RunState.FAILED]
        assert ends[RunState.COMPLETED]
    await audit.verify(office.ledger.store)
