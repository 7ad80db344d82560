"""A single-turn agent that ADK cancels after its tool has run, because another agent pauses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.flows.llm_flows.tools import _caller
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.tool_context import ToolContext

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import Run, RunState
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.history import result_of
from signoff.worker.adk.repair import cancelled_result
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.running_tools import RunningTools
from worker.office import Office

pytestmark = [
    # ADK announces its experimental features by warning about them, and what it will take away.
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .plugins. argument is deprecated:DeprecationWarning"),
]

AGENT = '''
import asyncio
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.function_tool import FunctionTool
from worker.shapes import actor, calling, gated_pay, pay, payer


asked = asyncio.Event()


async def pay_slowly(to: str) -> dict[str, str]:
    """Pay somebody while another agent asks."""
    await asyncio.wait_for(asked.wait(), 60)
    for _ in range(2_000):
        await asyncio.sleep(0)
    return pay(to)


def ask(to: str) -> bool:
    if to == "a2":
        asked.set()
    return True


def build_slow():
    steps = [[("pay", {"to": "a1"})], [("pay", {"to": "a2"})], "a is done."]
    tools = [FunctionTool(pay, require_confirmation=ask)]
    a = actor("a", *steps, tools=tools, mode="single_turn")
    tools = [FunctionTool(pay_slowly, require_confirmation=True)]
    b = actor("b", [("pay_slowly", {"to": "b1"})], "b is done.", tools=tools, mode="single_turn")
    return actor("root", calling("a", "b"), "Both have paid.", sub_agents=[a, b])


class Masking(BasePlugin):
    async def after_tool_callback(self, **_):
        return {"paid": "masked"}


def mask(tool, args, tool_context, tool_response):
    return {"paid": "masked"}


def build(**more):
    steps = [[("pay", {"to": "a1"})], [("pay", {"to": "a2"})], "a is done."]
    a = actor("a", *steps, tools=[gated_pay()], mode="single_turn")
    b = payer("b", mode="single_turn", **more)
    return actor("root", calling("a", "b"), "Both have paid.", sub_agents=[a, b])


'''
KINDS = {
    "plain": "App(name='plain', root_agent=build())",
    "resumable": "App(name='resumable', root_agent=build(), "
    "resumability_config=ResumabilityConfig(is_resumable=True))",
    "slow": "App(name='slow', root_agent=build_slow())",
    "slow_resumable": "App(name='slow_resumable', root_agent=build_slow(), "
    "resumability_config=ResumabilityConfig(is_resumable=True))",
    "callback": "App(name='callback', root_agent=build(after_tool_callback=mask))",
    "plugin": "App(name='plugin', root_agent=build(), plugins=[Masking(name='masking')])",
}


class Killed(BaseException):
    """Ends a worker as kill -9 would: nothing handles it."""


@pytest.fixture(scope="module")
def agents_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of agents: root calls a, which pays twice, and b at the same time."""
    folder = tmp_path_factory.mktemp("cancelled")
    for name, app in KINDS.items():
        home = folder / name
        home.mkdir()
        (home / "__init__.py").write_text("from . import agent\n")
        (home / "agent.py").write_text(f"{AGENT}app = {app}\n")
    return folder


async def pause(office: Office, app: str) -> Run:
    """Submit a run that asks about a call of both agents, and approve both."""
    for _ in range(5):
        run = await office.submit(app, "go")
        if len(run.waiting) == 2:
            await office.approve(run)
            return run
    raise AssertionError(f"{app} has never asked about two calls")


def hold(monkeypatch: pytest.MonkeyPatch, *, finished: bool) -> list[str]:
    """Hold b's first tool call until ADK cancels it, just before or after its end is recorded.

    Returns:
        What was cancelled.
    """
    finish: Callable[..., Any] = GuardPlugin.finish
    call: Callable[..., Any] = _caller._call_tool_async
    held: list[str] = []

    async def hold_first(context: ToolContext) -> None:
        if context.agent_name == "b" and context.tool_confirmation and not held:
            held.append("b")
            await asyncio.Event().wait()

    async def finishing(self: GuardPlugin, *args: Any, **more: Any) -> None:
        await hold_first(args[3])
        await finish(self, *args, **more)

    async def ending(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> object:
        result: object = await call(tool, args, tool_context)
        await hold_first(tool_context)
        return result

    async def do_not_wait(*_: object) -> None:
        """Ask while the tool runs, as if it had only started after the question."""

    if finished:
        monkeypatch.setattr(_caller, "_call_tool_async", ending)
    else:
        monkeypatch.setattr(GuardPlugin, "finish", finishing)
        monkeypatch.setattr(RunningTools, "wait_for_approved", do_not_wait)
    return held


def results(events: list[Event], agent: str) -> list[object]:
    """Return the results of an agent's payments, with its placeholders."""
    return [
        one.response
        for event in events
        if event.author == agent
        for one in event.get_function_responses()
    ]


def paid(office: Office) -> list[object]:
    """Return who was paid."""
    return [line["paid"] for line in office.executed()]


async def require_whole(office: Office, run: Run) -> None:
    """Require that the run has paused for a's second call, and ends with each call run once."""
    first = await office.ledger.approvals(run.approvals)
    assert run.state is RunState.PAUSED, run.problem
    assert [one.call.args["to"] for one in first] == ["a2"]
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert sorted(map(str, paid(office))) == ["a1", "a2", "b1"]
    events = (await office.session(run)).events
    placeholder, result = results(events, "b")
    assert "requires confirmation" in str(placeholder)
    assert result == {"paid": "b1"}
    assert {"result": "b has paid 1."} in results(events, "root")


@pytest.mark.parametrize("app", ["plain", "resumable"])
async def test_cancelled_agent_gets_the_recorded_result(
    office: Office, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tool does not run again, and the agent continues with the result that was recorded."""
    run = await pause(office, app)
    before = await office.ledger.approvals(run.waiting)
    held = hold(monkeypatch, finished=True)
    run = await office.resume(run)
    assert held
    after = await office.ledger.approvals([one.id for one in before])
    assert {one.handoff for one in after} == {Handoff.RESUMED}
    await require_whole(office, run)


@pytest.mark.parametrize("app", ["plain", "resumable"])
async def test_restored_event_equals_the_one_that_adk_writes(office: Office, app: str) -> None:
    """Author, branch, node and content are those of ADK's own event."""
    run = await pause(office, app)
    asked = await office.ledger.approvals(run.waiting)
    run = await office.resume(run)
    events = (await office.session(run)).events
    (approval,) = (one for one in asked if one.call.args["to"] == "b1")
    approval = await office.ledger.approval(approval.id)
    assert result_of(events, approval) == {"paid": "b1"}
    written = [one for one in events if one.author == "b" and one.get_function_responses()][-1]
    before = events[: events.index(written)]
    restored = cancelled_result(before, approval, EventActions())
    assert restored is not None
    unlike = {"id", "timestamp", "custom_metadata"}
    assert restored.model_dump(exclude=unlike) == written.model_dump(exclude=unlike)


@pytest.mark.parametrize("app", ["slow", "slow_resumable"])
async def test_question_waits_for_the_approved_tools_that_run(office: Office, app: str) -> None:
    """Otherwise ADK would cancel the tool of the other agent, and it would be in doubt."""
    run = await pause(office, app)
    run = await office.resume(run)
    assert run.state is RunState.PAUSED, run.problem
    assert sorted(map(str, paid(office))) == ["a1", "b1"]
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert sorted(map(str, paid(office))) == ["a1", "a2", "b1"]


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("app", ["plain", "resumable"])
async def test_worker_dies_around_the_repair(
    office: Office, app: str, monkeypatch: pytest.MonkeyPatch, *, written: bool
) -> None:
    """The next worker adds the result once, and runs nothing again."""
    run = await pause(office, app)
    held = hold(monkeypatch, finished=True)
    restore = AdkRuntime._restore_results

    async def die(self: AdkRuntime, *args: Any) -> None:
        if written:
            await restore(self, *args)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(AdkRuntime, "_restore_results", die)
        with pytest.raises(BaseException) as killed:  # noqa: PT011 -- a group may contain it
            await office.resume(run)
        assert "Killed" in repr(killed.value)
    assert held
    office.pass_time()
    await require_whole(office, await office.resume(run))


@pytest.mark.parametrize("app", ["plain", "resumable"])
async def test_cancelled_tool_that_was_not_seen_to_finish_is_in_doubt(
    office: Office, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No result is added for it, and the run says that it is in doubt."""
    run = await pause(office, app)
    held = hold(monkeypatch, finished=False)
    run = await office.resume(run)
    assert held
    assert run.state is RunState.IN_DOUBT
    assert len(results((await office.session(run)).events, "b")) == 1


@pytest.mark.parametrize("app", ["callback", "plugin"])
async def test_result_that_callbacks_may_change_is_not_added(
    office: Office, app: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A callback that masks results would be circumvented; the run fails and says what has run."""
    run = await pause(office, app)
    held = hold(monkeypatch, finished=True)
    run = await office.resume(run)
    assert held
    assert run.state is RunState.FAILED
    assert "pay() of b has run" in run.problem
    assert len(results((await office.session(run)).events, "b")) == 1
