"""The process that loads agents, and reports the problems of each.

Started as ``python -m signoff.cli.doctor.agents`` by `loading.py`.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from signoff.cli.doctor.loading import Loaded, Problem
from signoff.core.base.errors import AppNotFound
from signoff.worker.agent_folders import app_names, load_problem
from signoff.worker.frameworks.loading import ADK, Agents, framework_of


def of_adk(folder: Path) -> list[str]:
    """Return the names of the ADK agents.

    Raises:
        ConfigError: There is no such folder.
    """
    return [name for name in app_names(folder) if framework_of(folder, name) == ADK]


def load_all(folder: Path, code: dict[str, Any]) -> dict[str, Loaded]:
    """Load every agent of a folder, with [ces] as JSON; return what is known of each.

    Raises:
        ConfigError: There is no such folder.
    """
    adks = of_adk(folder)
    loaded = _load_adk(folder, code, adks) if adks else {}
    others = Agents(folder)
    for name in app_names(folder):
        if name not in adks:
            loaded[name] = Loaded([])
            try:
                others.load(name)
            except AppNotFound as error:
                loaded[name] = Loaded([Problem(str(error), broken=True)])
    return loaded


def _load_adk(folder: Path, code: dict[str, Any], names: list[str]) -> dict[str, Loaded]:
    from google.adk.cli.utils.agent_loader import AgentLoader  # noqa: PLC0415 -- only ADK agents need it

    from signoff.worker.adk.declared import declared_tools  # noqa: PLC0415
    from signoff.worker.adk.inspection import concerns  # noqa: PLC0415
    from signoff.worker.ces import rules  # noqa: PLC0415

    rules.use(rules.Rules.model_validate(code))
    loader = AgentLoader(str(folder))
    loaded: dict[str, Loaded] = {}
    for name in names:
        try:
            agent = loader.load_agent(name)
            found = concerns(agent)
        except (Exception, SystemExit) as error:  # noqa: BLE001 -- an agent may raise anything
            why = f"{name} does not load: {load_problem(name, error, folder)}"
            loaded[name] = Loaded([Problem(why, broken=True)])
        else:
            problems = [Problem(f"{name} loads, but {one}", one.broken) for one in found]
            tools = None
            with suppress(Exception):  # A tool may raise anything; what it declares is not needed.
                tools = declared_tools(agent)
            loaded[name] = Loaded(problems, tools)
    return loaded


def main() -> None:
    """Answer one request from standard input."""
    # Ctrl-C reaches this process too; `signoff doctor` itself reports it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    # The process ends after its answer, so collecting garbage would only take time.
    gc.disable()
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answer:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        remedy = _import_adk()
        if request := sys.stdin.read():
            folder, code = json.loads(request)
            if remedy and of_adk(Path(folder)):
                json.dump(f"{remedy}; workers need it", answer)
            else:
                json.dump(load_all(Path(folder), code), answer)


def _import_adk() -> str:
    """Import ADK while the parent reads the settings; return a remedy if it is not installed."""
    try:
        importlib.import_module("signoff.worker.adk.inspection")
        importlib.import_module("signoff.worker.ces.rules")
    except ModuleNotFoundError as error:
        from signoff.cli.boundary import install_hint  # noqa: PLC0415 -- only this branch needs typer

        if (remedy := install_hint(error)) is None:
            raise
        return remedy
    return ""


if __name__ == "__main__":
    main()
