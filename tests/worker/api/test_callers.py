"""Which callers are accepted, and as whom."""

from __future__ import annotations

import contextlib
import hashlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import Request

from deciding import Decider, over
from signoff.broker.api_tokens import create, revoke
from signoff.core.access.api_tokens import Scope
from signoff.worker.adk_api.callers import TokenAuthenticator
from signoff.worker.adk_api.problems import Problem
from signoff.worker.adk_api.settings import ApiToken
from worker.api.client import calls_of, site

HASH = hashlib.sha256(b"secret").hexdigest()

KNOCK = """
import encodings.idna, os, socket, sys
os.setuid(65534)
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    connection.sendall(f"{connection.getsockname()[1]}\\n".encode())
    connection.recv(1)
"""
"""A program of another user that connects to a port, says its own, and waits."""


@contextlib.contextmanager
def connection(host: str = "127.0.0.1") -> Iterator[tuple[int, int]]:
    """Connect this process to itself, and yield the ports of both ends."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with (
        socket.create_server((host, 0), family=family) as listening,
        socket.create_connection((host, listening.getsockname()[1])) as client,
    ):
        yield client.getsockname()[1], listening.getsockname()[1]


def request(
    client: str | None = "127.0.0.1",
    *,
    ports: tuple[int, int] = (0, 0),
    version: str = "1.1",
    **headers: str | list[str],
) -> Request:
    """Return a request as uvicorn passes it on, on a connection between two ports."""
    pairs = {"host": "localhost:8080"} | {key.replace("_", "-"): it for key, it in headers.items()}
    raw = [
        (key.encode(), one.encode("latin-1"))
        for key, it in pairs.items()
        for one in ([it] if isinstance(it, str) else it)
    ]
    return Request(
        {
            "type": "http",
            "http_version": version,
            "client": None if client is None else (client, ports[0]),
            "server": ("127.0.0.1", ports[1]),
            "headers": raw,
        }
    )


@pytest.mark.parametrize(
    ("client", "headers"),
    [
        ("127.0.0.1", {}),
        ("127.8.8.8", {"host": "127.0.0.1"}),
        ("::1", {"host": "[::1]:8080"}),
        ("::ffff:127.0.0.1", {"host": "LOCALHOST:80"}),
        ("127.0.0.1", {"origin": "http://localhost:8080"}),
        ("127.0.0.1", {"sec_fetch_site": "same-origin"}),
        ("127.0.0.1", {"sec_fetch_site": "none"}),
        ("127.0.0.1", {"x_request_id": "7", "x_goog_api_client": "adk", "user_agent": "curl"}),
    ],
)
async def test_local_programs_of_the_same_user_need_no_token(
    decider: Decider, client: str, headers: dict[str, str]
) -> None:
    """They may do everything, and answer as the configured person."""
    gate = TokenAuthenticator((), decider, local=True, local_person="mara")
    mapped = client.startswith("::ffff:")
    with connection("127.0.0.1" if mapped else client) as ports:
        caller = await gate.admit(request(client, ports=ports, **headers))
    assert caller.may_use("finance", "anybody")
    assert caller.person is not None
    assert caller.person.id == "mara"


@pytest.mark.parametrize(
    ("client", "headers", "why"),
    [
        ("192.0.2.1", {}, "another machine"),
        (None, {}, "another machine"),
        ("::ffff:192.0.2.1", {}, "another machine"),
        ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"forwarded": "for=127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"x_forwarded_proto": "https"}, "forwarded"),
        ("127.0.0.1", {"x_forwarded_port": "443"}, "forwarded"),
        ("127.0.0.1", {"x_forwarded_ssl": "on"}, "forwarded"),
        ("127.0.0.1", {"x_forwarded": "for=127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"x_real_ip": "127.0.0.1"}, "forwarded"),
        ("127.0.0.1", {"via": "1.1 proxy"}, "forwarded"),
        ("127.0.0.1", {"cf_connecting_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"cf_ray": "8c1"}, "forwarded"),
        ("127.0.0.1", {"client_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"true_client_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"x_client_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"x_cluster_client_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"fastly_client_ip": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"x_envoy_external_address": "192.0.2.1"}, "forwarded"),
        ("127.0.0.1", {"x_amzn_trace_id": "Root=1"}, "forwarded"),
        ("127.0.0.1", {"x_original_host": "signoff.example"}, "forwarded"),
        ("127.0.0.1", {"host": "evil.example:8080"}, "Host"),
        ("127.0.0.1", {"host": "localhost.evil.example"}, "Host"),
        ("127.0.0.1", {"host": "127.0.0.1.nip.io"}, "Host"),
        ("127.0.0.1", {"host": ["localhost", "evil.example"]}, "Host"),
        ("127.0.0.1", {"host": []}, "Host"),
        ("127.0.0.1", {"host": ""}, "Host"),
        ("127.0.0.1", {"origin": "https://evil.example"}, "web page"),
        ("127.0.0.1", {"origin": "http://localhost:3000"}, "web page"),
        ("127.0.0.1", {"origin": "null"}, "web page"),
        ("127.0.0.1", {"sec_fetch_site": "cross-site"}, "web page"),
        ("127.0.0.1", {"sec_fetch_site": "same-site"}, "web page"),
    ],
)
async def test_other_callers_need_a_token(
    decider: Decider, client: str | None, headers: dict[str, str | list[str]], why: str
) -> None:
    """Another machine, a proxy, another name for this one, a page in a browser."""
    gate = TokenAuthenticator((), decider, local=True, local_person="mara")
    with connection() as ports, pytest.raises(Problem) as refused:
        await gate.admit(request(client, ports=ports, version="1.1", **headers))
    assert (refused.value.status, refused.value.kind) == (403, "not-local")
    assert why in refused.value.detail
    assert "[[gateway.tokens]]" in refused.value.detail


async def test_proxy_without_headers_is_recognised_by_http_1_0(
    decider: Decider,
) -> None:
    """With only `proxy_pass`, nginx sends `Host: 127.0.0.1:8080` with HTTP/1.0."""
    with connection() as ports, pytest.raises(Problem, match="forwarded") as refused:
        await TokenAuthenticator((), decider, local=True).admit(request(ports=ports, version="1.0"))
    assert refused.value.kind == "not-local"


@contextlib.contextmanager
def neighbour(*, hung_up: bool) -> Iterator[tuple[int, int]]:
    """Have a program of another user connect, and yield the ports of both ends."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        with subprocess.Popen([sys.executable, "-c", KNOCK, str(port)]) as program:
            there, _ = listening.accept()
            with there:
                client = int(there.makefile().readline())
                if hung_up:
                    program.kill()
                    program.wait()
                yield client, port


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
@pytest.mark.parametrize("hung_up", [False, True])
async def test_a_program_of_another_user_needs_a_token(decider: Decider, hung_up: bool) -> None:
    """A neighbour or a proxy needs one, even if it hangs up before the check."""
    with neighbour(hung_up=hung_up) as ports, pytest.raises(Problem, match="another user"):
        await TokenAuthenticator((), decider, local=True).admit(request(ports=ports))


@pytest.mark.parametrize(
    "authorization",
    ["", "Bearer", "Bearer ", "Basic secret", "secret", f"Bearer {HASH}", "Bearer Secret"],
)
async def test_configured_tokens_make_a_token_necessary_for_everybody(
    decider: Decider, authorization: str
) -> None:
    """This holds for local programs too, and the hash of a token is not a token."""
    gate = TokenAuthenticator(
        (ApiToken(sha256=HASH, users=("*",)),), decider, local=True, local_person="mara"
    )
    with pytest.raises(Problem) as refused:
        await gate.admit(request(authorization=authorization))
    assert refused.value.status == 401


async def test_token_limits_its_users_apps_and_person(decider: Decider) -> None:
    """Its users and apps are those of the token; it answers as its person, or not at all."""
    other = hashlib.sha256(b"other").hexdigest()
    tokens = (
        ApiToken(sha256=other, users=("*",)),
        ApiToken(sha256=HASH, users=("riley",), apps=("finance",), person="mara"),
    )
    gate = TokenAuthenticator(tokens, decider)
    there = request("192.0.2.1", host="signoff.example", authorization="bearer secret")
    caller = await gate.admit(there)
    assert caller.may_use("finance", "riley")
    assert not caller.may_use("finance", "kim")
    assert not caller.may_use("time_off", "riley")
    assert caller.person is not None
    assert caller.person.id == "mara"
    everybody = await gate.admit(request(authorization="Bearer other"))
    assert everybody.may_use("anything", "anybody")
    assert everybody.person is None


async def kept(decider: Decider, *scopes: Scope, **parts: Any) -> str:
    """Return the header of a token in the form of `signoff tokens create`."""
    token, _ = await create(decider.ledger, scopes=frozenset(scopes), by="test", **parts)
    return f"Bearer {token}"


async def test_the_tokens_of_the_rest_api_are_good_here_too(decider: Decider) -> None:
    """A system's token works for its users and apps, a person's as that person, with its scopes."""
    gate = TokenAuthenticator((), decider, local=False)
    scopes = (Scope.RUNS_SUBMIT, Scope.RUNS_READ)
    header = await kept(decider, *scopes, users=("sam", "kim"), apps=("finance",))
    system = await gate.admit(request("192.0.2.1", authorization=header), Scope.RUNS_SUBMIT)
    assert system.may_use("finance", "kim")
    assert not system.may_use("finance", "riley")
    assert not system.may_use("travel", "kim")
    assert (system.person, bool(system.token)) == (None, True)
    header = await kept(decider, Scope.APPROVALS_DECIDE, person="mara")
    mara = await gate.admit(request("192.0.2.1", authorization=header))
    assert mara.person is not None
    assert (mara.person.id, mara.may_use("finance", "mara")) == ("mara", True)
    assert not mara.may_use("finance", "riley")
    reader = await kept(decider, Scope.RUNS_READ, person="mara")
    assert (await gate.admit(request(authorization=reader), Scope.RUNS_READ)).person is None
    everybody = await kept(decider, Scope.RUNS_SUBMIT, users=("*",))
    assert (await gate.admit(request(authorization=everybody))).may_use("travel", "anybody")


async def test_a_token_without_the_scope_of_a_request_is_refused(decider: Decider) -> None:
    """The problem names the required scope."""
    header = await kept(decider, Scope.RUNS_READ, users=("sam",))
    with pytest.raises(Problem, match="runs:submit") as refused:
        await TokenAuthenticator((), decider).admit(
            request(authorization=header), Scope.RUNS_SUBMIT
        )
    assert (refused.value.status, refused.value.kind) == (403, "scope")


async def test_revoked_token_is_refused_for_a_local_program(
    decider: Decider,
) -> None:
    """A local program with an invalid token is refused."""
    gate = TokenAuthenticator((), decider, local=True, local_person="mara")
    header = await kept(decider, Scope.RUNS_READ, users=("sam",))
    assert (await gate.admit(request(authorization=header))).name != "local"
    await revoke(decider.ledger, header.split("_")[1], by="test")
    with pytest.raises(Problem) as refused:
        await gate.admit(request(authorization=header))
    assert refused.value.status == 401


async def test_overused_token_is_refused_with_a_retry_time(decider: Decider) -> None:
    """Requests over its limit are refused before anything is done."""
    gate = TokenAuthenticator((), decider, rate=2)
    header = await kept(decider, Scope.RUNS_READ, users=("sam",))
    for _ in range(2):
        await gate.admit(request(authorization=header))
    with pytest.raises(Problem, match="2 requests a minute") as refused:
        await gate.admit(request(authorization=header))
    assert refused.value.status == 429
    assert refused.value.headers is not None
    assert 1 <= int(refused.value.headers["Retry-After"]) <= 60


async def test_local_programs_need_a_token_if_local_is_off(decider: Decider) -> None:
    """With `local = false` they need a token."""
    with pytest.raises(Problem) as refused:
        await TokenAuthenticator((), decider, local=False).admit(request())
    assert refused.value.status == 401


@pytest.mark.soak
async def test_tokens_and_programs_of_this_machine_in_a_whole_plant(tmp_path: Path) -> None:
    """Each token works for its own part; local callers read how to act as a person."""
    async with site(tmp_path, gateway="adk = true\nlocal = false") as here:
        decider = over(here.plant.parts.decisions)
        both = (Scope.RUNS_SUBMIT, Scope.RUNS_READ)
        portal = {"Authorization": await kept(decider, *both, users=("*",), apps=("time_off",))}
        mara = {"Authorization": await kept(decider, Scope.APPROVALS_DECIDE, person="mara")}
        assert (await here.http.get("/list-apps")).status_code == 401
        assert (await here.http.get("/list-apps", headers=portal)).json() == ["time_off"]
        session = await here.session("time_off", **portal)
        (call,) = calls_of(await here.say("time_off", session, "I need 5 days off", **portal))
        answer = {"confirmed": True, "payload": {"approved_days": 5}}
        refused = await here.answer("time_off", session, call, answer, headers=portal)
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:signoff:problem:nobody")
        assert "signoff tokens create" in refused.json()["detail"]
        path = f"/apps/time_off/users/user/sessions/{session}"
        assert (await here.http.get(path, headers=mara)).status_code == 403
        done = await here.answer("time_off", session, call, answer, headers=mara)
        assert done.status_code == 200, done.text
        (approval,) = await decider.ledger.decided()
        (event,) = [
            one for one in await decider.ledger.history(approval.id) if one.what == "approved"
        ]
        assert (event.by, event.more["token"]) == ("mara", mara["Authorization"].split("_")[1])

        here.plant.environment |= {
            "SIGNOFF_GATEWAY__LOCAL": "true",
            "SIGNOFF_EMAIL__INBOUND__LISTEN": "false",
        }
        await here.plant.start("gateway-2")
        port = here.plant.supervisor.children["gateway-2"].report["port"]
        here.http.base_url = httpx.URL(f"http://127.0.0.1:{port}")
        session = await here.session("time_off")
        (call,) = calls_of(await here.say("time_off", session, "I need 5 days off"))
        refused = await here.answer("time_off", session, call, {"confirmed": False})
        assert (refused.status_code, refused.json()["type"]) == (403, "urn:signoff:problem:nobody")
        assert "[gateway] local_person" in refused.json()["detail"]
