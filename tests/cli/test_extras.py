"""Without an agent framework, routing works, and errors name the packages to install."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""
OTHERS = ("agents", "langchain", "langgraph", "openai", "pydantic_ai")
AGENTS = ("google", "pydantic_monty", "asyncpg", *OTHERS)

WITHOUT_AGENTS = (
    *("signoff.cli.main", "signoff.cli.composition.gateway", "signoff.cli.composition.slack"),
    *("signoff.cli.doctor.diagnosis", "signoff.channels.tasks", "signoff.channels.rest.app"),
    *("signoff.client", "signoff.testing"),
)


def run(code: str, folder: Path, *, without: tuple[str, ...] = AGENTS) -> tuple[int, str]:
    """Run code in a process without some packages; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(names=set(without)) + code],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_all_modules_but_the_worker_import_without_an_agent_framework(tmp_path: Path) -> None:
    """Core, broker, channels, gateway and command line import without it."""
    code, said = run(f"import {', '.join(WITHOUT_AGENTS)}", tmp_path)
    assert code == 0, said


def test_worker_without_a_framework_names_the_install_command(tmp_path: Path) -> None:
    """A worker without the framework prints one line."""
    (tmp_path / "agents" / "one").mkdir(parents=True)
    (tmp_path / "agents" / "one" / "agent.py").write_text("")
    code, said = run(
        "sys.argv = ['signoff', 'worker']\nfrom signoff.cli.entry import main\nmain()", tmp_path
    )
    assert code == 1
    assert "pip install 'signoff[adk]'" in said
    assert "Traceback" not in said


@pytest.mark.soak
def test_agents_run_without_the_sandbox(tmp_path: Path) -> None:
    """An agent without CX Agent Studio code needs no package of the sandbox."""
    code, said = run(
        "import signoff.worker.adk.runtime, signoff.worker.adk.guard.guard",
        tmp_path,
        without=("pydantic_monty",),
    )
    assert code == 0, said


@pytest.mark.soak
def test_agents_of_other_frameworks_run_without_adk(tmp_path: Path) -> None:
    """A worker with agents of other frameworks does not need google-adk."""
    frameworks = "signoff.worker.frameworks"
    modules = (
        *("signoff.cli.processes", "signoff.cli.composition.runtimes", "signoff.worker.executor"),
        *(f"{frameworks}.{one}" for one in ("pydantic_ai", "openai_agents", "langgraph")),
    )
    code, said = run(f"import {', '.join(modules)}", tmp_path, without=("google",))
    assert code == 0, said
