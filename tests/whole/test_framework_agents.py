"""The agents of the how-tos and the examples, unchanged, in real processes."""

from __future__ import annotations

from email.message import EmailMessage
from importlib.util import find_spec
from pathlib import Path

import pytest

from model_server import model
from promises.plant import ROOT, plant
from services import missing
from signoff.broker.submit import submit
from signoff.core.approvals.run import RunState
from test_docs import blocks

FRAMEWORKS = {"pydantic-ai": "pydantic_ai", "openai-agents": "agents", "langgraph": "langchain"}
EXAMPLES = ROOT / "examples" / "frameworks"
DONE = "refunded 49.50 for A-17"


@pytest.mark.soak
@pytest.mark.timeout(300)
async def test_the_agents_of_the_how_tos_and_the_examples(tmp_path: Path) -> None:
    """Each pauses, gets an answer by mail and runs its tool once; it reads a rejection's reason."""
    if absent := [name for name, package in FRAMEWORKS.items() if find_spec(package) is None]:
        missing(", ".join(absent), "make .venv/.dev")
    agents = tmp_path / "agents"
    for name, package in FRAMEWORKS.items():
        (code,) = blocks(f"docs/how-to/run-{name}.md", "python")
        folder = agents / f"{package}_how_to"
        folder.mkdir(parents=True)
        (folder / "agent.py").write_text(code)
    for example in EXAMPLES.iterdir():
        if example.is_dir() and not example.name.startswith("_"):
            (agents / example.name).symlink_to(example)
    apps = sorted(one.name for one in agents.iterdir())
    assert len(apps) == 2 * len(FRAMEWORKS)

    def text(mail: EmailMessage) -> str:
        return "reject: over budget" if "no thanks" in mail.as_string() else "approve"

    async with model() as models, plant(tmp_path, agents=agents) as here:
        here.environment.update(models)
        await here.start("channels", "gateway", "worker")
        ledger = here.parts.ledger
        runs = [
            (await submit(ledger, app, f"Refund it{', no thanks' * no}.", user="riley")).id
            for app in apps
            for no in (False, True)
        ]
        async with here.answering(text):
            await here.all_end(runs)
        for run in await ledger.runs(runs):
            assert run.state is RunState.COMPLETED, run.problem
            assert ("over budget" if "no thanks" in run.message else DONE) in run.text, run
            (approval,) = await ledger.approvals(run.approvals)
            assert approval.starts == (0 if "no thanks" in run.message else 1)
