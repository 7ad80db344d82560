"""Opens ADK's sessions, for the workers and for a gateway that serves ADK's API."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from signoff.cli.composition.parts import Parts

if TYPE_CHECKING:
    from google.adk.sessions.base_session_service import BaseSessionService

log = structlog.get_logger(__name__)


def open_sessions(parts: Parts) -> BaseSessionService:
    """Return the session service of the settings; use and log the last release's file if it exists.

    A process of the last release may run at the same time, and it finds its sessions only there.

    Raises:
        ConfigError: ADK does not take the URL of the sessions.
    """
    from signoff.worker.adk.apps import session_service  # noqa: PLC0415 -- the agent framework

    settings = parts.settings
    if settings.older_sessions is not None:
        log.warning(
            "sessions.in_file",
            file=str(settings.older_sessions),
            problem="The last release kept ADK's sessions in this file by default, so they stay "
            "there. `signoff sessions move` moves them into Redis, the default of this release.",
        )
    return session_service(settings.sessions_url, settings.agents_folder, parts.ledger.store)
