"""Calls without approval that wait for an approved call of the same turn, by policy."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import Agent, BaseAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.models.llm_request import LlmRequest
from google.adk.models.llm_response import LlmResponse
from google.adk.sessions.in_memory_session_service import InMemorySessionService
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext

from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.run import Run, RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Fallback, Hold, InDoubt, Policy, Resume
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.guard.holding import Holding
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker import shapes
from worker.dying_worker import Life, work
from worker.office import MARA, HandClock, Office
from worker.shapes import Actor, Calls, Manner, actor, gated_pay, journal, note, noter

# ADK announces its experimental features by warning about them.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    # ADK's own: `AgentTool` gives its Runner the plugins.
    pytest.mark.filterwarnings("ignore:The .plugins. argument is deprecated:DeprecationWarning"),
]

SOAKED = pytest.param("resumable", marks=pytest.mark.soak)

HOLDING = Holding([Policy(name="pay", when='tool == "pay"', ask=("mara",), hold=Hold.SIBLINGS)])


def later(text: str, tool_context: ToolContext) -> dict[str, str]:
    """Take a note after asking in its own code, which must not be skipped."""
    if tool_context.tool_confirmation is None:
        journal({"asked": text})
        tool_context.request_confirmation(hint="Really?")
        return {"status": "asked"}
    return note(text)


def pretend(text: str) -> dict[str, str]:
    """Take a note, and return the result of a held call."""
    journal({"noted": text})
    return {"status": "held", "error": "This tool call was not run."}


def begin(text: str) -> dict[str, str]:
    """Take a note, and start long work."""
    return {"status": "started", **note(text)}


def _above(to: str) -> bool:
    return to != "small"


STEPS: dict[str, Calls] = {
    "beside": [("note", {"text": "n"}), ("pay", {"to": "p"})],
    "two": [("pay", {"to": "p"}), ("note", {"text": "n"}), ("pay", {"to": "q"})],
    "small": [("pay", {"to": "small"}), ("note", {"text": "n"})],
    "asking": [("pay", {"to": "p"}), ("later", {"text": "n"})],
    "pretending": [("pay", {"to": "p"}), ("pretend", {"text": "n"})],
    "single": [("pay", {"to": "p"}), ("b", {"request": "go"})],
    "task": [("pay", {"to": "p"}), ("b", {"request": "go"})],
    "tool": [("pay", {"to": "p"}), ("b", {"request": "go"})],
    "transfer": [("pay", {"to": "p"}), ("transfer_to_agent", {"agent_name": "b"})],
    "slow": [("pay", {"to": "p"}), ("begin", {"text": "b1"})],
    "signed": [("pay", {"to": "p"}), ("note", {"text": "n"})],
    "three": [("pay", {"to": "p"}), ("note", {"text": "n"}), ("note", {"text": "m"})],
}


class Signing(Actor):
    """A model that signs its first call, as Gemini 3 does."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Return the next step of the plan, signed."""
        async for response in super().generate_content_async(llm_request, stream):
            if response.content and response.content.parts:
                response.content.parts[0].thought_signature = b"signed"
            yield response


def build(shape: str, manner: Manner) -> App | Agent:
    """Build an agent that makes a shape's calls in one step."""
    pay = FunctionTool(shapes.pay, require_confirmation=_above) if shape == "small" else gated_pay()
    subs: list[BaseAgent] = []
    tools: list[Any] = [pay, note, later, pretend, LongRunningFunctionTool(begin)]
    if shape == "single":
        subs = [noter("b", mode="single_turn")]
    elif shape == "task":
        over: Calls = [("finish_task", {"result": "noted"})]
        noting: Calls = [("note", {"text": "b1"})]
        subs = [actor("b", noting, over, "over", mode="task", tools=[note])]
    elif shape == "transfer":
        subs = [noter("b")]
    elif shape == "tool":
        tools.append(AgentTool(noter("b")))
    root = actor("a", STEPS[shape], "a is done.", tools=tools, sub_agents=subs)
    if shape == "signed":
        root.model = Signing(plan=[STEPS[shape], "a is done."])
    if manner == "bare":
        return root
    config = ResumabilityConfig(is_resumable=True) if manner == "resumable" else None
    return App(name=f"{shape}_{manner}", root_agent=root, resumability_config=config)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the agents."""
    folder = tmp_path_factory.mktemp("holding")
    for shape in STEPS:
        for manner in shapes.MANNERS:
            home = folder / f"{shape}_{manner}"
            home.mkdir()
            name = "root_agent" if manner == "bare" else "app"
            (home / "__init__.py").write_text("from . import agent\n")
            (home / "agent.py").write_text(
                f"from worker.test_holding import build\n\n{name} = build({shape!r}, {manner!r})\n"
            )
    return folder


@pytest.fixture
def holding() -> Holding:
    """Return the policies; a test may have others."""
    return HOLDING


@pytest.fixture
async def office(
    worker_redis: EmbeddedRedis,
    folder: Path,
    holding: Holding,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Office]:
    """Return an office whose worker knows the policies."""
    lines = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(lines))
    clock = HandClock()
    ledger = Ledger(Store.open(worker_redis.url, clock=clock))
    await ledger.store.client.flushall()
    guard = GuardPlugin(ledger, holding=holding)
    apps = Apps(folder, InMemorySessionService(), lambda: guard)
    decider = Decider(ledger, Directory([MARA]))
    yield Office(ledger, decider, Executor(ledger, AdkRuntime(apps, guard)), apps, clock, lines)
    await apps.close()
    await ledger.close()


async def results(office: Office, run: Run) -> list[dict[str, Any]]:
    """Return all tool results in the session."""
    session = await office.session(run)
    return [
        one.response or {}
        for event in session.events
        if event.author != "user"
        for one in event.get_function_responses()
    ]


@pytest.mark.parametrize(
    "manner", ["bare", pytest.param("plain", marks=pytest.mark.soak), "resumable"]
)
async def test_call_beside_a_gated_one_runs_after_the_approval(
    office: Office, manner: Manner
) -> None:
    """It runs once after the decision, and nobody is asked about it."""
    run = await office.submit(f"beside_{manner}", "go")
    assert run.state is RunState.PAUSED
    (asked,) = await office.ledger.approvals(run.waiting)
    assert asked.call.name == "pay"
    assert office.executed() == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"paid": "p"}, {"noted": "n"}]
    assert "a is done." in run.text
    await audit.verify(office.ledger.store)


@pytest.mark.parametrize("manner", ["bare", SOAKED])
async def test_call_beside_a_rejected_one_does_not_run(office: Office, manner: Manner) -> None:
    """The model reads that the call did not run, and why."""
    run = await office.submit(f"beside_{manner}", "go")
    for asked in await office.ask(run):
        await office.decider.reject(asked.id, MARA, channel="cli", reason="no")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == []
    (held,) = [one for one in await results(office, run) if one.get("status") == "held"]
    assert "pay() beside it needs an approval" in held["error"]


@pytest.mark.parametrize("manner", ["bare", "resumable"])
@pytest.mark.parametrize("yes", [True, False], ids=["approved", "one rejected"])
async def test_a_call_waits_for_all_that_are_asked_about(
    office: Office, manner: Manner, yes: bool
) -> None:
    """It runs after the last of two approvals, even if each is answered separately."""
    run = await office.submit(f"two_{manner}", "go")
    first, second = await office.ask(run, resume=Resume.EACH)
    if yes:
        await office.decider.approve(first.id, MARA, channel="cli")
    else:
        await office.decider.reject(first.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    assert {"noted": "n"} not in office.executed()
    await office.decider.approve(second.id, MARA, channel="cli")
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed().count({"noted": "n"}) == int(yes)


async def test_several_held_calls_each_run_once(office: Office) -> None:
    """Each of them runs once."""
    run = await office.submit("three_bare", "go")
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    noted = sorted(str(one["noted"]) for one in office.executed() if "noted" in one)
    assert noted == ["m", "n"]


@pytest.mark.parametrize("manner", ["bare", SOAKED])
@pytest.mark.parametrize("kind", ["single", "tool", "transfer"])
async def test_agent_tool_call_beside_a_gated_one_is_held(
    office: Office, kind: str, manner: Manner
) -> None:
    """The other agent does not start before the approval."""
    run = await office.submit(f"{kind}_{manner}", "go")
    assert run.state is RunState.PAUSED
    assert office.executed() == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"paid": "p"}, {"noted": "b1"}]


@pytest.mark.parametrize("kind", ["task", "slow"])
async def test_long_running_call_is_not_held(office: Office, kind: str) -> None:
    """ADK would use any text in the tool's place as the answer that it waits for."""
    run = await office.submit(f"{kind}_bare", "go")
    assert run.state is RunState.PAUSED
    assert {"noted": "b1"} in office.executed()
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed().count({"paid": "p"}) == 1


async def test_repeated_held_call_is_marked_as_unsigned(office: Office) -> None:
    """Gemini 3 refuses a first call without a signature, and accepts this mark instead."""
    run = await office.submit("signed_bare", "go")
    await office.approve(run)
    run = await office.resume(run)
    session = await office.session(run)
    signatures = [
        part.thought_signature
        for event in session.events
        for part in (event.content.parts or [] if event.content else [])
        if part.function_call and part.function_call.name in {"pay", "note"}
    ]
    assert signatures == [b"signed", None, b"skip_thought_signature_validator"]


async def test_call_below_its_threshold_holds_no_other(office: Office) -> None:
    """A threshold function decides for which arguments a tool asks."""
    run = await office.submit("small_bare", "go")
    assert run.state is RunState.COMPLETED
    assert sorted(map(str, office.executed())) == ["{'noted': 'n'}", "{'paid': 'small'}"]


async def test_held_tool_with_its_own_confirmation_is_asked_about_later(office: Office) -> None:
    """It does not get the confirmation of another call."""
    run = await office.submit("asking_bare", "go")
    assert office.executed() == []
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED
    (asked,) = await office.ledger.approvals(run.waiting)
    assert asked.call.name == "later"
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"paid": "p"}, {"asked": "n"}, {"noted": "n"}]


OTHER = Policy(name="other", when='tool == "other"', ask=("mara",), hold=Hold.SIBLINGS)


@pytest.mark.parametrize(
    "holding", [Holding(), Holding([OTHER])], ids=["no policy", "a policy for another tool"]
)
async def test_policy_without_hold_runs_siblings_immediately(office: Office) -> None:
    """A result that only looks like that of a held call does not run anything again."""
    run = await office.submit("pretending_bare", "go")
    assert office.executed() == [{"noted": "n"}]
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED
    assert office.executed() == [{"noted": "n"}, {"paid": "p"}]


BROKEN = Policy(name="broken", when="args.missing.deep > 1 || args.to > 1", ask=("mara",))


@pytest.mark.parametrize(
    "holding",
    [
        Holding(fallback=Fallback(hold=Hold.SIBLINGS)),
        Holding([OTHER], Fallback(hold=Hold.SIBLINGS)),
        Holding([BROKEN], Fallback(hold=Hold.SIBLINGS)),
    ],
    ids=["alone", "none matches", "one cannot be evaluated"],
)
async def test_default_may_hold_calls(office: Office) -> None:
    """It applies if no policy matches."""
    run = await office.submit("beside_bare", "go")
    assert run.state is RunState.PAUSED
    assert office.executed() == []


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("manner", shapes.MANNERS)
@pytest.mark.parametrize("turn", [0, 1])
async def test_held_call_survives_a_death_and_runs_after_the_approval(
    office: Office, manner: Manner, turn: int
) -> None:
    """Wherever the worker dies, the payment is made once, and the note follows the approval."""
    app, step = f"beside_{manner}", 0
    while True:
        step += 1
        office.journal.unlink(missing_ok=True)
        life = Life(step)
        run = await office.decider.submit(app, "go", user="riley@example.com")
        if turn == 0:
            await work(office, stages.run(app), life)
        await office.executor.drain(stages.run(app))
        run = await office.ledger.run(run.id)
        assert run.state is RunState.PAUSED, (step, run.problem)
        assert office.executed() == [], step
        await office.approve(run, InDoubt.ASK)
        if turn == 1:
            await work(office, stages.resume(app), life)
        run = await office.resume(run)
        lines = office.executed()
        assert lines.count({"paid": "p"}) <= 1, step
        doubtful = run.state is RunState.PAUSED
        while run.state is RunState.PAUSED:
            # The payment is in doubt, and the note waits for its resolution. The model makes
            # both calls once more.
            assert {"noted": "n"} not in office.executed(), step
            for asked in await office.ask(run):
                await office.decider.reject(asked.id, MARA, channel="cli", reason="seen")
            run = await office.resume(run)
        assert ({"noted": "n"} in office.executed()) is not doubtful, (step, life.steps)
        assert doubtful or {"paid": "p"} in lines, step
        assert run.state is RunState.COMPLETED, (step, run.problem)
        if not life.ended:
            break
    assert step > 5
    await audit.verify(office.ledger.store)
