"""A real nginx in front of the gateway, on the same machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request

from deciding import Desk
from services import missing
from signoff.broker.server.embedded import free_port
from signoff.worker.adk_api.callers import Gate
from signoff.worker.adk_api.problems import Problem

CONFIG = """
daemon off;
{user}
pid {folder}/pid;
error_log {folder}/log;
events {{ }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{behind}; {more} }}
  }}
}}
"""


@contextlib.asynccontextmanager
async def served(desk: Desk) -> AsyncIterator[int]:
    """Serve a page to those who need no token, and yield the port."""
    app, gate = FastAPI(), Gate((), desk, local=True)

    @app.get("/")
    async def page(request: Request) -> str:
        try:
            return (await gate.admit(request)).name
        except Problem as problem:
            return problem.detail

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = uvicorn.Server(uvicorn.Config(app, log_config=None))
        serving = asyncio.create_task(server.serve(sockets=[listening]))
        try:
            yield listening.getsockname()[1]
        finally:
            server.should_exit = True
            await serving


@contextlib.asynccontextmanager
async def nginx(folder: Path, behind: int, *, user: str, more: str) -> AsyncIterator[int]:
    """Run an nginx that hands everything on to a port, and yield its own."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if program is None:
        missing("nginx", "apt-get install nginx")
    port = free_port()
    # Only root can give its workers another user.
    user = f"user {user};" if os.geteuid() == 0 else ""
    text = CONFIG.format(folder=folder, port=port, behind=behind, user=user, more=more)
    (folder / "nginx.conf").write_text(text)
    command = [program, "-e", str(folder / "log"), "-c", str(folder / "nginx.conf")]
    process = await asyncio.create_subprocess_exec(*command, cwd=folder)
    try:
        while True:
            assert process.returncode is None, (folder / "log").read_text()
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            await asyncio.sleep(0.01)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


@pytest.mark.parametrize(
    ("user", "more", "why"),
    [
        ("root root", "", "forwarded"),
        ("www-data www-data", "proxy_http_version 1.1;", "another user"),
        ("root root", "proxy_http_version 1.1; proxy_set_header Via nginx;", "forwarded"),
        ("root root", "proxy_http_version 1.1; proxy_set_header Host $host;", "Host"),
    ],
)
async def test_what_nginx_hands_on_is_not_from_this_machine(
    desk: Desk, tmp_path: Path, user: str, more: str, why: str
) -> None:
    """Its default adds no header and writes its own address into Host; without it one comes in."""
    if "www-data" in user and os.geteuid() != 0:
        pytest.skip("only root can give nginx another user")
    async with served(desk) as behind, httpx.AsyncClient() as http:
        assert (await http.get(f"http://127.0.0.1:{behind}")).json() == "local"
        async with nginx(tmp_path, behind, user=user, more=more) as port:
            address = {"Host": "signoff.example"}
            answer = await http.get(f"http://127.0.0.1:{port}", headers=address)
            assert why in answer.json()
