"""Findings about an agent before it runs, and ADK's matching behaviour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi.openapi.models import APIKey, APIKeyIn
from google.adk.agents.base_agent import BaseAgent
from google.adk.agents.llm_agent import Agent
from google.adk.agents.loop_agent import LoopAgent
from google.adk.agents.sequential_agent import SequentialAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.auth.auth_tool import AuthConfig
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.tools.agent_tool import AgentTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.long_running_tool import LongRunningFunctionTool
from google.adk.tools.tool_context import ToolContext
from google.adk.workflow import FunctionNode, Workflow
from structlog.testing import capture_logs

from signoff.testing import Reply, ScriptedModel, ToolCall, Turn
from signoff.worker.adk.apps import Apps, session_service
from signoff.worker.adk.inspection import concerns
from worker.adk.conftest import NewHouse
from worker.adk.harness import House, requests_in, said, told

# ADK warns about its experimental features.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning"),
    pytest.mark.filterwarnings("ignore:The .plugins. argument is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*Agent is deprecated:DeprecationWarning"),
]


def pay(amount: float) -> dict[str, float]:
    """Pay."""
    return {"paid": amount}


def grant(days: int, tool_context: ToolContext) -> dict[str, str]:
    """Grant days, and ask in the tool's own code."""
    tool_context.request_confirmation(hint="How many?")
    return {"status": "pending"}


def large(amount: float) -> bool:
    """Return whether an amount is large."""
    return amount > 10


async def large_in_context(amount: float, tool_context: ToolContext) -> bool:
    """Return whether an amount is large, with a context that pay() does not take."""
    return amount > 10


def anything() -> bool:
    """Return True, without parameters."""
    return True


def agent(name: str, *tools: Any, **more: Any) -> Agent:
    """Build an agent with these tools."""
    return Agent(name=name, model=ScriptedModel(script=lambda _: "Done."), tools=tools, **more)


class GatedAgentTool(AgentTool):
    """An AgentTool that asks for a confirmation."""

    async def check_require_confirmation(
        self, args: dict[str, Any], tool_context: ToolContext
    ) -> bool:
        """Ask always."""
        return True


def test_agent_with_reachable_gates_raises_no_concern() -> None:
    """Tools of agents, sub-agents and workflows reach a person."""
    gated = FunctionTool(pay, require_confirmation=True)
    threshold = FunctionTool(pay, require_confirmation=large)
    root = agent("root", gated, grant, sub_agents=[agent("sub", threshold)])
    assert concerns(App(name="app", root_agent=root)) == []
    node = FunctionNode(func=pay, require_confirmation=True, rerun_on_resume=True)
    assert concerns(Workflow(name="flow", edges=[("START", node, agent("last", gated))])) == []


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        (FunctionTool(pay, require_confirmation=True), "asks for a confirmation"),
        (FunctionTool(pay, require_confirmation=large), "asks for a confirmation"),
        (grant, "asks for something in its own code"),
        (LongRunningFunctionTool(pay), "waits for a result from outside"),
    ],
    ids=["static", "threshold", "dynamic", "long-running"],
)
def test_inspection_names_the_path_to_a_gate_inside_an_agent_tool(tool: object, words: str) -> None:
    """The path to it is named, also through sub-agents and workflows."""
    inner = agent("inner", sub_agents=[agent("deep", tool)])
    flow = Workflow(name="flow", edges=[("START", agent("outer", AgentTool(inner)))])
    (found,) = concerns(flow)
    assert found.broken is words.startswith("waits")
    assert found.where.startswith("flow > outer > inner > deep > ")
    assert words in found.text
    assert "inside the AgentTool 'inner'" in found.text


CREDENTIAL = AuthConfig(
    auth_scheme=APIKey(**{"in": APIKeyIn.header, "name": "X-Key"}), credential_key="key"
)


def sign_in(tool_context: ToolContext) -> dict[str, str]:
    """Ask for a credential."""
    tool_context.request_credential(CREDENTIAL)
    return {"status": "pending"}


def test_a_tool_that_asks_for_a_credential_is_warned_about() -> None:
    """Its agent may have the credential; otherwise nobody can be asked."""
    (concern,) = concerns(agent("root", sign_in))
    assert "which no approver can give" in concern.text
    assert not concern.broken


def payer(name: str) -> Agent:
    """Build an agent that asks before it pays."""
    return agent(name, FunctionTool(pay, require_confirmation=True))


def sequence(*agents: BaseAgent) -> SequentialAgent:
    """Build a sequence."""
    return SequentialAgent(name="line", sub_agents=list(agents))


def looped(*agents: BaseAgent) -> LoopAgent:
    """Build a loop."""
    return LoopAgent(name="line", sub_agents=list(agents))


@pytest.mark.parametrize("build", [sequence, looped])
def test_inspection_names_steps_that_adk_skips_after_an_approval(
    build: Callable[..., BaseAgent],
) -> None:
    """This concerns apps that are not resumable; resumable ones and bare roots continue."""
    root = build(payer("a"), agent("b"))
    found = " ".join(map(str, concerns(App(name="desk", root_agent=root))))
    assert "ADK goes on with 'a' alone" in found
    assert "'b' in 'line'" in found
    assert "is_resumable=True" in found
    assert "when a worker dies" in found
    resumable = ResumabilityConfig(is_resumable=True)
    assert concerns(App(name="desk", root_agent=root, resumability_config=resumable)) == []
    assert concerns(root) == []


def test_an_agent_that_never_hears_its_answer_is_named() -> None:
    """It concerns agents with an order of their own as nodes of a workflow."""
    root = Workflow(name="graph", edges=[("START", sequence(payer("a"), agent("b")))])
    (found,) = [one for one in concerns(root) if one.broken]
    assert "never hears the answer" in str(found)


def outer() -> Agent:
    """Build an agent that calls another one for a single turn, which asks before it pays."""
    inner = agent("inner", FunctionTool(pay, require_confirmation=True), mode="single_turn")
    inner.description = "Pays."

    def script(turn: Turn) -> Reply:
        if turn.tool_results:
            return str(turn.tool_results[-1].response)
        return ToolCall("inner", {"request": "go"})

    model = ScriptedModel(script=script)
    return Agent(name="outer", model=model, sub_agents=[inner])


@pytest.mark.parametrize("build", [sequence, looped])
def test_a_single_turn_agent_below_a_composite_root_is_named(
    build: Callable[..., BaseAgent],
) -> None:
    """ADK cannot run it there, so its calls are never asked about; below other roots it can."""
    (found,) = concerns(build(outer()))
    assert found.broken
    assert str(found).startswith("line > … > outer > inner: ADK cannot run a sub-agent")
    assert concerns(outer()) == []
    assert concerns(Workflow(name="graph", edges=[("START", outer())])) == []


async def test_adk_does_not_run_a_single_turn_agent_below_a_composite_root(
    new_house: NewHouse,
) -> None:
    """If ADK learns it, this warning must go."""
    house = await new_house(root=lambda _: sequence(outer()))
    events = await house.run(said("go"))
    assert "_event_queue is not set" in " ".join(told(events))


def test_a_gated_agent_tool_is_warned_about() -> None:
    """It works, and one approval lets its whole agent run."""
    (found,) = concerns(agent("root", GatedAgentTool(agent("inner", pay))))
    assert not found.broken
    assert str(found).startswith("root > inner: the AgentTool itself asks")


@pytest.mark.parametrize(
    ("threshold", "words"),
    [(large_in_context, "takes tool_context"), (anything, "does not take amount")],
)
async def test_a_threshold_that_cannot_be_called_is_found(
    new_house: NewHouse, threshold: Any, words: str
) -> None:
    """The start reports it; otherwise the first call would fail the run."""
    tool = FunctionTool(pay, require_confirmation=threshold)

    def root(_: House) -> Agent:
        def script(turn: Turn) -> Reply:
            return "Done." if turn.tool_results else ToolCall("pay", {"amount": 5.0})

        return Agent(name="root", model=ScriptedModel(script=script), tools=[tool])

    house = await new_house(root=root)
    (found,) = concerns(root(house))
    assert words in found.text
    with pytest.raises(TypeError):
        await house.run(said("go"))


def test_gate_inside_an_agent_tool_without_plugins_asks_nobody() -> None:
    """The guard is one of the plugins."""
    (found,) = concerns(agent("outer", AgentTool(payer("inner"), include_plugins=False)))
    assert found.broken
    assert "nobody is ever asked" in found.text


async def test_adk_raises_no_request_for_a_gate_inside_an_agent_tool(
    new_house: NewHouse,
) -> None:
    """No request surfaces and the tool does not run: the outer agent is told that it failed."""
    done = []

    def spend(amount: float) -> dict[str, float]:
        """Spend."""
        done.append(amount)
        return {"spent": amount}

    def inner(turn: Turn) -> Reply:
        return "Done." if turn.tool_results else ToolCall("spend", {"amount": 5.0})

    def outer(turn: Turn) -> Reply:
        return "Done." if turn.tool_results else ToolCall("inner", {"request": "spend"})

    def root(_: House) -> Agent:
        gated = FunctionTool(spend, require_confirmation=True)
        wrapped = Agent(name="inner", model=ScriptedModel(script=inner), tools=[gated])
        model = ScriptedModel(script=outer)
        return Agent(name="root", model=model, tools=[AgentTool(wrapped)])

    house = await new_house(root=root)
    assert len(concerns(root(house))) == 1
    events = await house.run(said("go"))
    assert requests_in(events) == []
    assert done == []
    assert any("AgentTool cannot resume" in line for line in told(events)), told(events)


def test_worker_logs_each_concern_and_starts_despite_a_broken_agent(tmp_path: Path) -> None:
    """Each concern is one line of the log, as is an agent that does not load."""
    (tmp_path / "bad").mkdir()
    (tmp_path / "bad" / "__init__.py").write_text("from . import agent\n")
    (tmp_path / "bad" / "agent.py").write_text("import no_such_module\n")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "__init__.py").write_text("from . import agent\n")
    (tmp_path / "odd" / "agent.py").write_text(ODD)
    url = f"sqlite:///{tmp_path}/sessions.db"
    apps = Apps(tmp_path, session_service(url, tmp_path), lambda: BasePlugin(name="none"))
    with capture_logs() as logged:
        apps.load_all(["bad", "odd"])
    assert [(one["event"], one["app"]) for one in logged] == [
        ("agent.broken", "bad"),
        ("agent.concern", "odd"),
    ]
    assert "no_such_module" in logged[0]["problem"]
    assert "takes limit, which pay() does not" in logged[1]["problem"]


ODD = """
from google.adk.agents import Agent
from google.adk.tools.function_tool import FunctionTool

def pay(amount: float) -> dict:
    return {}

def large(amount: float, limit: float) -> bool:
    return amount > limit

root_agent = Agent(name="odd", model="m", tools=[FunctionTool(pay, require_confirmation=large)])
"""
