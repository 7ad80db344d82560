"""Without an agent framework, routing works, and errors name the packages to install."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

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

OF_EXTRAS = (
    *("signoff.channels.push.encryption", "signoff.channels.push.sender"),
    *("signoff.testing.model", "signoff.testing.rehearsal"),
)
"""Modules that need an extra, besides those of the worker."""

IMPORT_ALL = f"""
import importlib, pkgutil

for room in ("broker", "channels", "cli", "client", "core", "testing"):
    path = importlib.import_module("signoff." + room).__path__
    for info in pkgutil.walk_packages(path, f"signoff.{{room}}."):
        if info.name not in {OF_EXTRAS} and not info.name.endswith("__main__"):
            importlib.import_module(info.name)
"""


def not_required() -> tuple[str, ...]:
    """Return the installed modules that an installation without extras would not have."""
    brought: set[tuple[str, str]] = set()
    left = [("signoff", "")]
    while left:
        name, extra = left.pop()
        if (name, extra) in brought:
            continue
        brought.add((name, extra))
        try:
            lines = requires(name) or ()
        except PackageNotFoundError:  # for another system or Python
            continue
        for one in map(Requirement, lines):
            if one.marker is None or one.marker.evaluate({"extra": extra}):
                left += [(canonicalize_name(one.name), wanted) for wanted in ("", *one.extras)]
    names = {name for name, _ in brought}
    return tuple(
        module
        for module, distributions in packages_distributions().items()
        if names.isdisjoint(map(canonicalize_name, distributions))
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


def test_all_modules_but_the_worker_import_without_any_extra(tmp_path: Path) -> None:
    """Core, broker, channels, gateway and command line need only what the wheel requires."""
    code, said = run(IMPORT_ALL, tmp_path, without=not_required())
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
        *("signoff.cli.worker", "signoff.cli.composition.runtimes", "signoff.worker.executor"),
        *(f"{frameworks}.{one}" for one in ("pydantic_ai", "openai_agents", "langgraph")),
    )
    code, said = run(f"import {', '.join(modules)}", tmp_path, without=("google",))
    assert code == 0, said
