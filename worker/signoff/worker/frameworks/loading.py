"""Finds out which framework an agent is one of, by what its module exports."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

from dotenv import load_dotenv

from signoff.core.base.errors import AppNotFound
from signoff.worker.agent_folders import app_names, load_problem
from signoff.worker.frameworks.adapter import Adapter

ADK: Final = "adk"


class Framework(NamedTuple):
    """A framework.

    Attributes:
        name: As its extra is called.
        package: The package that its agents are of.
        brings: The distribution that has it.
        classes: The classes of agents, by their names.
    """

    name: str
    package: str
    brings: str
    classes: frozenset[str]


FRAMEWORKS: Final = (
    Framework("pydantic-ai", "pydantic_ai", "pydantic-ai-slim", frozenset({"AbstractAgent"})),
    Framework("langgraph", "langgraph", "langgraph", frozenset({"Pregel", "StateGraph"})),
    Framework("langgraph", "langchain", "langchain", frozenset()),
    Framework("openai-agents", "agents", "openai-agents", frozenset({"AgentBase"})),
)

EXPORTS: Final = ("root_agent", "agent", "app", "graph")
"""The names under which a module exports its agent, in the order in which they are looked for."""


def framework_of(folder: Path, name: str) -> str:
    """Return which framework an agent is one of: a name of `FRAMEWORKS`, or ``adk``.

    An agent that does not load is taken for one of ADK, whose runtime says why; but one that needs
    another framework, which is not installed, for one of that.
    """
    if _is_plainly_adk(folder / name):
        return ADK
    try:
        found = exported(folder, name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        return next((one.name for one in FRAMEWORKS if one.package == missing), ADK)
    except (Exception, SystemExit):  # noqa: BLE001 -- an agent may raise anything
        return ADK
    return found[0].name if found is not None else ADK


def _is_plainly_adk(folder: Path) -> bool:
    """Whether the sources of an agent speak of ADK alone: it is left to ADK's loader."""
    if (folder / "root_agent.yaml").is_file():
        return True
    texts = [one.read_text(encoding="utf-8", errors="replace") for one in folder.glob("*.py")]
    imports = "|".join(one.package for one in FRAMEWORKS)
    others = re.compile(rf"^\s*(?:from|import)\s+(?:{imports})\b", re.MULTILINE)
    return any("google.adk" in text for text in texts) and not any(map(others.search, texts))


def exported(folder: Path, name: str) -> tuple[Framework, Any] | None:
    """Return the agent that a folder exports, and its framework; None where it is one of ADK.

    Raises:
        Exception: Whatever importing it raises.
    """
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    _load_environment(folder / name)
    for module in _modules(folder, name):
        for export in EXPORTS:
            agent = getattr(module, export, None)
            if (framework := _framework(agent)) is not None:
                return framework, agent
    return None


def _load_environment(folder: Path) -> None:
    """Set the variables of the nearest `.env` at or above an agent's folder, as ADK does.

    What is set already stays as it is.
    """
    for place in (folder.resolve(), *folder.resolve().parents):
        if (place / ".env").is_file():
            load_dotenv(place / ".env")
            return


def _modules(folder: Path, name: str) -> list[ModuleType]:
    """Import a folder, and the module in it, as ADK's loader does."""
    modules = []
    if (folder / name / "__init__.py").is_file():
        modules.append(importlib.import_module(name))
    if (folder / name / "agent.py").is_file():
        modules.append(importlib.import_module(f"{name}.agent"))
    return modules


def _framework(agent: object) -> Framework | None:
    """Return the framework whose class an object is of, without importing one."""
    for kind in type(agent).__mro__:
        package = kind.__module__.partition(".")[0]
        for one in FRAMEWORKS:
            if package == one.package and kind.__name__ in one.classes:
                return one
    return None


class Agents:
    """The agents of a folder that are not ADK's, loaded when they are first needed.

    Args:
        folder: The folder of the agents' folders.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: dict[str, tuple[Any, Adapter]] = {}

    def load(self, name: str) -> tuple[Any, Adapter]:
        """Return an agent, and the adapter of its framework.

        Raises:
            AppNotFound: There is no such folder, the agent in it does not load, or its framework is
                not installed.
        """
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def _load(self, name: str) -> tuple[Any, Adapter]:
        if name not in app_names(self.folder):
            raise AppNotFound(
                f"There is no agent {name!r} in {self.folder}. "
                f"There are: {', '.join(app_names(self.folder)) or 'none'}."
            )
        try:
            found = exported(self.folder, name)
            adapter = _adapter(found[0].name) if found is not None else None
        except Exception as error:
            raise AppNotFound(
                f"The agent {name!r} in {self.folder} does not load: "
                f"{install_hint(error) or load_problem(name, error, self.folder)}"
            ) from error
        if found is None or adapter is None:
            raise AppNotFound(
                f"The agent {name!r} in {self.folder} exports no agent as any of "
                f"{', '.join(EXPORTS)}."
            )
        return found[1], adapter


def install_hint(error: BaseException) -> str:
    """Return what to install where an agent needs a framework that is not there, "" elsewhere."""
    missing = (getattr(error, "name", None) or "").partition(".")[0]
    for one in FRAMEWORKS:
        if isinstance(error, ModuleNotFoundError) and one.package == missing:
            return f"{one.brings} is not installed: pip install 'signoff[{one.name}]'"
    return ""


_ADAPTERS: Final[Mapping[str, tuple[str, str]]] = {
    "pydantic-ai": ("signoff.worker.frameworks.pydantic_ai", "PydanticAiAdapter"),
    "langgraph": ("signoff.worker.frameworks.langgraph", "LangGraphAdapter"),
    "openai-agents": ("signoff.worker.frameworks.openai_agents", "OpenAiAgentsAdapter"),
}


def _adapter(name: str) -> Adapter:
    module, kind = _ADAPTERS[name]
    adapter: Adapter = getattr(importlib.import_module(module), kind)()
    return adapter
