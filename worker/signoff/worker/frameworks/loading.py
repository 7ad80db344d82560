"""Loads agents, and recognises their framework by what their modules export."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Mapping
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dotenv import load_dotenv

from signoff.core.base.errors import AppNotFound
from signoff.worker.agent_folders import load_problem, require_agent

if TYPE_CHECKING:
    # Its module imports the guard, and with it the ledger.
    from signoff.worker.frameworks.adapter import Adapter

ADK: Final = "adk"


class Framework(NamedTuple):
    """A framework.

    Attributes:
        name: The name of its extra.
        package: The package of its agents' classes.
        brings: The distribution that contains the package.
        classes: The names of the classes of agents.
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
"""The names under which a module may export its agent, in the order of the search."""


class NameTaken(ImportError):
    """The folder of an agent has the name of a framework's package, so one hides the other."""


def framework_of(folder: Path, name: str) -> str:
    """Return the framework of an agent: a name of `FRAMEWORKS`, or ``adk``.

    An agent that needs a framework that is not installed counts as an agent of that framework. Any
    other agent that does not load counts as an ADK agent; the runtime of ADK reports the error.
    """
    try:
        found = None if _is_plainly_adk(folder / name) else exported(folder, name)
    except NameTaken:
        return next(one.name for one in FRAMEWORKS if one.package == name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        return next((one.name for one in FRAMEWORKS if one.package == missing), ADK)
    except (Exception, SystemExit):  # noqa: BLE001 -- an agent may raise anything
        return ADK
    return found[0].name if found is not None else ADK


def _is_plainly_adk(folder: Path) -> bool:
    """Return whether the sources of an agent mention only ADK, so that ADK's loader loads it."""
    if (folder / "root_agent.yaml").is_file():
        return True
    files = [one for one in folder.glob("*.py") if one.is_file()]
    texts = [one.read_text(encoding="utf-8", errors="replace") for one in files]
    imports = "|".join(one.package for one in FRAMEWORKS)
    others = re.compile(rf"^\s*(?:from|import)\s+(?:{imports})\b", re.MULTILINE)
    return any("google.adk" in text for text in texts) and not any(map(others.search, texts))


def exported(folder: Path, name: str) -> tuple[Framework, Any] | None:
    """Return the agent that a folder exports, and its framework; None for an ADK agent.

    Raises:
        NameTaken: The folder has the name of a framework's package.
        Exception: Any error that importing it raises.
    """
    if _hides_framework(folder.resolve(), name):
        raise NameTaken(
            f"Python cannot import both the folder {name} and the package {name} that is "
            "installed: give the folder another name"
        )
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    _load_environment(folder / name)
    for module in _modules(folder, name):
        for export in EXPORTS:
            agent = getattr(module, export, None)
            if (framework := _framework(agent)) is not None:
                return framework, agent
    return None


def _hides_framework(folder: Path, name: str) -> bool:
    """Return whether Python can import only one of an agent's folder and a framework's package.

    Python merges folders of the same name into one package if none of them has an `__init__.py`.
    """
    if all(one.package != name for one in FRAMEWORKS):
        return False
    others = [one for one in sys.path if Path(one).resolve() != folder]
    found = PathFinder.find_spec(name, others)
    own = (folder / name / "__init__.py").is_file()
    return found is not None and (own or found.origin is not None)


def _load_environment(folder: Path) -> None:
    """Set the variables of the nearest `.env` at or above an agent's folder, as ADK does.

    Variables that are already set keep their values.
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
    """The agents of a folder that are not ADK's, loaded when they are first needed."""

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
        require_agent(name, self.folder)
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
    """Return what to install if an agent needs a missing framework; "" for any other error."""
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
