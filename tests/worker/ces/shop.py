"""Helpers for tests of suspended code: an agent with some tools, and an approver."""

from __future__ import annotations

from signoff.core.approvals.approval import Approval
from signoff.core.approvals.run import Run
from signoff.worker.adk.apps import Apps
from signoff.worker.adk.guard.guard import GuardPlugin
from signoff.worker.adk.runtime import AdkRuntime
from signoff.worker.executor import Executor
from worker.office import MARA, Office

KEY = "k" * 32

AGENT = """
import itertools
import json
import os
from pathlib import Path
from google.adk.agents import Agent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.tools.base_tool import BaseTool
from google.adk.tools.function_tool import FunctionTool
from google.adk.tools.tool_context import ToolContext
from signoff.testing.model import ScriptedModel, ToolCall
from signoff.worker.ces.plugin import CesCallbacks
from signoff.worker.ces.toolset import CesToolset

HERE = Path(__file__).parent
asked = itertools.count()

def pay(who: str) -> dict:
    "Pay."
    return {"paid": who}

def note(what: str, tool_context: ToolContext) -> dict:
    "Do something, and ask nobody."
    with Path(os.environ["SIGNOFF_EXAMPLE_JOURNAL"]).open("a") as lines:
        lines.write(json.dumps({"what": what}) + "\\n")
    tool_context.state["noted"] = what
    return {"noted": what * LENGTH}

def show(details: dict, tool_context: ToolContext) -> dict:
    "Do something, and show the approver what the model says of it."
    if tool_context.tool_confirmation is None:
        tool_context.request_confirmation(payload=details)
        return {"status": "pending"}
    return note("shown", tool_context)

class Ship(BaseTool):
    "A tool that does not ask in its own code: ADK asks before it runs it."

    async def check_require_confirmation(self, args, tool_context):
        return args["what"] != "sample"

    async def run_async(self, *, args, tool_context):
        return note(args["what"], tool_context)

def script(turn):
    if turn.tool_results:
        return str(dict(turn.tool_results[-1].response))
    if turn.user_text.startswith("["):
        return ToolCall(*json.loads(turn.user_text))
    return ToolCall("CALL", ARGS)

root_agent = Agent(
    name="shop",
    model=ScriptedModel(script=script),
    tools=[
        CesToolset(HERE / "tools"),
        FunctionTool(pay, require_confirmation=True),
        Ship(name="ship", description="Ship something."),
        note,
        show,
    ],
)
app = App(
    name=HERE.name,
    root_agent=root_agent,
    plugins=[CesCallbacks(HERE / "callbacks")] if (HERE / "callbacks").is_dir() else [],
    resumability_config=ResumabilityConfig(is_resumable=True) if RESUMABLE else None,
)
"""


async def waiting(office: Office, run: Run) -> Approval:
    """Return the only waiting approval of a run."""
    [approval] = await office.ledger.approvals(run.waiting)
    return approval


async def answer(office: Office, run: Run, *, yes: bool = True, reason: str = "") -> Run:
    """Let Mara answer the run's request, and let the executor continue."""
    for one in await office.ask(run):
        decide = office.decider.approve if yes else office.decider.reject
        await decide(one.id, MARA, channel="cli", reason=reason)
    return await office.resume(await office.ledger.run(run.id))


async def another_worker(office: Office) -> None:
    """Let a worker continue that has no earlier state in memory."""
    guard = GuardPlugin(office.ledger)
    office.apps = Apps(office.apps.folder, office.apps.sessions, lambda: guard)
    office.executor = Executor(office.ledger, AdkRuntime(office.apps, guard))
