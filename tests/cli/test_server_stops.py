"""When the HTTP server stops, it closes open streams without waiting for them."""

import asyncio
import re
import signal
from pathlib import Path
from urllib.parse import urlsplit

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from signoff.channels.web.closing import Closing
from signoff.cli.composition.http import Protocol, Server
from signoff.cli.composition.supervisor import Supervisor


async def test_stream_started_during_shutdown_is_closed() -> None:
    """A request that starts its stream during the stop gets it closed too."""
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    under_way, stops, ended = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def late(request: Request) -> PlainTextResponse:
        under_way.set()
        await stops.wait()
        request.app.state.closing.add(ended.set)
        await ended.wait()
        return PlainTextResponse("ended")

    app = Starlette(routes=[Route("/", late)])
    app.state.closing = Closing()
    app.state.closing.add(stops.set)
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", http=Protocol)
    server = Server(config, port.set_result)
    async with asyncio.timeout(60):
        serving = asyncio.create_task(server._serve())
        reader, writer = await asyncio.open_connection("127.0.0.1", await port)
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await under_way.wait()
        server.should_exit = True
        answer = await reader.read()
        await serving
        writer.close()
        await writer.wait_closed()
    assert answer.endswith(b"ended")


async def test_gateway_stopped_during_startup_does_not_serve(
    settings_file: Path, redis_url: str
) -> None:
    """The signal arrives while the gateway waits for Redis, and counts when Redis answers."""
    parts = urlsplit(redis_url)
    asked: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    answers, copying = asyncio.Event(), list[asyncio.Task[None]]()

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            if not asked.done():
                asked.set_result(None)
            await answers.wait()
            writer.write(data)
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_redis = await asyncio.open_connection(parts.hostname, parts.port)
        copying.append(asyncio.create_task(copy(to_redis[0], writer)))
        await copy(reader, to_redis[1])

    async with asyncio.timeout(120), await asyncio.start_server(connected, "127.0.0.1") as redis:
        port = redis.sockets[0].getsockname()[1]
        url = parts._replace(netloc=re.sub(r":\d+$", f":{port}", parts.netloc)).geturl()
        text = await asyncio.to_thread(settings_file.read_text)
        await asyncio.to_thread(settings_file.write_text, text.replace(redis_url, url))
        async with Supervisor() as supervisor:
            gateway = await supervisor.signoff("gateway", "--config", str(settings_file), "gateway")
            await asked
            gateway.signal(signal.SIGTERM)
            answers.set()
            await gateway.ended.wait()
            assert gateway.code == 0, "\n".join(gateway.tail)
        for one in copying:
            one.cancel()
