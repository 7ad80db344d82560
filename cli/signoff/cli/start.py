"""Starts a process with only its own part of the settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from signoff.cli.composition.credentials import drop_foreign_secrets
from signoff.cli.lean import import_lean


def start(kind: str, config: Path | None = None, apps: Sequence[str] = ()) -> int:
    """Run a process until it is told to stop; return the exit code.

    Args:
        kind: ``worker``, ``channels`` or ``gateway``.
        config: The settings file; see `signoff.cli.config.settings.find_file`.
        apps: The agents that a worker runs; all agents if empty.

    Raises:
        SignoffError: It cannot start.
    """
    drop_foreign_secrets(kind)
    import_lean("structlog")
    if kind == "channels":
        import_lean("celery.app.base", "kombu.serialization", "celery.apps.worker")
    from signoff.cli.config.settings import load_settings  # noqa: PLC0415 -- after import_lean

    settings = load_settings(config, kind)
    if kind == "gateway":
        if not settings.rings_in_redis:
            import_lean("celery.app.base", "kombu.serialization")
        from signoff.cli.gateway import run_gateway  # noqa: PLC0415 -- each process imports its own

        return run_gateway(settings)
    if kind == "channels":
        from signoff.cli.channels import run_channels  # noqa: PLC0415

        return run_channels(settings)
    from signoff.cli.worker import run_worker  # noqa: PLC0415

    return run_worker(settings, apps)
