"""Agents are found by their modules' exports, and missing packages are named."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from services import missing
from signoff.broker.server.embedded import EmbeddedRedis
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import AppNotFound
from signoff.worker.frameworks.loading import ADK, FRAMEWORKS, Agents, framework_of
from worker.frameworks.test_contract import AGENTS, OTHERS, machine
from worker.office import EXAMPLES, ROOT

SUPPORT = ROOT / "examples" / "frameworks"
NAMES = {
    "openai_support": "agents",
    "pydantic_support": "pydantic_ai",
    "langgraph_support": "langchain",
}


def agent(folder: Path, name: str, code: str) -> None:
    """Write an agent."""
    (folder / name).mkdir()
    (folder / name / "agent.py").write_text(code)


@pytest.mark.parametrize("name", ["finance", "finance_strict", "refunds", "time_off"])
def test_the_agents_of_adk_stay_adks(name: str) -> None:
    """An agent that only uses ADK goes to ADK's own loader, and is not imported before."""
    assert framework_of(EXAMPLES, name) == ADK


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_framework_that_is_not_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, framework: tuple[str, str, str, object]
) -> None:
    """The error names the package to install."""
    name, package, brings, _ = framework
    monkeypatch.setitem(sys.modules, package, None)
    app = f"needs_{package}"
    agent(tmp_path, app, f"from {package} import Agent\n\nagent = Agent()\n")
    assert framework_of(tmp_path, app) == name
    with pytest.raises(AppNotFound, match=rf"{brings} is not installed.*signoff\[{name}\]"):
        Agents(tmp_path).load(app)


@pytest.mark.parametrize("own", [True, False], ids=["with __init__.py", "without"])
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_a_folder_with_the_name_of_its_framework(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    framework: tuple[str, str, str, object],
    own: bool,
) -> None:
    """The error names the conflict; folders that Python merges into one package load."""
    name, package, _, _ = framework
    site = tmp_path / "site"
    (site / package).mkdir(parents=True)
    joins = package == "langgraph" and not own  # its top folder has no __init__.py
    if package != "langgraph":
        (site / package / "__init__.py").touch()
    monkeypatch.setattr(sys, "path", [str(site)])
    monkeypatch.delitem(sys.modules, package, raising=False)
    monkeypatch.delitem(sys.modules, f"{package}.agent", raising=False)
    folder = tmp_path / "folder"
    folder.mkdir()
    agent(folder, package, "agents = []\n")
    if own:
        (folder / package / "__init__.py").touch()
    assert framework_of(folder, package) == (ADK if joins else name)
    words = "exports no agent" if joins else f"package {package} that is installed: give the folder"
    with pytest.raises(AppNotFound, match=words):
        Agents(folder).load(package)


def test_a_module_without_an_agent(tmp_path: Path) -> None:
    """The error names the possible exports."""
    agent(tmp_path, "empty_office", "agents = []\n")
    assert framework_of(tmp_path, "empty_office") == ADK
    with pytest.raises(AppNotFound, match="root_agent, agent, app, graph"):
        Agents(tmp_path).load("empty_office")


def test_an_agent_that_raises(tmp_path: Path) -> None:
    """The error has the file and the line."""
    agent(tmp_path, "broken_office", "import pydantic\n\nraise RuntimeError('no key')\n")
    with pytest.raises(AppNotFound, match=r"agent.py:3: RuntimeError: no key"):
        Agents(tmp_path).load("broken_office")


def test_a_file_that_cannot_be_read_stops_no_worker(tmp_path: Path) -> None:
    """An editor's lock file is a dangling link with a module's name."""
    agent(tmp_path, "edited_office", "from google.adk.agents import Agent\n")
    (tmp_path / "edited_office" / ".#agent.py").symlink_to("nora@desk.1234")
    (tmp_path / "edited_office" / "old.py").mkdir()
    assert framework_of(tmp_path, "edited_office") == ADK


def test_agent_env_file_is_read_before_the_agent_loads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `.env` is read first, as in ADK; existing variables stay."""
    monkeypatch.setenv("SIGNOFF_TEST_SET", "before")
    monkeypatch.delenv("SIGNOFF_TEST_UNSET", raising=False)
    agent(
        tmp_path, "env_office", "import os\n\nraise RuntimeError(os.environ['SIGNOFF_TEST_UNSET'])"
    )
    (tmp_path / "env_office" / ".env").write_text("SIGNOFF_TEST_UNSET=x\nSIGNOFF_TEST_SET=y\n")
    with pytest.raises(AppNotFound, match="RuntimeError: x"):
        Agents(tmp_path).load("env_office")
    os.environ.pop("SIGNOFF_TEST_UNSET", None)


@pytest.mark.soak
@pytest.mark.parametrize("app", OTHERS)
def test_each_framework_is_known(app: str) -> None:
    """The contract's agents belong to their frameworks."""
    if find_spec(OTHERS[app]) is None:
        missing(OTHERS[app], "make .venv/.dev")
    assert framework_of(AGENTS, app) == app.partition("_")[0].replace(
        "pydantic", "pydantic-ai"
    ).replace("openai", "openai-agents").replace("langchain", "langgraph")


@pytest.mark.soak
@pytest.mark.parametrize("app", NAMES)
async def test_the_examples_play_a_script_without_a_key(
    worker_redis: EmbeddedRedis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, app: str
) -> None:
    """Each asks before it refunds, and reports the result."""
    if find_spec(NAMES[app]) is None:
        missing(NAMES[app], "make .venv/.dev")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
    async with machine(worker_redis.url, tmp_path / "journal.jsonl", SUPPORT) as here:
        await here.ledger.store.client.flushall()
        run = await here.done(app, "Refund 49.50 for order A-17.")
    assert run.state is RunState.COMPLETED, run.problem
    assert run.text == "This is what I heard: refunded 49.50 for A-17"
