"""Texts with U+0000 and lone surrogates, which some stores cannot keep, do not fail a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.run import RunState
from worker.office import Office

AGENTS = {
    "arguments": 'actor("root", [("pay", {"to": "A\\0B"})], "Paid.", tools=[gated_pay()])',
    "ungated": 'actor("root", [("note", {"text": "A\\0B"})], "Noted.", tools=[note])',
    "words": 'actor("root", "All \\0 done.", output_key="said")',
    "result": 'actor("root", [("odd", {})], "Read.", tools=[odd])',
    "surrogate": 'actor("root", [("half", {})], "Read.", tools=[half])',
}
MODULE = """\
from google.adk.tools.tool_context import ToolContext

from worker.shapes import actor, gated_pay, note


def odd(tool_context: ToolContext) -> dict[str, str]:
    tool_context.state["odd\\0"] = ["x\\0"]
    return {{"read": "a\\0b", "k\\0": "v"}}


def half() -> dict[str, str]:
    return {{"read": "\\ud83d"}}


root_agent = {root}
"""

# ADK announces its experimental features by warning about them.
pytestmark = pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")


@pytest.fixture
def agents_folder(tmp_path: Path) -> Path:
    """Return one agent for each place in which such a character can be."""
    for name, root in AGENTS.items():
        home = tmp_path / "agents" / name
        home.mkdir(parents=True)
        (home / "__init__.py").write_text("from . import agent\n")
        (home / "agent.py").write_text(MODULE.format(root=root))
    return tmp_path / "agents"


@pytest.mark.parametrize("app", ["ungated", "words", "result"])
async def test_a_zero_byte_ends_no_run(office: Office, app: str) -> None:
    """In a message, an argument, a model's text, a result and the state."""
    run = await office.submit(app, "go \0 on")
    assert run.state is RunState.COMPLETED, run.problem


async def test_arguments_with_zero_bytes_run_as_approved(office: Office) -> None:
    """The card, the session and the tool have the same arguments in every store."""
    run = await office.submit("arguments", "go")
    assert run.state is RunState.PAUSED, run.problem
    (approval,) = await office.ask(run)
    await office.approve(run)
    run = await office.resume(run)
    assert run.state is RunState.COMPLETED, run.problem
    assert [line["paid"] for line in office.executed()] == [approval.call.args["to"]]
    (approval,) = await office.ledger.approvals(run.approvals)
    assert approval.handoff is Handoff.RESUMED


@pytest.mark.parametrize("sessions_url", ["ledger", "postgres"], indirect=True)
async def test_half_a_character_ends_no_run_either(office: Office) -> None:
    """A lone surrogate in a result is kept as U+FFFD."""
    run = await office.submit("surrogate", "go")
    assert run.state is RunState.COMPLETED, run.problem
