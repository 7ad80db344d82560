"""What the gateway is put together from: the listeners, and the routes."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from fastapi import FastAPI

from signoff.channels.aap.app import PATH as AAP_PATH
from signoff.channels.aap.app import make_aap
from signoff.channels.aap.notifications import Receivers
from signoff.channels.aap.requests import Requests
from signoff.channels.custom import added_routes
from signoff.channels.email.imap.reader import MailboxReader
from signoff.channels.email.inbound.server import MailServer
from signoff.channels.email.inbound.webhook import make_mail_router
from signoff.channels.gateway import Listener, make_gateway
from signoff.channels.inbox.router import make_inbox_router
from signoff.channels.pipeline.route import Router
from signoff.channels.rest.app import PATH, make_rest
from signoff.cli.composition.monitoring import known
from signoff.cli.composition.parts import Parts
from signoff.cli.composition.slack import slack_inbound

if TYPE_CHECKING:
    from signoff.broker.monitoring.exposition import Metrics
    from signoff.cli.config.settings import Settings


def gateway_router(parts: Parts) -> Router:
    """Return what decides at once in the gateway where the policies ask nobody."""
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


def _serve_aap(app: FastAPI, parts: Parts, router: Router) -> None:
    settings = parts.settings
    requests = Requests(
        parts.decisions,
        router.decide_unasked,
        valid_for=settings.agents.valid_for,
        report_within=settings.aap.report_within,
    )
    receivers = Receivers(allow_private=settings.aap.allow_private)
    rate = settings.gateway.rate
    app.mount(AAP_PATH, make_aap(parts.decisions, requests, receivers, rate=rate))
    app.state.closing.append(requests.waiting.close)


def assemble(
    parts: Parts,
    found: Metrics | None = None,
    *more: Listener,
    router: Router | None = None,
) -> tuple[FastAPI, MailServer | None]:
    """Return the HTTP application, and the mail server that it keeps running, if there is one.

    Args:
        parts: What every process is made of.
        found: The metrics of this process, None where it has none.
        more: What else runs beside the routes.
        router: Decides at once where nobody has to be asked; None for a new one.
    """
    settings = parts.settings
    mail = MailServer(settings.email, parts.ledger) if settings.email.inbound.listen else None
    reader = MailboxReader(settings.email, parts.ledger) if settings.email.imap else None
    slack = slack_inbound(parts)
    listeners = [one for one in (mail, reader) if one is not None]
    app = make_gateway(parts.ledger, [*listeners, *slack.listeners, *more], close=slack.close)
    for added in (*slack.routers, *added_routes(settings.channels, parts.decisions)):
        app.include_router(added)
    app.include_router(make_mail_router(settings.email.webhook, parts.ledger))
    if settings.gateway.api:
        rate = settings.gateway.rate
        app.mount(PATH, make_rest(parts.decisions, partial(_is_app, settings), rate=rate))
    if settings.aap.enabled:
        _serve_aap(app, parts, router or gateway_router(parts))
    if settings.inbox.url:
        app.include_router(make_inbox_router(parts.decisions, settings.inbox))
    if found is not None:
        from signoff.channels.web.scrape import make_metrics_router  # noqa: PLC0415 -- prometheus-client

        token = settings.metrics.token.get_secret_value()
        app.include_router(make_metrics_router(parts.ledger, found, known(settings), token=token))
    return app, mail


def _is_app(settings: Settings, name: str) -> bool:
    """Say whether there is an agent; where the agents are on other machines, anything goes."""
    folder = settings.agents_folder
    return name in settings.agents.remote or not folder.is_dir() or (folder / name).is_dir()
