"""Serves the Agent Approval Protocol: routes of the gateway, and a stage of the channels."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from signoff.channels.aap.app import PATH, make_aap
from signoff.channels.aap.notifications import Notifier, Receivers
from signoff.channels.aap.requests import Requests
from signoff.channels.gateway import Gateway
from signoff.cli.composition.parts import Parts
from signoff.cli.config.settings import Settings


class ServedAap:
    """The routes of the protocol in the gateway."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        # The router decides immediately if nobody has to be asked.
        self._router = parts.router()

    def renew(self, fresh: Settings) -> None:
        """Use the policies of these settings from now on."""
        self._router.use(fresh.policies, fresh.default)

    def mount(self, app: Gateway) -> None:
        """Add the routes to the gateway."""
        parts, settings = self._parts, self._parts.settings
        requests = Requests(
            parts.decisions,
            self._router.decide_unasked,
            self._router.hides,
            valid_for=settings.agents.valid_for,
            report_within=settings.aap.report_within,
        )
        receivers = Receivers(allow_private=settings.aap.allow_private)
        rate = settings.gateway.rate
        app.mount(PATH, make_aap(parts.decisions, requests, receivers, rate=rate))
        app.state.closing.add(requests.waiting.close)


def notifier(parts: Parts) -> tuple[Receivers, Callable[[], Coroutine[Any, Any, int]]]:
    """Return the connections of the stage `aap`, to be closed at the end, and its drain."""
    receivers = Receivers(allow_private=parts.settings.aap.allow_private)
    return receivers, Notifier(parts.decisions, receivers).drain
