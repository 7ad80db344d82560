"""The gateway process, which serves HTTP and receives mail."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final

import structlog
import uvicorn

from signoff.channels.custom import added_routes
from signoff.channels.email.inbound.webhook import make_mail_router
from signoff.channels.gateway import Gateway, Listener, make_gateway
from signoff.channels.rest import PATH
from signoff.channels.web.lazy import LazyApp
from signoff.cli.composition.http import Protocol, Server, listen
from signoff.cli.composition.monitoring import count, known, traced
from signoff.cli.composition.parts import Parts, build
from signoff.cli.composition.process import announcing, beat_forever, prepare, ready, renewing
from signoff.cli.composition.receipts import private_key
from signoff.cli.composition.reload import Reloader
from signoff.cli.composition.slack import slack_inbound
from signoff.cli.config.settings import Settings

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from signoff.broker.monitoring.exposition import Metrics
    from signoff.channels.email.inbound.server import MailServer

log = structlog.get_logger(__name__)

_FAILED: Final = 1


def run_gateway(settings: Settings) -> int:
    """Serve HTTP and receive mail until told to stop; return the exit code.

    Raises:
        ConfigErrors: The settings have errors.
        ConfigError: A port is taken, or the ADK API cannot be served.
        LedgerUnavailable: Redis cannot be reached.
    """
    prepare(settings, "gateway")
    private_key(settings)
    return asyncio.run(_serve(settings))


async def _serve(settings: Settings) -> int:
    parts = build(settings)
    found = count(settings, "gateway")
    applies, announcer, served = [renewing(parts)], announcing(parts), None
    if settings.aap.enabled:
        from signoff.cli.composition.aap import ServedAap  # noqa: PLC0415 -- few serve it

        served = ServedAap(parts)
        applies.append(served.renew)
    reloader = Reloader(settings, "gateway", *applies)
    app, mail = assemble(parts, found, reloader, current=lambda: reloader.settings)
    if served is not None:
        served.mount(app)
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        host=settings.gateway.host,
        port=settings.gateway.port,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        timeout_graceful_shutdown=10,
    )

    def announce(port: int) -> None:
        more = {} if mail is None else {"inbound": mail.port}
        ready("gateway", port=port, **more)

    server = Server(config, announce)
    server.stop_on_signals()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reloader.ask)
    async with AsyncExitStack() as stack:
        stack.enter_context(traced(settings, "gateway"))
        stack.push_async_callback(parts.ledger.close)
        await parts.ledger.now()
        if settings.gateway.adk:
            from signoff.cli.composition.adk_api import serve_adk  # noqa: PLC0415 -- few serve it

            serve_adk(app, parts, stack, hides=lambda: reloader.settings.all_hidden)
        # Entered here and not by uvicorn, which would log a traceback if starting fails.
        await stack.enter_async_context(app.router.lifespan_context(app))
        beating = asyncio.create_task(beat_forever(parts, "gateway", reloader, announcer))
        stack.callback(beating.cancel)
        listening = stack.enter_context(listen(settings.gateway.host, settings.gateway.port))
        await server.serve(sockets=[listening])
    log.info("stopped", kind="gateway")
    return 0 if server.started else _FAILED


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
