"""Loads agents, unmodified, from the folders that `adk web` uses, and creates their runners."""

from __future__ import annotations

import importlib
import sqlite3
import sys
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import structlog
from google.adk.agents.base_agent import BaseAgent
from google.adk.apps.app import App, ResumabilityConfig
from google.adk.artifacts.base_artifact_service import BaseArtifactService
from google.adk.artifacts.in_memory_artifact_service import InMemoryArtifactService
from google.adk.cli.utils.agent_loader import AgentLoader
from google.adk.cli.utils.service_factory import (
    create_artifact_service_from_options,
    create_session_service_from_options,
)
from google.adk.memory.in_memory_memory_service import InMemoryMemoryService
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions.base_session_service import BaseSessionService

from signoff.broker.ledger.store import Store
from signoff.core.base.errors import AppNotFound, ConfigError
from signoff.worker.adk.inspection import concerns, is_resumable
from signoff.worker.adk.sessions.ledger import LedgerSessionService
from signoff.worker.agent_folders import app_names, load_problem, require_agent

log = structlog.get_logger(__name__)

_SQLITE: Final = "sqlite:///"
_REDIS: Final = ("redis://", "rediss://", "unix://")
_POSTGRES: Final = "postgresql"
_A2A: Final = "google.adk.agents.remote_a2a_agent"
_FOLDERS: Final[set[str]] = set()
"""The folders from which this process has imported agents."""


def session_service(url: str, folder: Path, store: Store | None = None) -> BaseSessionService:
    """Return ADK's session service for a URL, as `adk api_server --session_service_uri` does.

    SQLite and Redis use our own services, which support many concurrent runs; PostgreSQL uses our
    own service, which can store every text.

    Args:
        url: The URL; "" for the ledger's Redis.
        folder: The folder of the agents.
        store: The store of the ledger, which the URL "" needs.

    Raises:
        ConfigError: ADK does not take this URL.
    """
    if not url and store is not None:
        return LedgerSessionService(store)
    # Each is imported only when needed: SQLAlchemy alone takes a sixth of a worker's start.
    try:
        if url.startswith(_SQLITE):
            from signoff.worker.adk.sessions.sqlite import (  # noqa: PLC0415
                PatientSqliteSessionService,
            )

            return PatientSqliteSessionService(Path(url.removeprefix(_SQLITE)))
        if url.startswith(_REDIS):
            from signoff.worker.adk.sessions.redis import (  # noqa: PLC0415
                LastingRedisSessionService,
            )

            return LastingRedisSessionService(url)
        if url.startswith(_POSTGRES):
            from signoff.worker.adk.sessions.database import TextSessionService  # noqa: PLC0415

            return TextSessionService(url)
        return create_session_service_from_options(base_dir=folder, session_service_uri=url)
    except (ValueError, ImportError, OSError, RuntimeError, sqlite3.Error) as error:
        scheme, why = url.partition("://")[0], str(error).rstrip(".")
        raise ConfigError(
            f"ADK cannot use {scheme}:// for its sessions: {why}. "
            "Write sqlite:///path, redis://host:port/number, or "
            "postgresql+asyncpg://user:password@host/database (pip install 'signoff[postgres]').",
            key="sessions.url",
        ) from error


def artifact_service(url: str, folder: Path) -> BaseArtifactService:
    """Return ADK's artifact service for a URL, as `adk api_server --artifact_service_uri` does.

    Raises:
        ConfigError: ADK does not take this URL.
    """
    try:
        return create_artifact_service_from_options(
            base_dir=folder, artifact_service_uri=url, strict_uri=True
        )
    except (ValueError, ImportError, OSError) as error:
        raise ConfigError(
            f"ADK cannot use {url} for its artifacts: {error}. Write a folder, or gs://BUCKET "
            "(pip install google-cloud-storage), or memory:// for artifacts that nobody else sees.",
            key="agents.artifacts",
        ) from error


class Apps:
    """Runners by app name, created when they are first needed.

    Args:
        folder: The folder of the agents' folders.
        sessions: Shared by all runners.
        artifacts: Shared by all runners too; by default artifacts in the memory of this process.
        plugin: Creates the plugin that each runner gets in addition to the app's own plugins.
    """

    def __init__(
        self,
        folder: Path,
        sessions: BaseSessionService,
        plugin: Callable[[], BasePlugin],
        artifacts: BaseArtifactService | None = None,
    ) -> None:
        self.folder = folder
        self.sessions = sessions
        self._plugin = plugin
        self._loader = AgentLoader(str(folder))
        self._artifacts = artifacts or InMemoryArtifactService()
        self._memory = InMemoryMemoryService()
        self._runners: dict[str, Runner] = {}
        self._plain: dict[str, Runner] = {}
        _settle_optional_imports()

    def runner(self, name: str) -> Runner:
        """Return the runner of an app.

        Raises:
            AppNotFound: There is no such folder, or the agent in it does not load.
        """
        if name not in self._runners:
            self._runners[name] = self._make(name)
        return self._runners[name]

    def plain_runner(self, name: str) -> Runner:
        """Return a runner that treats an app as not resumable.

        Raises:
            AppNotFound: As `runner`.
        """
        if name not in self._plain:
            usual = self.runner(name)
            app = usual.app or App(name=name, root_agent=usual.agent)
            plain = app.model_copy(update={"resumability_config": None})
            self._plain[name] = self._runner_of(name, plain)
        return self._plain[name]

    def load_all(self, names: Sequence[str]) -> None:
        """Load agents, and log their problems; a broken agent does not stop the others.

        The runs of a broken agent fail with the message that is logged here.
        """
        for name in names:
            try:
                runner = self.runner(name)
                for one in concerns(runner.app or runner.agent):
                    log.warning("agent.concern", app=name, problem=str(one), broken=one.broken)
            except AppNotFound as error:
                log.error("agent.broken", app=name, problem=str(error))  # noqa: TRY400 -- the message says everything

    def _make(self, name: str) -> Runner:
        require_agent(name, self.folder)
        self._claim_module(name)
        try:
            loaded = self._loader.load_agent(name)
        # An agent that exits while it is imported must not end this process.
        except (Exception, SystemExit) as error:
            raise AppNotFound(
                f"The agent {name!r} in {self.folder} does not load: "
                f"{load_problem(name, error, self.folder)}"
            ) from error
        return self._runner_of(name, self._with_plugin(name, loaded))

    def _claim_module(self, name: str) -> None:
        """Make sure that ADK imports the agent of this folder: it imports agents by name alone.

        Raises:
            AppNotFound: Another module has this name.
        """
        folder = self._loader.agents_dir
        for one in app_names(self.folder):
            # Agents import each other, so modules of other folders may be any of them.
            if {str(place.parent) for place in _places(one)} & (_FOLDERS - {folder}):
                self._loader.remove_agent_from_cache(one)
        own = Path(folder, name).resolve()
        if name in sys.modules and own not in {one.resolve() for one in _places(name)}:
            raise AppNotFound(
                f"The agent {name!r} in {self.folder} cannot be imported: another Python module is "
                f"called {name!r}. Rename its folder."
            )
        _FOLDERS.add(folder)
        sys.path[:] = [folder, *(one for one in sys.path if one != folder)]

    def _runner_of(self, name: str, app: App) -> Runner:
        return Runner(
            app=app,
            app_name=name,
            session_service=self.sessions,
            artifact_service=self._artifacts,
            memory_service=self._memory,
        )

    def _with_plugin(self, name: str, loaded: App | BaseAgent) -> App:
        if isinstance(loaded, App):
            # A copy, because we must not change the user's object.
            return loaded.model_copy(update={"plugins": [*loaded.plugins, self._plugin()]})
        return App(
            name=name,
            root_agent=loaded,
            plugins=[self._plugin()],
            resumability_config=_resumable() if is_resumable(loaded) else None,
        )

    async def close(self) -> None:
        """Close the runners and the session service."""
        # The non-resumable runners share agents, and everything to close, with the others.
        for runner in self._runners.values():
            await runner.close()
        close = getattr(self.sessions, "close", None)
        if close is not None:
            await close()


def _places(package: str) -> list[Path]:
    """Return the folders of an imported package."""
    return [Path(one) for one in getattr(sys.modules.get(package), "__path__", ())]


def _settle_optional_imports() -> None:
    """Let ADK's imports of missing packages fail immediately.

    ADK imports the agents of A2A for each node of each turn
    (google.adk.workflow.utils._workflow_graph_utils), and Python retries failed imports: 1.6 ms
    each time. If `sys.modules` has None for a module, its import fails immediately.
    """
    try:
        importlib.import_module(_A2A)
    except ImportError:
        sys.modules[_A2A] = None  # type: ignore[assignment] # documented by Python


def _resumable() -> ResumabilityConfig:
    """Return the setting that lets ADK write checkpoints, without the warning that it is new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ResumabilityConfig(is_resumable=True)


def open_apps(
    folder: Path, sessions: BaseSessionService, artifacts: str, plugin: Callable[[], BasePlugin]
) -> Apps:
    """Return the apps of a folder, with their sessions, and the artifacts of a URL.

    Raises:
        ConfigError: ADK does not take the URL.
    """
    return Apps(folder, sessions, plugin, artifact_service(artifacts, folder))
