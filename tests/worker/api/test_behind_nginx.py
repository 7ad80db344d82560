"""A real nginx in front of the gateway, on the same machine."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI, Request

from deciding import Decider
from ports import free_port
from services import nginx
from signoff.worker.adk_api.callers import TokenAuthenticator
from signoff.worker.adk_api.problems import Problem

SERVER = """server {{
  listen 127.0.0.1:{port};
  location / {{ proxy_pass http://127.0.0.1:{behind}; {more} }}
}}"""


@contextlib.asynccontextmanager
async def served(decider: Decider) -> AsyncIterator[int]:
    """Serve a page to clients without a token, and yield the port."""
    app, gate = FastAPI(), TokenAuthenticator((), decider, local=True)

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


@pytest.mark.parametrize(
    ("user", "more", "why"),
    [
        ("root root", "", "forwarded"),
        ("www-data www-data", "proxy_http_version 1.1;", "another user"),
        ("root root", "proxy_http_version 1.1; proxy_set_header Via nginx;", "forwarded"),
        ("root root", "proxy_http_version 1.1; proxy_set_header Host $host;", "Host"),
    ],
)
async def test_request_through_nginx_is_not_local(
    decider: Decider, tmp_path: Path, user: str, more: str, why: str
) -> None:
    """By default nginx adds no header and writes its own address into Host; that is detected."""
    if "www-data" in user and os.geteuid() != 0:
        pytest.skip("only root can give nginx another user")
    async with served(decider) as behind, httpx.AsyncClient(timeout=60) as http:
        assert (await http.get(f"http://127.0.0.1:{behind}")).json() == "local"
        port = free_port()
        server = SERVER.format(port=port, behind=behind, more=more)
        with nginx(tmp_path, server, port, user=user):
            address = {"Host": "signoff.example"}
            answer = await http.get(f"http://127.0.0.1:{port}", headers=address)
            assert why in answer.json()
