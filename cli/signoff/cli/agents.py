"""Do the agents load?"""

from __future__ import annotations

from pathlib import Path

from google.adk.cli.utils.agent_loader import AgentLoader

from signoff.worker.adk.apps import app_names


def load_problems(folder: Path) -> dict[str, str]:
    """Load every agent of a folder; return what is wrong with each, "" for nothing.

    Raises:
        ConfigError: There is no such folder.
    """
    loader = AgentLoader(str(folder))
    problems = {}
    for name in app_names(folder):
        try:
            loader.load_agent(name)
        except Exception as error:  # noqa: BLE001 -- the code of an agent may raise anything
            problems[name] = f"{name} does not load: {type(error).__name__}: {error}"
        else:
            problems[name] = ""
    return problems
