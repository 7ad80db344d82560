"""The gateway process, which serves HTTP and receives mail."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import Final

import structlog
import uvicorn

from signoff.cli.composition.gateway import assemble
from signoff.cli.composition.http import Protocol, Server, listen
from signoff.cli.composition.monitoring import count, traced
from signoff.cli.composition.parts import build
from signoff.cli.composition.process import announcing, beat_forever, prepare, ready, renewing
from signoff.cli.composition.receipts import private_key
from signoff.cli.composition.reload import Reloader
from signoff.cli.config.settings import Settings

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
