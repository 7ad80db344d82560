"""docs/how-to/test-your-agents.md, run by pytest as its readers do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import structlog
from google.adk.models.llm_request import LlmRequest
from google.genai import types

from signoff.cli.config.settings import load_settings
from signoff.core.base.errors import AppNotFound, DecisionRefused
from signoff.testing import Rehearsal, ScriptedModel, ToolCall
from worker.frameworks.script import paying, plan

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "test-your-agents.md"


@pytest.mark.soak
def test_the_page_passes_in_a_folder_that_init_wrote(tmp_path: Path) -> None:
    """The page's code, in its order, is a file of tests, and all of them pass."""
    shutil.copy(ROOT / "examples" / "start" / "signoff.toml", tmp_path)
    shutil.copytree(ROOT / "examples" / "agents" / "finance", tmp_path / "agents" / "finance")
    code = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (tmp_path / "test_approvals.py").write_text("\n\n".join(code), "utf-8")
    kept = {name: one for name, one in os.environ.items() if not name.startswith("SIGNOFF_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env=kept | {"GOOGLE_API_KEY": "", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout


HOLDING = """\
[agents]
folder = "{folder}"
[[people]]
id = "mara"
email = "mara@example.com"
[[policies]]
name = "payments"
when = 'tool == "pay"'
ask = ["mara"]
hold = "siblings"
"""


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL.*:UserWarning")
async def test_rehearsal_holds_the_calls_beside_a_gated_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If one call of a step needs approval, the others wait for it as well."""
    journal = tmp_path / "journal.jsonl"
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(journal))
    file = tmp_path / "signoff.toml"
    file.write_text(HOLDING.format(folder=ROOT / "tests" / "worker" / "agents"))
    async with Rehearsal(load_settings(file)) as office:
        run = await office.submit("siblings", "pay both", user="riley@example.com")
        cards = await office.cards(run)
        for card in cards:
            assert not run.text
            run = await office.approve(card)
    assert len(cards) == 2
    assert '"status": "held"' in run.text
    assert '{"found": "C"}' in run.text


async def test_a_scripted_model_speaks_before_a_call() -> None:
    """Text and calls of one reply are parts of one message, in order."""
    model = ScriptedModel(script=lambda _: ["It is urgent.", ToolCall("pay", {"amount": 5})])
    request = LlmRequest(contents=[types.Content(role="user", parts=[types.Part(text="Pay")])])
    (response,) = [one async for one in model.generate_content_async(request)]
    assert response.content is not None
    words, call = response.content.parts or []
    assert words.text == "It is urgent."
    assert call.function_call is not None
    assert (call.function_call.name, call.function_call.args) == ("pay", {"amount": 5})


OFFICE = """\
[agents]
folder = "{folder}"
[[people]]
id = "mara"
email = "mara@example.com"
[[people]]
id = "nora"
email = "nora@example.com"
[default]
ask = ["mara"]
"""


def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, **more: Any) -> Rehearsal:
    """Return a rehearsal of the agents of all frameworks."""
    monkeypatch.setenv("SIGNOFF_EXAMPLE_JOURNAL", str(tmp_path / "journal.jsonl"))
    file = tmp_path / "signoff.toml"
    agents = ROOT / "tests" / "worker" / "frameworks" / "agents"
    file.write_text(OFFICE.format(folder=agents))
    return Rehearsal(load_settings(file), **more)


@pytest.mark.parametrize(
    ("app", "package"),
    [
        ("adk_office", "google.adk"),
        ("pydantic_office", "pydantic_ai"),
        ("openai_office", "agents"),
        ("langchain_office", "langchain"),
    ],
)
async def test_rehearsal_runs_agents_of_each_framework(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str, package: str
) -> None:
    """They run as in a worker: an approved call runs, a rejected one does not."""
    pytest.importorskip(package)
    async with office(tmp_path, monkeypatch) as rehearsal:
        run = await rehearsal.submit(app, plan(paying("anna", "ben")), user="nora")
        anna, ben = await rehearsal.cards(run)
        assert (anna.card.tool, run.state) == ("pay", "paused")
        await rehearsal.approve(anna)
        run = await rehearsal.reject(ben, reason="over budget")
    assert run.state == "completed", run.problem
    assert "over budget" in run.text
    assert '"anna"' in run.text.replace("\\", "")
    assert '"ben"' not in run.text.replace("\\", "")


async def test_an_unknown_agent_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error names the agents that there are."""
    async with office(tmp_path, monkeypatch) as rehearsal:
        with pytest.raises(AppNotFound, match="adk_office"):
            await rehearsal.submit("nobody", "hello", user="nora")


async def test_rehearsal_answers_as_any_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A person who was not asked is refused, as in every channel."""
    async with office(tmp_path, monkeypatch) as rehearsal:
        run = await rehearsal.submit("adk_office", plan(paying("anna")), user="nora")
        (card,) = await rehearsal.cards(run)
        for answer in (rehearsal.approve, rehearsal.reject):
            with pytest.raises(DecisionRefused):
                await answer(card, by="nora")
            with pytest.raises(LookupError, match="zoe"):
                await answer(card, by="zoe")
        assert await rehearsal.state(run) == ["pending"]


async def test_rehearsal_starts_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies depend on weekdays and hours."""
    start = datetime(2026, 11, 20, 17, 30, tzinfo=UTC)
    async with office(tmp_path, monkeypatch, start=start) as rehearsal:
        run = await rehearsal.submit("adk_office", plan(paying("anna")), user="nora")
        (card,) = await rehearsal.cards(run)
    assert rehearsal.clock.now() == start
    assert card.card.deadline == start + timedelta(days=1)


async def test_errors_of_agents_are_logged_without_the_locals_of_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The default of structlog prints them, which takes minutes for the frames of an agent."""
    before = structlog.get_config()
    structlog.reset_defaults()
    try:
        async with office(tmp_path, monkeypatch) as rehearsal:
            run = await rehearsal.submit("adk_office", "no plan", user="nora")
        logged = capsys.readouterr().out
    finally:
        structlog.configure(**before)
    assert run.state == "failed"
    assert "Traceback (most recent call last)" in logged
    assert "locals" not in logged
