"""Builds the router, for the channels and for a gateway that decides calls immediately."""

from __future__ import annotations

from signoff.channels.pipeline.route import Router
from signoff.cli.composition.parts import Parts


def router_of(parts: Parts) -> Router:
    """Return the router for the policies of the settings."""
    settings = parts.settings
    return Router(
        parts.ledger,
        policies=settings.policies,
        fallback=settings.default,
        directory=parts.decisions.directory,
        channels=settings.channel_names,
        owners=settings.owners,
        notifications=settings.notifications.as_told(),
    )
