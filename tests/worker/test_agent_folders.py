"""Why an agent does not load, as its author needs it."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.adk.cli.utils.agent_loader import AgentLoader

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
def test_an_agent_that_does_not_load_is_told_with_file_and_line(name: str, tmp_path: Path) -> None:
    """The line is the last of the agent's own code; the loader's words around it are left out."""
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
def test_an_agent_without_a_root_is_told_in_one_line(tmp_path: Path) -> None:
    """The loader's page of advice is not repeated."""
    (tmp_path / "rootless").mkdir()
    (tmp_path / "rootless" / "__init__.py").write_text("")
    with pytest.raises(ValueError, match="No root_agent") as caught:
        AgentLoader(str(tmp_path)).load_agent("rootless")
    found = load_problem("rootless", caught.value, tmp_path)
    assert found.startswith("ValueError: No root_agent found for 'rootless'")
    assert "\n" not in found
