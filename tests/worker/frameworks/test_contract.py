"""The contract of every runtime, for agents of any framework."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import threading
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import redis
from pydantic import JsonValue

from deciding import Decider
from redis_users import guarded, url_of
from services import missing
from signoff.broker import stages
from signoff.broker.freezes import Freezes
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.acl import OPERATOR, WORKER
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.broker.sessions import Name, SessionRecords
from signoff.broker.work import ResumeRun
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.input.rules import InputRule
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import LeaseLost, RunError
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Edits, InDoubt
from signoff.worker import verification
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.guard.call_ids import CallIds
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.agent_folders import app_names
from signoff.worker.dispatch import MixedRuntime
from signoff.worker.executor import Executor
from signoff.worker.frameworks.guard import CallGuard
from signoff.worker.frameworks.idempotency import idempotency_key, running
from signoff.worker.frameworks.runtime import framework_runtime
from signoff.worker.frameworks.sessions import KEY
from signoff.worker.port import TurnResult
from signoff.worker.verification import CallInDoubt
from worker.frameworks import script
from worker.frameworks.script import paying, plan
from worker.office import MARA, HandClock, Office

AGENTS = Path(__file__).parent / "agents"
OTHERS = {
    "pydantic_office": "pydantic_ai",
    "openai_office": "agents",
    "langchain_office": "langchain",
}
"""The apps of other frameworks than ADK, with the frameworks' packages."""
EDITING = ["pydantic_office", "langchain_office"]
"""The apps whose frameworks can run a call with other arguments than the model's."""


@pytest.fixture(params=[pytest.param("adk_office", marks=pytest.mark.soak), *OTHERS])
def app(request: pytest.FixtureRequest) -> str:
    """An agent of each framework."""
    return installed(str(request.param))


@pytest.fixture(params=list(OTHERS))
def other(request: pytest.FixtureRequest) -> str:
    """An agent of each framework but ADK."""
    return installed(str(request.param))


def installed(app: str) -> str:
    """Skip a test whose framework is not installed."""
    if app in OTHERS and find_spec(OTHERS[app]) is None:
        missing(OTHERS[app], "make .venv/.dev")
    return app


@dataclass
class Machine(Office):
    """An office with agents of all frameworks."""

    redis: str = ""

    async def done(self, app: str, message: str) -> Run:
        """Submit a run, and let Mara approve its requests."""
        run = await self.submit(app, message)
        while run.state is RunState.PAUSED:
            await self.approve(run)
            run = await self.resume(run)
        return run

    def paid(self) -> Counter[str]:
        """Return how often each person was paid."""
        return Counter(str(one["paid"]) for one in self.executed() if "paid" in one)


@asynccontextmanager
async def machine(
    redis: str, journal: Path, agents: Path = AGENTS, inputs: Sequence[InputRule] = ()
) -> AsyncIterator[Machine]:
    """Run a worker with connections and agents of its own."""
    clock = HandClock()
    ledger = Ledger(Store.open(redis, clock=clock))
    guard = GuardPlugin(ledger)
    apps = Apps(agents, session_service("", agents, ledger.store), lambda: guard)
    names = [one for one in app_names(agents) if one != "adk_office"]
    runtime = MixedRuntime(
        AdkRuntime(apps, guard),
        dict.fromkeys(names, framework_runtime(agents, ledger, inputs=inputs)),
    )
    decider = Decider(ledger, Directory([MARA]))
    try:
        yield Machine(ledger, decider, Executor(ledger, runtime), apps, clock, journal, redis)
    finally:
        await apps.close()
        await ledger.close()


@pytest.fixture
async def here(
    worker_redis: EmbeddedRedis,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    inputs: Sequence[InputRule],
) -> AsyncIterator[Machine]:
    """A worker on an empty ledger."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    async with machine(worker_redis.url, journal, inputs=inputs) as made:
        await made.ledger.store.client.flushall()
        yield made


async def approvals_of(here: Machine, run: Run) -> list[Approval]:
    """Return the approvals of the current pause."""
    return await here.ledger.approvals(run.approvals)


async def resume_again(here: Machine, run: Run, times: int) -> None:
    """Give a run's answers to its runtime repeatedly and concurrently."""
    answered = [one for one in await approvals_of(here, run) if one.state is not State.PENDING]

    async def attempt() -> None:
        with contextlib.suppress(RunError, LeaseLost):
            await here.executor.runtime.resume(run, answered, lambda change: change)

    await asyncio.gather(*(attempt() for _ in range(times)))


async def test_a_run_without_approvals_ends(here: Machine, app: str) -> None:
    """A tool without approval runs, and the run ends with the agent's last message."""
    run = await here.submit(app, plan([("note", {"text": "milk"})]))
    assert run.state is RunState.COMPLETED, run.problem
    assert "noted milk" in run.text
    assert here.executed() == [{"noted": "milk"}]


async def test_an_approved_call_runs_once(here: Machine, app: str) -> None:
    """The run pauses before the tool, and continues after it."""
    run = await here.submit(app, plan(paying("anna")))
    assert run.state is RunState.PAUSED, run.problem
    assert not here.executed()
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert (waiting.call.name, waiting.call.args) == ("pay", {"to": "anna", "amount": 20})
    assert waiting.origin.agent == "office"
    assert waiting.declared.startswith("sha256:")
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert '"paid": "anna"' in run.text
    assert here.paid() == {"anna": 1}
    (approval,) = await approvals_of(here, run)
    assert approval.handoff is Handoff.RESUMED
    assert '"paid": "anna"' in approval.result.replace("\\", "")


async def test_model_reads_the_rejection_reason(here: Machine, app: str) -> None:
    """The model reads the reason of a rejection, and the tool does not run."""
    run = await here.submit(app, plan(paying("anna")))
    (waiting,) = await here.ask(run)
    await here.decider.reject(waiting.id, MARA, channel="cli", reason="over budget")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert "over budget" in run.text
    assert not here.executed()


@pytest.mark.soak
async def test_run_may_pause_several_times(here: Machine, app: str) -> None:
    """A run can pause as often as its agent asks."""
    run = await here.done(app, plan(paying("anna"), [("note", {"text": "x"})], paying("ben")))
    assert run.state is RunState.COMPLETED, run.problem
    assert run.pause == 2
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_a_session_has_several_runs(here: Machine, app: str) -> None:
    """The runs of a session ask with ids of their own, even if the model repeats ids."""
    for number in range(2):
        run = await here.decider.submit(
            app, plan(paying(f"p{number}")), user="riley@example.com", session="one"
        )
        await here.executor.drain(stages.run(app))
        run = await here.ledger.run(run.id)
        assert run.state is RunState.PAUSED, run.problem
        await here.approve(run)
        run = await here.resume(run)
        assert run.state is RunState.COMPLETED, run.problem
        assert f"p{number}" in run.text
    assert here.paid() == {"p0": 1, "p1": 1}


async def two_runs_with_one_id(here: Machine) -> tuple[Run, Run]:
    """Submit and approve two runs in one session, whose model uses the id of a call again."""
    waiting = []
    for to in ("anna", "ben"):
        run = await here.decider.submit(
            "adk_office", plan(paying(to)), user="riley@example.com", session="one"
        )
        await here.executor.drain(stages.run("adk_office"))
        waiting.append(await here.ledger.run(run.id))
    for run in waiting:
        await here.approve(run)
    for _ in waiting:
        await here.resume(run)
        here.pass_time()
    first, second = [await here.ledger.run(one.id) for one in waiting]
    return first, second


async def test_calls_of_two_runs_never_have_one_id(here: Machine) -> None:
    """Each approved call runs, although the model uses the id of the first one again."""
    for run in await two_runs_with_one_id(here):
        assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_an_answer_never_goes_to_the_call_of_another_run(
    here: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ADK finds only the latest call with an id, so the answer to an earlier one ends its run."""
    # Sessions of earlier releases may have two calls of one id.
    monkeypatch.setattr(CallIds, "make_unique", lambda *_: None)
    first, second = await two_runs_with_one_id(here)
    assert (first.state, second.state) == (RunState.FAILED, RunState.COMPLETED)
    assert "the model has used its id again" in first.problem
    assert here.paid() == {"ben": 1}
    (approval,) = await approvals_of(here, first)
    assert approval.handoff is Handoff.VOID


@pytest.mark.parametrize("order", [(2, 0, 1), pytest.param((0, 1, 2), marks=pytest.mark.soak)])
async def test_parallel_calls_are_decided_separately(
    here: Machine, app: str, order: Sequence[int]
) -> None:
    """Calls that wait together are decided separately, in any order."""
    run = await here.submit(app, plan(paying("anna", "ben", "cleo")))
    asked = await here.ask(run)
    assert [one.call.args["to"] for one in asked] == ["anna", "ben", "cleo"]
    for place in order:
        decide = here.decider.reject if place == 1 else here.decider.approve
        await decide(asked[place].id, MARA, channel="cli", reason="because")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1, "cleo": 1}


@pytest.mark.soak
async def test_one_of_two_workers_with_the_same_answer_runs_the_tool(
    here: Machine, app: str
) -> None:
    """Of two workers with the same answer, one runs the tool."""
    run = await here.submit(app, plan(paying("anna")))
    await here.approve(run)
    async with machine(here.redis, here.journal) as there:
        await asyncio.gather(
            here.executor.drain(stages.resume(app)), there.executor.drain(stages.resume(app))
        )
    assert (await here.ledger.run(run.id)).state is RunState.COMPLETED
    assert here.paid() == {"anna": 1}


async def test_one_of_two_answers_to_a_call_counts(here: Machine, app: str) -> None:
    """Of two answers to one call one counts."""
    run = await here.submit(app, plan(paying("anna")))
    (asked,) = await here.ask(run)
    answers = await asyncio.gather(
        here.decider.approve(asked.id, MARA, channel="cli"),
        here.decider.reject(asked.id, MARA, channel="email"),
        return_exceptions=True,
    )
    assert sum(isinstance(one, Exception) for one in answers) == 1
    run = await here.resume(run)
    (decided,) = await approvals_of(here, run)
    assert here.paid() == ({"anna": 1} if decided.state is State.APPROVED else {})


MANY = [20, pytest.param(1_000, marks=pytest.mark.soak)]


@pytest.mark.parametrize("times", MANY)
async def test_duplicate_resumes(here: Machine, app: str, times: int) -> None:
    """Repeated work runs nothing twice, during the resume and afterwards."""
    run = await here.submit(app, plan(paying("anna", "ben")))
    await here.approve(run)
    answered = await here.ledger.run(run.id)
    async with machine(here.redis, here.journal) as there:
        for _ in range(2):
            for _ in range(times // 2):
                work = ResumeRun(run=run.id, app=app, pause=answered.pause)
                await here.ledger.commit(Change().send(work))
            await asyncio.gather(
                here.executor.drain(stages.resume(app)), there.executor.drain(stages.resume(app))
            )
    assert (await here.ledger.run(run.id)).state is RunState.COMPLETED
    assert here.paid() == {"anna": 1, "ben": 1}


@pytest.mark.parametrize("times", MANY)
async def test_duplicate_resumes_without_a_lease(here: Machine, other: str, times: int) -> None:
    """Even if all workers believe that they hold the lease, a stored state starts a tool once."""
    run = await here.submit(other, plan(paying("anna", "ben")))
    await here.approve(run)
    answered = await here.ledger.run(run.id)
    for _ in range(times // 20):
        await resume_again(here, answered, 20)
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_new_process_resumes_the_run(here: Machine, app: str) -> None:
    """A process without earlier state resumes the run."""
    run = await here.submit(app, plan(paying("anna"), paying("ben")))
    await here.approve(run)
    async with machine(here.redis, here.journal) as there:
        run = await there.resume(run)
        assert run.state is RunState.PAUSED, run.problem
        await there.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1, "ben": 1}


async def test_a_started_tool_is_in_doubt(here: Machine, app: str) -> None:
    """A tool that started and was not reported is asked about, and does not run again."""
    run = await here.submit(app, plan(paying("anna")))
    await here.approve(run, InDoubt.ASK)
    (approval,) = await approvals_of(here, run)
    started, events = approval.hand_on(Handoff.STARTED, now=here.clock.now())
    await here.ledger.commit(Change().put(started, was=approval).note(events))
    run = await here.resume(run)
    assert run.state is RunState.PAUSED, run.problem
    assert not here.executed()
    (asked,) = await here.ask(run)
    assert "may or may not have happened" in asked.hint
    await here.decider.reject(asked.id, MARA, channel="cli", reason="it happened")
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert not here.executed()
    assert "it happened" in run.text


async def test_a_frozen_tool_waits_for_the_thaw(here: Machine, app: str) -> None:
    """A frozen tool does not start; when the freeze ends, the run continues."""
    freezes = Freezes(here.ledger)
    await freezes.freeze(app=app, tool="note", by="mara", why="an audit")
    run = await here.submit(app, plan([("note", {"text": "x"})]))
    assert (run.state, run.held) == (RunState.QUEUED, "note")
    assert not here.executed()
    await freezes.thaw(app=app, tool="note", by="mara", why="done")
    here.pass_time()
    await here.executor.drain(stages.run(app))
    assert (await here.ledger.run(run.id)).state is RunState.COMPLETED
    assert here.executed() == [{"noted": "x"}]


@pytest.mark.soak
async def test_approval_that_expires_during_its_turn_is_requested_again(
    here: Machine, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No call runs on the expired approval; after the second one, each call runs once."""
    run = await here.submit(app, plan(paying("anna", "ben")))
    await here.approve(run)
    plain = MixedRuntime.resume

    async def slow(self: MixedRuntime, *args: Any) -> TurnResult:
        here.clock.moment += timedelta(days=8)
        return await plain(self, *args)

    with monkeypatch.context() as patched:
        patched.setattr(MixedRuntime, "resume", slow)
        run = await here.resume(run)
    assert (run.state, here.executed()) == (RunState.PAUSED, [])
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert here.paid() == {"anna": 1, "ben": 1}


@pytest.mark.soak
async def test_a_worker_needs_no_more_than_its_user_of_redis(
    tmp_path: Path, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Redis allows the worker everything: to ask, to be frozen, and to finish."""
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(tmp_path / "journal.jsonl"))
    with guarded(tmp_path / "redis") as url:
        async with (
            machine(url_of(url, OPERATOR), tmp_path / "journal.jsonl") as here,
            machine(url_of(url, WORKER), here.journal) as worker,
        ):
            here.executor = worker.executor
            run = await here.submit(other, plan(paying("anna"), [("note", {"text": "x"})]))
            await here.approve(run)
            freezes = Freezes(here.ledger)
            await freezes.freeze(app=other, tool="note", by="mara", why="an audit")
            assert (await here.resume(run)).held == "note"
            await freezes.thaw(app=other, tool="note", by="mara", why="done")
            here.pass_time()
            worker.pass_time()
            await here.executor.drain(stages.resume(other))
            assert (await here.ledger.run(run.id)).state is RunState.COMPLETED
        with redis.Redis.from_url(url, decode_responses=True) as root:
            assert {(one["username"], one["object"]) for one in root.acl_log()} == set()


async def test_a_tool_that_raises_has_run(here: Machine, app: str) -> None:
    """An approved tool that raises is not in doubt, because its error is recorded."""
    run = await here.submit(app, plan(paying("nobody")))
    await here.approve(run)
    run = await here.resume(run)
    (approval,) = await approvals_of(here, run)
    assert run.state in {RunState.COMPLETED, RunState.FAILED}
    assert "error" in approval.result
    assert approval.starts == 1
    assert not here.executed()


async def test_a_tool_that_exits_ends_no_worker(here: Machine, app: str) -> None:
    """It may call the code of a command, which ends with `SystemExit`; others run beside it."""
    free = await here.submit(app, plan([("note", {"text": "exit"})]))
    assert free.state in {RunState.COMPLETED, RunState.FAILED}
    run = await here.submit(app, plan(paying("exit")))
    await here.approve(run)
    run = await here.resume(run)
    (approval,) = await approvals_of(here, run)
    assert run.state in {RunState.COMPLETED, RunState.FAILED}
    assert "SystemExit" in approval.result
    assert approval.starts == 1


async def propose(here: Machine, run: Run, edits: Edits) -> Approval:
    """Let Mara approve the call with another amount."""
    (asked,) = await here.ask(run, edits=edits)
    return await here.decider.approve(asked.id, MARA, channel="cli", values={"amount": 5})


async def test_a_tool_that_raises_interrupts_no_other(
    here: Machine, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The frameworks cancel the other calls of a step, which were in doubt then."""
    raised = threading.Event()
    finish = CallGuard._finish

    async def finished(self: CallGuard, approval: str, result: JsonValue, *, why: str = "") -> None:
        await finish(self, approval, result, why=why)
        if why or isinstance(result, str):  # OpenAI's SDK makes a text of an error
            raised.set()

    monkeypatch.setattr(CallGuard, "_finish", finished)
    monkeypatch.setattr(script, "before_effect", [lambda: raised.wait(20)])
    run = await here.submit(other, plan(paying("anna", "nobody")))
    await here.approve(run)
    opened = run.approvals
    run = await here.resume(run)
    assert raised.is_set()
    assert here.paid() == {"anna": 1}
    handoffs = {one.handoff for one in await here.ledger.approvals(opened)}
    assert handoffs.isdisjoint({Handoff.STARTED, Handoff.IN_DOUBT})


async def test_finished_tool_with_an_unstorable_result_is_not_repeated(
    here: Machine, app: str
) -> None:
    """The tool has finished, so nobody is asked again, however the framework handles it."""
    run = await here.submit(app, plan(paying("itself")))
    await here.approve(run)
    run = await here.resume(run)
    assert run.state in {RunState.COMPLETED, RunState.FAILED}
    (approval,) = await approvals_of(here, run)
    assert approval.handoff in {Handoff.FAILED, Handoff.RESUMED}
    assert approval.result
    assert here.paid() == {"itself": 1}


@pytest.mark.parametrize("other", EDITING)
async def test_an_edit_that_the_policy_allows(here: Machine, other: str) -> None:
    """The changed call has its own approval, and runs instead of the model's."""
    installed(other)
    run = await here.submit(other, plan([*paying("ben"), ("pay", {"to": "anna", "amount": 20})]))
    ben, anna = await here.ask(run, edits=Edits.APPROVE)
    await here.decider.approve(ben.id, MARA, channel="cli")
    before = await here.decider.approve(anna.id, MARA, channel="cli", values={"amount": 5})
    run = await here.resume(run)
    assert run.state is RunState.PAUSED, run.problem
    assert not here.executed()
    (waiting,) = await here.ledger.approvals(run.waiting)
    assert waiting.call.args == {"to": "anna", "amount": 5}
    assert waiting.supersedes == before.id
    await here.approve(run)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert '"amount": 5' in run.text
    assert {str(one["paid"]): one["amount"] for one in here.executed()} == {"anna": 5, "ben": 20}
    assert len(here.executed()) == 2


async def test_an_edit_that_the_policy_does_not_allow(here: Machine, other: str) -> None:
    """The model reads which call would be approved, and no tool runs."""
    run = await here.submit(other, plan(paying("anna")))
    await propose(here, run, Edits.ASK)
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert not here.executed()
    assert "exactly the arguments of the proposal" in run.text


async def forge(here: Machine, run: Run, old: str, new: str) -> None:
    """Change the stored state of a run, as a writer to Redis could."""
    name = Name(run.app, run.user, run.session)
    found = await SessionRecords(here.ledger.store).read(name)
    assert found is not None
    text = found.states.session[KEY]
    assert old in text
    key = f"{here.ledger.store.prefix}session:{name.key}"
    await here.ledger.store.client.hset(key, f"={KEY}", text.replace(old, new))


async def forge_values(here: Machine, run: Run, old: str, new: str) -> None:
    """Change a text everywhere in a run's stored state, also in base64."""

    def swapped(value: Any) -> Any:
        if isinstance(value, dict):
            return {swapped(key): swapped(one) for key, one in value.items()}
        if isinstance(value, list):
            return [swapped(one) for one in value]
        if not isinstance(value, str):
            return value
        with contextlib.suppress(ValueError):
            data = base64.b64decode(value, validate=True)
            if old.encode() in data:
                return base64.b64encode(data.replace(old.encode(), new.encode())).decode()
        return value.replace(old, new)

    found = await SessionRecords(here.ledger.store).read(Name(run.app, run.user, run.session))
    assert found is not None
    text = found.states.session[KEY]
    stored = json.loads(text)
    stored["turns"] = {id_: swapped(one) for id_, one in stored["turns"].items()}
    assert json.dumps(stored) != text
    await forge(here, run, text, json.dumps(stored))


async def test_a_forged_state_is_asked_about(here: Machine, other: str) -> None:
    """Arguments that changed between the card and the run are asked about again."""
    run = await here.submit(other, plan(paying("anna")))
    await here.approve(run)
    await forge_values(here, run, "anna", "emma")
    run = await here.resume(run)
    assert run.state is RunState.PAUSED, run.problem
    assert not here.executed()
    (asked,) = await here.ledger.approvals(run.waiting)
    assert asked.call.args["to"] == "emma"
    assert "have changed" in asked.hint
    await here.ask(run)
    await here.decider.reject(asked.id, MARA, channel="cli", reason="who is that?")
    run = await here.resume(run)
    # OpenAI's SDK refuses such a state itself, and so does the runtime for LangGraph.
    assert run.ended
    assert not here.executed()


async def test_a_call_that_is_forged_into_a_state(here: Machine, other: str) -> None:
    """A stored state with another waiting tool is not continued."""
    run = await here.submit(other, plan(paying("anna")))
    await here.approve(run)
    await forge_values(here, run, "pay", "buy")
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert not here.executed()


async def test_session_of_another_framework_is_refused(here: Machine, other: str) -> None:
    """A session that another framework has begun is refused with a clear message."""
    run = await here.submit(other, plan(paying("anna")))
    await here.approve(run)
    await forge(here, run, '"framework": "', '"framework": "old-')
    run = await here.resume(run)
    assert run.state is RunState.FAILED
    assert "Begin another session" in run.problem


async def test_session_has_messages_in_adks_form(here: Machine, other: str) -> None:
    """Its events have the messages in ADK's form, for every reader of sessions."""
    run = await here.done(other, plan(paying("anna")))
    session = await here.apps.sessions.get_session(
        app_name=run.app, user_id=run.user, session_id=run.session
    )
    assert session is not None
    first, pause, last = session.events
    assert first.content is not None
    assert last.content is not None
    assert (first.author, first.content.parts[0].text) == ("user", run.message)  # type: ignore[index]
    assert [one.name for one in pause.get_function_calls()] == ["pay"]
    assert last.content.parts[0].text == run.text  # type: ignore[index]


async def test_a_check_settles_a_doubt(
    here: Machine, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run believes a check that the call has happened; the check gets the call's key."""
    asked: list[CallInDoubt] = []

    def happened(one: CallInDoubt) -> bool:
        asked.append(one)
        return True

    monkeypatch.setitem(verification.checks, ("", "pay"), happened)
    run = await here.submit(other, plan(paying("anna")))
    await here.approve(run)
    (approval,) = await approvals_of(here, run)
    started, events = approval.hand_on(Handoff.STARTED, now=here.clock.now())
    await here.ledger.commit(Change().put(started, was=approval).note(events))
    run = await here.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert not here.executed()
    with running(approval.origin):
        assert [one.idempotency_key for one in asked] == [idempotency_key()]


async def test_the_key_of_a_call_stays(here: Machine, other: str) -> None:
    """A tool has one idempotency key for its call."""
    keys: list[str] = []
    script.before_effect.append(lambda: keys.append(idempotency_key()))
    try:
        await here.done(other, plan(paying("anna"), paying("ben")))
    finally:
        script.before_effect.clear()
    assert len(set(keys)) == 2
    assert all(len(one) == 32 for one in keys)
