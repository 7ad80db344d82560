"""Do the agents load, and will all of their gates reach somebody?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from signoff.cli.doctor.loading import Problem
from signoff.core.base.errors import AppNotFound
from signoff.worker.agent_folders import app_names, load_problem
from signoff.worker.frameworks.loading import ADK, Agents, framework_of


def of_adk(folder: Path) -> list[str]:
    """Return the names of the agents that are ADK's.

    Raises:
        ConfigError: There is no such folder.
    """
    return [name for name in app_names(folder) if framework_of(folder, name) == ADK]


def load_problems(folder: Path, code: dict[str, Any]) -> dict[str, list[Problem]]:
    """Load every agent of a folder; return what is wrong with each.

    Args:
        folder: The folder.
        code: What code of CX Agent Studio may do, as JSON.

    Raises:
        ConfigError: There is no such folder.
    """
    adks = of_adk(folder)
    problems = _adk_problems(folder, code, adks) if adks else {}
    others = Agents(folder)
    for name in app_names(folder):
        if name not in adks:
            problems[name] = []
            try:
                others.load(name)
            except AppNotFound as error:
                problems[name] = [Problem(str(error), broken=True)]
    return problems


def _adk_problems(folder: Path, code: dict[str, Any], names: list[str]) -> dict[str, list[Problem]]:
    from google.adk.cli.utils.agent_loader import AgentLoader  # noqa: PLC0415 -- not all need it

    from signoff.worker.adk.inspection import concerns  # noqa: PLC0415
    from signoff.worker.ces import rules  # noqa: PLC0415

    rules.use(rules.Rules.model_validate(code))
    loader = AgentLoader(str(folder))
    problems: dict[str, list[Problem]] = {}
    for name in names:
        try:
            found = concerns(loader.load_agent(name))
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- an agent may raise anything
            why = f"{name} does not load: {load_problem(name, error, folder)}"
            problems[name] = [Problem(why, broken=True)]
        else:
            problems[name] = [Problem(f"{name} loads, but {one}", one.broken) for one in found]
    return problems
