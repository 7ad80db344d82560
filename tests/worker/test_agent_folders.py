"""Errors of agents that do not load, in a form that helps their authors."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.sessions.in_memory_session_service import InMemorySessionService

from signoff.core.base.errors import AppNotFound
from signoff.worker.adk.apps import Apps
from signoff.worker.agent_folders import load_problem

BROKEN = {
    "syntax": ({"agent.py": "x = 1\ndef x(:\n"}, "agent.py:2: SyntaxError: invalid syntax"),
    "module": (
        {"agent.py": "import no_such_module\n"},
        (
            "agent.py:1: ModuleNotFoundError: No module named 'no_such_module'. Install it into "
            "the environment of the workers: pip install no_such_module"
        ),
    ),
    "value": ({"agent.py": "\n\nraise ValueError('boom')\n"}, "agent.py:3: ValueError: boom"),
    "deeper": (
        {"agent.py": "from .tools import pay\n", "tools.py": "pay = 1\n1 / 0\n"},
        "tools.py:2: ZeroDivisionError: division by zero",
    ),
    "name": (
        {"agent.py": "from .tools import pay\n", "tools.py": ""},
        "agent.py:1: ImportError: cannot import name 'pay'",
    ),
    "exit": ({"agent.py": "raise SystemExit('no key')\n"}, "agent.py:1: SystemExit: no key"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_agent_is_reported_with_file_and_line(name: str, tmp_path: Path) -> None:
    """The line is the last one in the agent's own code; the loader's text is left out."""
    files, expected = BROKEN[name]
    folder = f"broken_{name}"
    (tmp_path / folder).mkdir()
    for file, text in ({"__init__.py": "from . import agent\n"} | files).items():
        (tmp_path / folder / file).write_text(text)
    with pytest.raises(BaseException) as caught:  # noqa: PT011 -- an agent may raise anything
        AgentLoader(str(tmp_path)).load_agent(folder)
    found = load_problem(folder, caught.value, tmp_path)
    assert found.startswith(f"{tmp_path / folder}/{expected}")


@pytest.mark.filterwarnings("ignore:.*EXPERIMENTAL")
@pytest.mark.parametrize(
    ("name", "source", "expected"),
    [
        ("rootless", "", "No root_agent found for 'rootless'. Searched in "),
        ("number", "root_agent = 1", "A 'root_agent' was found for 'number' but it is not a "),
    ],
)
def test_agent_without_a_root_is_reported_in_one_line(
    tmp_path: Path, name: str, source: str, expected: str
) -> None:
    """The loader's long advice is not repeated."""
    (tmp_path / name).mkdir()
    (tmp_path / name / "__init__.py").write_text(source)
    with pytest.raises(ValueError, match="root_agent") as caught:
        AgentLoader(str(tmp_path)).load_agent(name)
    found = load_problem(name, caught.value, tmp_path)
    assert found.startswith(f"ValueError: {expected}")
    assert "\n" not in found
    assert not found.endswith(":")


SOURCE = "from google.adk.agents.llm_agent import LlmAgent\nroot_agent = LlmAgent(name='{}')\n"


def apps_of(folder: Path, agents: dict[str, str]) -> Apps:
    """Return the apps of a folder with these agents, each with its module's source."""
    for name, source in agents.items():
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").write_text("from . import agent\n")
        (folder / name / "agent.py").write_text(source)
    return Apps(folder, InMemorySessionService(), lambda: BasePlugin(name="none"))


def test_two_folders_may_have_agents_with_the_same_name(tmp_path: Path) -> None:
    """Each folder has its own agent, in any order of loading."""
    agents = ("shared_early", "shared_late")
    one = apps_of(tmp_path / "one", {name: SOURCE.format("of_one") for name in agents})
    two = apps_of(tmp_path / "two", {name: SOURCE.format("of_two") for name in agents})
    assert one.runner("shared_early").agent.name == "of_one"
    assert two.runner("shared_early").agent.name == "of_two"
    # The second folder has loaded an agent last, and is first on Python's path.
    assert one.runner("shared_late").agent.name == "of_one"


def test_agents_may_import_each_other_and_be_symbolic_links(tmp_path: Path) -> None:
    """An imported agent comes from its own folder, and also loads from there as an agent."""
    source = "from lent.agent import root_agent as other\nroot_agent = other.clone()\n"
    for folder in ("lender", "tenant"):
        agents = {"borrowing": source, "lent": SOURCE.format(f"of_{folder}")}
        apps_of(tmp_path / "real" / folder, agents)
        (tmp_path / folder).mkdir()
        for name in agents:
            (tmp_path / folder / name).symlink_to(tmp_path / "real" / folder / name)
        apps = apps_of(tmp_path / folder, {})
        for name in agents:
            assert apps.runner(name).agent.name == f"of_{folder}"


def test_agent_named_like_a_python_module_is_refused(tmp_path: Path) -> None:
    """ADK would find Python's module instead."""
    with pytest.raises(AppNotFound, match="another Python module is called 'json'"):
        apps_of(tmp_path, {"json": SOURCE.format("json")}).runner("json")


def test_an_agent_that_exits_ends_no_worker(tmp_path: Path) -> None:
    """It does not load, like any other broken agent."""
    apps = apps_of(tmp_path, {"exiting": "raise SystemExit('no key')\n"})
    with pytest.raises(AppNotFound, match="SystemExit: no key"):
        apps.runner("exiting")
