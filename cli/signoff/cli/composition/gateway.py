"""Builds the gateway from its listeners and routes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from signoff.channels.custom import added_routes
from signoff.channels.email.inbound.webhook import make_mail_router
from signoff.channels.gateway import Gateway, Listener, make_gateway
from signoff.channels.rest import PATH
from signoff.channels.web.lazy import LazyApp
from signoff.cli.composition.monitoring import known
from signoff.cli.composition.parts import Parts
from signoff.cli.composition.slack import slack_inbound

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from signoff.broker.monitoring.exposition import Metrics
    from signoff.channels.email.inbound.server import MailServer
    from signoff.cli.config.settings import Settings


def assemble(
    parts: Parts,
    found: Metrics | None = None,
    *more: Listener,
    current: Callable[[], Settings] | None = None,
) -> tuple[Gateway, MailServer | None]:
    """Return the HTTP application, and the mail server that it keeps running, if there is one.

    Args:
        parts: The parts of the process.
        found: The metrics of this process; None if it has none.
        more: More listeners, which run in addition to the routes.
        current: Returns the current settings, if the process reloads them.
    """
    settings = parts.settings
    now = current or (lambda: settings)
    # Each part is imported only if the settings enable it, because most gateways have few.
    mail, listeners = None, list[Listener]()
    if settings.email.inbound.listen:
        from signoff.channels.email.inbound.server import MailServer  # noqa: PLC0415

        mail = MailServer(settings.email, parts.ledger, parts.decisions.directory)
        listeners.append(mail)
    if settings.email.imap:
        from signoff.channels.email.imap.reader import MailboxReader  # noqa: PLC0415

        listeners.append(MailboxReader(settings.email, parts.ledger))
    slack = slack_inbound(parts)
    listeners += [*slack.listeners, *more]
    app = make_gateway(parts.ledger, listeners, close=slack.close)
    for router in (*slack.routers, *added_routes(settings.channels, parts.decisions)):
        app.include_router(router)
    app.include_router(make_mail_router(settings.email.webhook, parts.ledger))
    if settings.gateway.api:
        app.mount(PATH, LazyApp(partial(_rest, parts)))
    if settings.inbox.url:
        from signoff.channels.inbox import router as inbox  # noqa: PLC0415
        from signoff.channels.inbox.settings import ROOT  # noqa: PLC0415

        app.include_router(inbox.make_inbox_router(parts.decisions, settings.inbox))
        app.show_missing(ROOT, inbox.missing)
    if found is not None:
        from signoff.channels.web.scrape import make_metrics_router  # noqa: PLC0415 -- prometheus-client

        token = settings.metrics.token.get_secret_value()
        app.include_router(
            make_metrics_router(
                parts.ledger, found, lambda: known(now()), checks=listeners, token=token
            )
        )
    return app, mail


def _rest(parts: Parts) -> ASGIApp:
    from signoff.channels.rest.app import make_rest  # noqa: PLC0415 -- many gateways serve none

    settings = parts.settings
    return make_rest(parts.decisions, settings.may_have_agent, rate=settings.gateway.rate)
