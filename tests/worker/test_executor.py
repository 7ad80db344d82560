"""The worker with real parts: runs, pauses, answers, and repeated work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

import pytest
from google.adk.agents.llm_agent import LlmAgent
from google.adk.models import BaseLlm
from google.adk.models.llm_response import LlmResponse
from structlog.testing import capture_logs

from ports import free_port
from signoff.broker import stages
from signoff.broker.doorbells.celery import make_celery
from signoff.broker.doorbells.loop import LoopThread
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.lease import session_key
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.runs import RunClaim, claim_runs
from signoff.broker.ledger.store import Store
from signoff.broker.work import ResumeRun, StartRun
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff, State
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.approvals.run import Run, RunState
from signoff.core.base.errors import LedgerError, LedgerUnavailable
from signoff.core.policies.policy import Resume
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from signoff.worker.port import Pause, TurnResult
from signoff.worker.tasks import register
from worker.office import AGENTS, MARA, Office

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


def origin_of(run: Run, confirmation: str) -> Origin:
    """Return where a call of a run comes from."""
    return Origin(
        run=run.id,
        app=run.app,
        user=run.user,
        session=run.session,
        invocation=run.invocation,
        confirmation=confirmation,
    )


async def test_a_call_below_the_threshold_is_not_asked_about(office: Office) -> None:
    """The tool's threshold function decides which calls need a person."""
    run = await office.submit("finance", "Reimburse me $50 for lunch")
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) == 1


async def test_work_that_is_done_is_not_repeated(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second item for a run that has gone on is acknowledged, and no turn begins."""

    async def never(self: object, *args: object) -> TurnResult:
        raise AssertionError(args)

    async def again(work: StartRun | ResumeRun) -> None:
        await office.ledger.commit(Change().send(work))
        before = await office.ledger.run(run.id)
        with monkeypatch.context() as patch:
            patch.setattr(AdkRuntime, "start", never)
            patch.setattr(AdkRuntime, "resume", never)
            await office.executor.drain(work.stage)
        assert await office.ledger.run(run.id) == before
        assert (await office.ledger.backlog())[work.stage] == 0

    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    start, resume = (
        StartRun(app=run.app, run=run.id),
        ResumeRun(app=run.app, run=run.id, pause=run.pause),
    )
    await again(start)
    await again(resume)
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    await again(start)
    await again(resume)
    assert len(office.executed()) == 1


async def test_work_of_a_run_that_does_not_exist_is_dropped(office: Office) -> None:
    """It could never be done, and would be claimed again for ever."""
    work = StartRun(app="finance", run="run_0000000000000000")
    await office.ledger.commit(Change().send(work))
    with capture_logs() as logs:
        await office.executor.drain(work.stage)
    assert [one["event"] for one in logs if one["log_level"] == "error"] == ["work.without_run"]
    assert await office.ledger.backlog() == {work.stage: 0}


async def test_the_reason_of_a_rejection_reaches_the_model(office: Office) -> None:
    """ADK drops the reason; the guard adds it to the model's input."""
    run = await office.submit("finance_strict", "Reimburse me $20 for lunch")
    (approval,) = await office.ask(run)
    await office.decider.reject(approval.id, MARA, channel="cli", reason="over budget")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert "over budget" in run.text
    assert office.executed() == []


async def test_a_dynamic_request_that_is_rejected_never_enters_the_tool(office: Office) -> None:
    """A tool that only reads the payload would continue without checking `confirmed`."""
    run = await office.submit("time_off", "I need 5 days off")
    (approval,) = await office.ask(run)
    await office.decider.reject(approval.id, MARA, channel="cli", reason="quarter end")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert "quarter end" in run.text


async def test_model_can_tell_a_timeout_from_a_rejection(office: Office) -> None:
    """The model reads that nobody answered, and the late answer changes nothing."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    (approval,) = await office.ask(run)
    office.pass_time(25 * 3600)
    ended = await office.decider.time_out(approval.id)
    assert ended is not None
    assert ended.state is State.TIMED_OUT
    run = await office.resume(run)
    assert "nobody answered in time" in run.text
    assert office.executed() == []


async def test_session_lease_prevents_a_second_parallel_run(office: Office) -> None:
    """Two runs of one session take turns: the lease of the session decides."""
    run = await office.decider.submit(
        "finance", "Reimburse me $50 for lunch", user="riley@example.com", session="shared"
    )
    key = session_key(run.app, run.user, run.session)
    await office.ledger.take_lease(key, "somebody", lease=60)
    assert await office.executor.drain(stages.run("finance")) == 0
    assert (await office.ledger.run(run.id)).state is RunState.QUEUED
    await office.ledger.release_lease(key, "somebody")
    office.pass_time()
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(run.id)).state is RunState.COMPLETED


async def test_unknown_agent_fails_the_run_and_lists_the_known_agents(office: Office) -> None:
    """The error names the existing agents."""
    run = await office.submit("finanse", "Reimburse me $50")
    assert run.state is RunState.FAILED
    assert "finance" in run.problem
    assert await office.ledger.backlog() == {"run.finanse": 0}


async def test_a_deleted_session_is_a_defined_end(office: Office) -> None:
    """The answer has no recipient: the run fails and says so."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    await office.apps.sessions.delete_session(
        app_name=run.app, user_id=run.user, session_id=run.session
    )
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "is gone" in run.problem
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.FAILED


async def test_manipulated_record_runs_no_tool(office: Office) -> None:
    """Shown = approved = executed: a manipulated record in the ledger runs nothing."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    (was,) = await office.ledger.approvals(run.approvals)
    other = was.model_copy(update={"digest": "sha256:" + "0" * 64})
    await office.ledger.commit(Change().put(other, was=was))
    run = await office.resume(run)
    assert run.state is RunState.FAILED
    assert "Nothing was run" in run.problem
    assert office.executed() == []


@pytest.mark.soak
async def test_hundred_runs_call_their_model_at_once_in_one_process(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All runs are active together: none can end before all have begun."""
    runner = office.apps.runner("finance")
    assert isinstance(runner.agent, LlmAgent)
    model = runner.agent.model
    begun, all_there = 0, asyncio.Event()
    assert isinstance(model, BaseLlm)
    original = type(model).generate_content_async

    async def gathering(self: BaseLlm, *args: Any, **kwargs: Any) -> AsyncIterator[LlmResponse]:
        nonlocal begun
        begun += 1
        if begun >= 100:
            all_there.set()
        await all_there.wait()
        async for response in original(self, *args, **kwargs):
            yield response

    monkeypatch.setattr(type(model), "generate_content_async", gathering)
    runs = [
        await office.decider.submit("finance", "Reimburse me $2500", user=f"user{n}@example.com")
        for n in range(100)
    ]
    # One ring is enough: the process takes as many items as it has slots.
    await office.executor.drain(stages.run("finance"))
    assert begun >= 100
    # On a slow disk SQLite may have refused some for a moment: they run again.
    office.pass_time()
    await office.executor.drain(stages.run("finance"))
    states = {run.state for run in await office.ledger.runs([run.id for run in runs])}
    assert states == {RunState.PAUSED}


@pytest.mark.parametrize("agents_folder", [AGENTS], ids=["test-agents"], indirect=True)
class TestPauses:
    """Pauses of different kinds of agents."""

    async def test_a_gate_in_a_sub_agent_is_found_and_resumed(self, office: Office) -> None:
        """The approval names the sub-agent, and the run continues in it."""
        run = await office.submit("nested", "pay")
        (approval,) = await office.ledger.approvals(run.approvals)
        assert approval.origin.agent == "cashier"
        await office.approve(run)
        run = await office.resume(run)
        assert run.state is RunState.COMPLETED
        assert len(office.executed()) == 1

    async def test_a_tool_that_raises_after_its_effect_is_not_run_again(
        self, office: Office
    ) -> None:
        """It has run: the run fails with the tool's error, and the approval is used up."""
        run = await office.submit("careless", "raises")
        await office.approve(run)
        run = await office.resume(run)
        assert run.state is RunState.FAILED
        assert "the bank hung up" in run.problem
        assert len(office.executed()) == 1

    async def test_a_second_question_on_the_approved_pass_is_asked(self, office: Office) -> None:
        """Each question has an approval of its own, and the tool runs on with its answer."""
        run = await office.submit("careless", "asks_twice")
        for number in (1, 2):
            (approval,) = await office.ask(run)
            assert approval.hint == f"question {number}"
            assert office.executed() == []
            await office.decider.approve(
                approval.id, MARA, channel="cli", values={"code": f"answer {number}"}
            )
            run = await office.resume(run)
        assert run.state is RunState.COMPLETED, run.problem
        assert office.executed() == [{"paid": "A", "code": "answer 2"}]

    async def test_unanswerable_pause_fails_the_run_with_a_reason(self, office: Office) -> None:
        """A request for a credential neither counts as the end of the run nor hangs."""
        run = await office.submit("credential", "go")
        assert run.state is RunState.FAILED
        assert "adk_request_credential" in run.problem
        assert "a credential of its own" in run.problem


async def test_an_edit_is_a_rejection_that_the_next_proposal_is_linked_to(office: Office) -> None:
    """The model reads which call would be approved; when it makes that call, they are linked."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    (approval,) = await office.ask(run)
    edited = await office.decider.approve(
        approval.id, MARA, channel="cli", values={"amount": 1900.0}, reason="the cap is 1900"
    )
    assert edited.state is State.REJECTED
    run = await office.resume(run)
    assert office.executed() == []
    assert "the cap is 1900" in run.text
    session = run.session
    again = await office.decider.submit(
        "finance", "Reimburse me $1900 for the conference", user=run.user, session=session
    )
    await office.executor.drain(stages.run("finance"))
    again = await office.ledger.run(again.id)
    (linked,) = await office.ledger.approvals(again.approvals)
    assert linked.supersedes == approval.id
    assert (await office.ledger.approval(approval.id)).superseded_by == linked.id
    third = await office.decider.submit(
        "finance", "Reimburse me $1900 for the conference", user=run.user, session=session
    )
    await office.executor.drain(stages.run("finance"))
    third = await office.ledger.run(third.id)
    (fresh,) = await office.ledger.approvals(third.approvals)
    assert fresh.supersedes == ""


@pytest.mark.parametrize("step", range(1, 5))
async def test_resume_repeats_a_commit_after_a_concurrent_change(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    """If the approval changes just before a commit of the resume, the commit is repeated."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    (approval_id,) = run.approvals
    commit_all, left = Ledger.commit_all, step

    async def disturbed(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        nonlocal left
        left -= 1
        if left == 0:
            was = await self.approval(approval_id)
            late, events = deliveries.delivered(
                was, "mara", "email", "<card@example.com>", now=was.opened_at
            )
            await commit_all(self, [Change().put(late, was=was).note(events)])
        return await commit_all(self, changes)

    monkeypatch.setattr(Ledger, "commit_all", disturbed)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) == 1
    approval = await office.ledger.approval(approval_id)
    assert approval.handoff is Handoff.RESUMED


class Meanwhile:
    """A runtime that resumes runs without doing anything while another process does something."""

    def __init__(self, other: Callable[[Approval], Awaitable[None]]) -> None:
        self.other = other

    async def start(self, run: Run, fence: object) -> TurnResult:
        """Never called."""
        raise NotImplementedError

    async def resume(self, run: Run, approvals: Sequence[Approval], fence: object) -> TurnResult:
        """Let the other process act, and end the run."""
        await self.other(approvals[0])
        return TurnResult(text="done")

    async def resumes_each(self, run: Run, approvals: object) -> bool:
        """Never called."""
        raise NotImplementedError


async def answered_in(office: Office, other: Callable[[Approval], Awaitable[None]]) -> Approval:
    """Resume a run with a rejection while another process does something."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    (asked,) = await office.ask(run)
    await office.decider.reject(asked.id, MARA, channel="cli")
    await Executor(office.ledger, Meanwhile(other)).drain(stages.resume("finance"))
    assert (await office.ledger.run(run.id)).state is RunState.COMPLETED
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.RESUMED
    return approval


async def test_a_short_turn_that_commits_nothing_reads_its_records_once(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its result is committed on the records that the claim has read."""

    async def nothing(approval: Approval) -> None:
        """Change nothing."""

    monkeypatch.setattr("signoff.worker.executor.read_again", None)
    await answered_in(office, nothing)


async def test_what_others_change_during_such_a_turn_is_kept(office: Office) -> None:
    """If a delivery is recorded meanwhile, the result is committed on the new record."""

    async def deliver(approval: Approval) -> None:
        late, events = deliveries.delivered(
            approval, "mara", "email", "<late@example.com>", now=approval.opened_at
        )
        await office.ledger.commit(Change().put(late, was=approval).note(events))

    approval = await answered_in(office, deliver)
    assert [one.receipt for one in approval.asked if one.person == "mara"] == ["<late@example.com>"]


async def test_a_tool_that_starts_during_such_a_turn_is_in_doubt(office: Office) -> None:
    """The commit does not overlook a start that another process has recorded."""

    async def start(approval: Approval) -> None:
        started, events = approval.hand_on(Handoff.STARTED, now=approval.opened_at)
        await office.ledger.commit(Change().put(started, was=approval).note(events))

    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    await Executor(office.ledger, Meanwhile(start)).drain(stages.resume("finance"))
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.IN_DOUBT


@pytest.mark.parametrize("kept", [True, False])
@pytest.mark.parametrize("step", ["started", "finished"])
async def test_short_redis_outage_leaves_no_tool_in_doubt(
    office: Office, monkeypatch: pytest.MonkeyPatch, step: str, kept: bool
) -> None:
    """Start and end are recorded when Redis is back, whether or not the first try was stored."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    commit_all, failed = Ledger.commit_all, False

    async def away(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        nonlocal failed
        if not failed and f'"handoff":"{step}"' in str([one.writes for one in changes]):
            failed = True
            if kept:
                await commit_all(self, changes)
            raise LedgerUnavailable("Redis cannot be reached.")
        return await commit_all(self, changes)

    monkeypatch.setattr(Ledger, "commit_all", away)
    monkeypatch.setattr("signoff.broker.ledger.ledger._INSIST_AGAIN", 0)
    run = await office.resume(run)
    assert failed
    assert run.state is RunState.COMPLETED
    assert len(office.executed()) == 1


async def test_lost_session_lease_makes_a_recorded_start_uncertain(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If another worker has taken the session meanwhile, it may have started the tool."""
    run = await office.submit("finance", "Reimburse me $2500 for the conference")
    await office.approve(run)
    commit_all, failed = Ledger.commit_all, False

    async def away(self: Ledger, changes: Sequence[Change]) -> list[LedgerError | None]:
        nonlocal failed
        if not failed and '"handoff":"started"' in str([one.writes for one in changes]):
            failed = True
            await commit_all(self, changes)
            key = session_key(run.app, run.user, run.session)
            await self.store.client.set(f"{self.store.prefix}{key}", "another")
            raise LedgerUnavailable("Redis cannot be reached.")
        return await commit_all(self, changes)

    monkeypatch.setattr(Ledger, "commit_all", away)
    monkeypatch.setattr("signoff.broker.ledger.ledger._INSIST_AGAIN", 0)
    run = await office.resume(run)
    assert failed
    assert office.executed() == []


async def test_arguments_without_a_digest_fail_the_run_and_not_the_worker(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that cannot be shown exactly is not asked about: the run's error says why."""

    async def turn(self: object, run: Run, fence: object) -> TurnResult:
        origin = origin_of(run, "adk-1")
        call = ToolCall.model_construct(id="adk-0", name="pay", args={"amount": float("nan")})
        return TurnResult(pauses=(Pause(origin=origin, call=call),))

    monkeypatch.setattr(AdkRuntime, "start", turn)
    run = await office.submit("finance", "Reimburse me NaN dollars")
    assert run.state is RunState.FAILED
    assert "canonical" in run.problem
    assert await office.ledger.backlog() == {"run.finance": 0}


async def test_an_answer_during_a_resume_does_not_wait_for_a_third_one(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run resumes with it at once, while the third call still waits."""
    given: list[list[str]] = []

    async def start(self: object, run: Run, fence: object) -> TurnResult:
        origin = origin_of(run, "")
        return TurnResult(
            pauses=tuple(
                Pause(
                    origin=origin.model_copy(update={"confirmation": f"adk-{name}"}),
                    call=ToolCall(id=f"fc-{name}", name="pay", args={"to": name}),
                )
                for name in "ABC"
            )
        )

    async def resumes_each(self: object, run: Run, approvals: object) -> bool:
        return True

    async def resume(
        self: object, run: Run, approvals: Sequence[Approval], fence: object
    ) -> TurnResult:
        given.append([one.id for one in approvals])
        if len(given) == 1:
            await office.decider.reject(second.id, MARA, channel="cli")
        return TurnResult(text="done")

    monkeypatch.setattr(AdkRuntime, "start", start)
    monkeypatch.setattr(AdkRuntime, "resumes_each", resumes_each)
    monkeypatch.setattr(AdkRuntime, "resume", resume)
    run = await office.submit("finance", "pay all")
    first, second, third = await office.ask(run, resume=Resume.EACH)
    await office.decider.reject(first.id, MARA, channel="cli")
    for _ in range(2):  # the second answer has rung the bell
        run = await office.resume(run)
    assert given == [[first.id], [second.id]]
    assert (run.state, run.waiting) == (RunState.PAUSED, (third.id,))
    await office.decider.reject(third.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    for one in (first, second, third):
        assert (await office.ledger.approval(one.id)).handoff is Handoff.RESUMED


class Counting:
    """A runtime that sends a text, and counts its concurrent turns."""

    def __init__(self) -> None:
        self.at_work = self.most = 0
        self.executor: Executor | None = None

    async def start(self, run: Run, fence: object) -> TurnResult:
        """Let other turns begin; tell a given executor to begin no more."""
        self.at_work += 1
        self.most = max(self.most, self.at_work)
        if self.executor is not None:
            self.executor.stop_claiming()
        await asyncio.sleep(0.01)
        self.at_work -= 1
        return TurnResult(text="done")

    async def resume(self, run: Run, approvals: object, fence: object) -> TurnResult:
        """Never called."""
        raise NotImplementedError

    async def resumes_each(self, run: Run, approvals: object) -> bool:
        """Never called."""
        raise NotImplementedError


async def test_stages_share_the_slots_of_the_process(office: Office) -> None:
    """At most as many runs are active as there are slots, and every stage is finished."""
    runtime = Counting()
    executor = Executor(office.ledger, runtime, slots=3)
    for app in ["finance"] * 10 + ["time_off"] * 4:
        await office.decider.submit(app, "hi", user="riley@example.com")
    counts = await asyncio.gather(
        executor.drain(stages.run("finance")), executor.drain(stages.run("time_off"))
    )
    assert (list(counts), runtime.most) == ([10, 4], 3)
    assert {run.state for run in await office.ledger.recent_runs()} == {RunState.COMPLETED}


async def test_stopping_worker_finishes_its_active_runs(office: Office) -> None:
    """Active runs are committed, and the rest is left unclaimed for others."""
    runtime = Counting()
    runtime.executor = Executor(office.ledger, runtime, slots=2)
    for _ in range(4):
        await office.decider.submit("finance", "hi", user="riley@example.com")
    assert await runtime.executor.drain(stages.run("finance")) == 2
    states = [run.state for run in await office.ledger.recent_runs()]
    assert sorted(states) == [RunState.COMPLETED] * 2 + [RunState.QUEUED] * 2
    assert len((await office.ledger.claim(stages.run("finance"))).items) == 2


async def test_a_claim_that_fails_stops_no_turn(
    office: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A turn that was cancelled would leave its tools in doubt."""
    claims = 0

    async def claim_once(*args: Any, **kwargs: Any) -> RunClaim:
        nonlocal claims
        claims += 1
        if claims > 1:
            raise LedgerUnavailable("Redis cannot be reached.")
        return await claim_runs(*args, **kwargs)

    monkeypatch.setattr("signoff.worker.executor.claim_runs", claim_once)
    for _ in range(9):
        await office.decider.submit("finance", "hi", user="riley@example.com")
    with pytest.raises(LedgerUnavailable):
        await Executor(office.ledger, Counting()).drain(stages.run("finance"))
    states = [run.state for run in await office.ledger.recent_runs()]
    assert sorted(states) == [RunState.COMPLETED] * 8 + [RunState.QUEUED]


@pytest.mark.parametrize("stage", [stages.run("finance"), stages.resume("finance")])
def test_a_ledger_that_is_away_is_waited_for(stage: str) -> None:
    """A task does not fail without Redis: the work stays in the outbox."""
    loop, app = LoopThread(), make_celery("memory://")
    ledger = Ledger(Store.open(f"redis://127.0.0.1:{free_port()}/0", retries=0))
    register(app, loop, Executor(ledger, Counting()))
    with capture_logs() as logged:
        app.tasks[stages.task(stage)].run(stage)
    assert [one["event"] for one in logged] == ["stage.ledger_unavailable"]
    loop.run(ledger.close())
    loop.stop()
    app.close()


@pytest.mark.parametrize(
    "damage", [lambda _: b"1 x {}", lambda was: was.replace(b"riley", b"\xff")]
)
async def test_unreadable_record_is_retried_and_delays_no_other_work(
    office: Office, damage: Callable[[bytes], bytes]
) -> None:
    """It is tried again a minute later; the others are processed meanwhile."""
    broken = await office.decider.submit("finance", "Reimburse me $50", user="riley@example.com")
    other = await office.decider.submit("finance", "Reimburse me $50", user="riley@example.com")
    key = f"{office.ledger.store.prefix}run:{broken.id}"
    kept = await office.ledger.store.client.get(key)
    await office.ledger.store.client.set(key, damage(str(kept).encode()))
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(other.id)).state is RunState.COMPLETED
    await office.ledger.store.client.set(key, str(kept))
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(broken.id)).state is RunState.QUEUED
    office.pass_time(61)
    await office.executor.drain(stages.run("finance"))
    assert (await office.ledger.run(broken.id)).state is RunState.COMPLETED
