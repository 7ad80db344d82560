"""The folders of agents, without what runs them: sessions and runners take long to import."""

from __future__ import annotations

from pathlib import Path

from signoff.core.base.errors import ConfigError


def app_names(folder: Path) -> list[str]:
    """Return the names of the agent folders, as `adk web` would list them.

    Raises:
        ConfigError: There is no such folder.
    """
    if not folder.is_dir():
        raise ConfigError(
            f"{folder} is not a folder. It holds one folder for each agent, as for `adk web`.",
            key="agents.folder",
        )
    return sorted(
        one.name
        for one in folder.iterdir()
        if one.is_dir()
        and not one.name.startswith((".", "_"))
        and any((one / name).is_file() for name in ("agent.py", "__init__.py", "root_agent.yaml"))
    )
