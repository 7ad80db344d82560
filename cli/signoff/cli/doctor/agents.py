"""Do the agents load, and will all of their gates reach somebody?"""

from __future__ import annotations

from pathlib import Path

from google.adk.cli.utils.agent_loader import AgentLoader

from signoff.cli.doctor.loading import Problem
from signoff.worker.adk.inspection import concerns
from signoff.worker.agent_folders import app_names, load_problem
from signoff.worker.ces import rules
from signoff.worker.ces.rules import Rules


def load_problems(folder: Path, code: Rules) -> dict[str, list[Problem]]:
    """Load every agent of a folder; return what is wrong with each.

    Args:
        folder: The folder.
        code: What code of CX Agent Studio may do.

    Raises:
        ConfigError: There is no such folder.
    """
    rules.use(code)
    loader = AgentLoader(str(folder))
    problems: dict[str, list[Problem]] = {}
    for name in app_names(folder):
        try:
            found = concerns(loader.load_agent(name))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- an agent may raise anything
            why = f"{name} does not load: {load_problem(name, error, folder)}"
            problems[name] = [Problem(why, broken=True)]
        else:
            problems[name] = [Problem(f"{name} loads, but {one}", one.broken) for one in found]
    return problems
