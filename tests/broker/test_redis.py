"""Redis killed, missing or misconfigured, and the translation of its errors."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import ssl
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
import redis.asyncio
import redis.exceptions

from builders import CLEO, MARA, paused, people
from channels.conftest import write_certificate
from deciding import Decider
from ports import free_port
from services import plain_redis
from signoff.broker import heartbeat
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store, translated
from signoff.broker.server import health
from signoff.broker.server.embedded import EmbeddedRedis, find_server
from signoff.core.approvals.approval import State
from signoff.core.base.errors import ConfigError, LedgerUnavailable


async def command_of(client: redis.asyncio.Redis, *words: str) -> None:
    """Send a command; redis-py's `execute_command` is untyped."""
    await client.execute_command(*words)  # type: ignore[no-untyped-call]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedRedis]:
    """Return a server for this test, which can be killed."""
    with EmbeddedRedis(tmp_path / "redis with a space") as server:
        yield server


async def test_acknowledged_commits_survive_a_kill(server: EmbeddedRedis) -> None:
    """After kill -9 and a restart every commit is there, and the scripts are loaded again."""
    ledger = Ledger(Store.open(server.url))
    decider = Decider(ledger, people())
    _, approvals = await paused(ledger, siblings=20)
    for one in approvals[:10]:
        await decider.approve(one.id, MARA, channel="email")
    (item, *_) = (await ledger.claim("deliver.email", limit=1)).items
    head = (await audit.verify(ledger.store))[1]
    pid = server.pid
    server.kill()
    server.start()
    assert server.pid != pid
    states = [one.state for one in await ledger.approvals([one.id for one in approvals])]
    assert states == [State.APPROVED] * 10 + [State.PENDING] * 10
    await ledger.commit(Change().ack(item))
    await asyncio.gather(
        *(decider.reject(one.id, CLEO, channel="email", reason="no") for one in approvals[10:])
    )
    await audit.verify(ledger.store, expect_head=head)
    assert len((await ledger.claim("resume.finance")).items) == 1
    await ledger.close()


async def test_commits_are_applied_once_across_a_restart(server: EmbeddedRedis) -> None:
    """A short restart delays the callers, and no commit is applied twice."""
    ledger = Ledger(Store.open(server.url))
    _, approvals = await paused(ledger, siblings=30)
    decider = Decider(ledger, people())
    begun = asyncio.Event()

    async def decide(approval_id: str) -> None:
        while True:
            try:
                await decider.approve(approval_id, MARA, channel="email")
            except LedgerUnavailable:
                continue
            finally:
                begun.set()
            return

    deciding = [asyncio.create_task(decide(one.id)) for one in approvals]
    await begun.wait()
    server.kill()
    await asyncio.to_thread(server.start)
    await asyncio.gather(*deciding, return_exceptions=True)
    assert await ledger.pending() == []
    count, _ = await audit.verify(ledger.store)
    assert count == 1 + 30 + 30
    await ledger.close()


async def test_a_redis_that_is_not_there(tmp_path: Path) -> None:
    """The error says what happened, which setting to check, and which command checks more."""
    store = Store.open(f"redis://127.0.0.1:{free_port()}/0")
    ledger = Ledger(store)
    with pytest.raises(LedgerUnavailable) as caught:
        await ledger.now()
    assert "Redis cannot be reached" in str(caught.value)
    assert "[redis] url" in str(caught.value)
    assert "signoff doctor" in str(caught.value)
    assert isinstance(caught.value.__cause__, redis.exceptions.ConnectionError)
    await ledger.close()


async def test_a_redis_without_tls_at_a_url_with_tls(redis_url: str) -> None:
    """The server waits for the rest of the handshake; the error names it, and is not retried."""
    url = redis_url.replace("redis://", "rediss://")
    store = Store.open(f"{url}?socket_connect_timeout=0.2")
    with pytest.raises(LedgerUnavailable, match=r"rediss://[^@]* is a Redis that does not use TLS"):
        await store.now()
    await store.close()


async def _says(first: bytes, then: bytes, reader: StreamReader, writer: StreamWriter) -> None:
    """Send something at once, and something else after an empty line."""
    with contextlib.suppress(OSError):
        writer.write(first)
        while (line := await reader.readline()) and line != b"\r\n":
            pass
        writer.write(then if line else b"")
        await writer.drain()
        writer.close()


@pytest.mark.parametrize("scheme", ["redis", "rediss"])
@pytest.mark.parametrize(
    ("first", "then", "named"),
    [
        (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", "an HTTP server"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", b"", "an SSH server"),
        (b"220 mail.example.com ESMTP\r\n", b"", "a mail or FTP server"),
    ],
    ids=["http", "ssh", "mail"],
)
async def test_something_that_is_no_redis(
    scheme: str, first: bytes, then: bytes, named: str
) -> None:
    """The error names the URL without the password, and what is there, and is not retried."""
    server = await asyncio.start_server(partial(_says, first, then), "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        timeouts = "socket_connect_timeout=0.2&socket_timeout=0.2"
        store = Store.open(f"{scheme}://mara:secret@127.0.0.1:{port}/0?{timeouts}", retries=1000)
        with pytest.raises(LedgerUnavailable) as caught:
            await store.now()
        await store.close()
    assert f"{scheme}://127.0.0.1:{port} is {named}" in str(caught.value)
    assert "secret" not in str(caught.value)


async def test_a_redis_that_is_slow_is_tried_again(redis_url: str) -> None:
    """A server that is silent for some time may be a Redis, so nothing gives up early."""
    address = urlsplit(redis_url)
    asked = 0

    async def slow(reader: StreamReader, writer: StreamWriter) -> None:
        nonlocal asked
        asked += 1
        # Two attempts, and the question of what is there.
        if asked <= 3:
            await reader.read()
            writer.close()
            return
        inner, outer = await asyncio.open_connection(address.hostname, address.port)
        await asyncio.gather(_pass_on(reader, outer), _pass_on(inner, writer))

    async with await asyncio.start_server(slow, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        there = address._replace(netloc=f"{address.netloc.rpartition('@')[0]}@127.0.0.1:{port}")
        store = Store.open(f"{there.geturl()}?socket_timeout=0.2")
        assert await store.now()
        await store.close()
    assert asked == 4


async def _pass_on(reader: StreamReader, writer: StreamWriter) -> None:
    """Pass on what one side sends, to its end."""
    with contextlib.suppress(OSError):
        while data := await reader.read(4096):
            writer.write(data)
    writer.close()


async def test_a_server_that_never_answers() -> None:
    """After the retries, the error says that it takes connections."""

    async def read_only(reader: StreamReader, writer: StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with await asyncio.start_server(read_only, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        store = Store.open(f"redis://127.0.0.1:{port}/0?socket_timeout=0.1", retries=1)
        with pytest.raises(LedgerUnavailable, match="takes connections, but does not answer"):
            await store.now()
        await store.close()


async def test_a_redis_with_tls_at_a_url_without_tls(tmp_path: Path) -> None:
    """The server closes the connection, and the error names TLS."""
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    write_certificate(tmp_path / "redis.pem")
    tls.load_cert_chain(tmp_path / "redis.pem")
    async with await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=tls) as server:
        port = server.sockets[0].getsockname()[1]
        store = Store.open(f"redis://127.0.0.1:{port}/0", retries=0)
        with pytest.raises(LedgerUnavailable, match="If it uses TLS, write rediss://"):
            await store.now()
        await store.close()


@pytest.mark.parametrize("options", ["ssl_ca_certs={0}", "ssl_certfile={0}&ssl_keyfile={0}"])
async def test_a_missing_certificate_is_named(redis_url: str, tmp_path: Path, options: str) -> None:
    """Redis is there, so the message names the file and not the server alone."""
    missing = tmp_path / "client.pem"
    server = redis_url.replace("redis://", "rediss://", 1)
    ledger = Ledger(Store.open(f"{server}?{options.format(missing)}"))
    with pytest.raises(LedgerUnavailable, match=f"{missing}, which .* cannot be read: No such"):
        await ledger.now()
    await ledger.close()


async def test_scripts_that_redis_has_forgotten(ledger: Ledger) -> None:
    """They are loaded again; those of a batch that did run are not repeated."""
    await ledger.commit(Change().send_raw("route", "a", {}).send_raw("route", "b", {}))
    await ledger.store.client.script_flush()
    problems = await ledger.commit_all([Change().put_raw("x", "1"), Change().put_raw("y", "1")])
    assert problems == [None, None]
    await ledger.store.client.script_flush()
    assert len((await ledger.claim("route")).items) == 2


def foreign_errors() -> list[type[Exception]]:
    """Return every error class that redis-py exports or derives from an exported one."""
    found: set[type[Exception]] = set()
    left = [
        kind
        for kind in vars(redis.exceptions).values()
        if isinstance(kind, type) and issubclass(kind, Exception)
    ]
    while left:
        kind = left.pop()
        found.add(kind)
        left += kind.__subclasses__()
    return sorted(found, key=lambda kind: kind.__name__)


@pytest.mark.parametrize(
    "kind",
    [*foreign_errors(), ConnectionRefusedError, TimeoutError, BrokenPipeError],
    ids=lambda kind: kind.__name__,
)
async def test_the_border_has_no_gap(kind: type[Exception]) -> None:
    """Any error of Redis or of the network becomes an error of Signoff with its cause."""
    error = kind.__new__(kind)
    Exception.__init__(error, "boom")
    with pytest.raises(LedgerUnavailable) as caught, translated():
        raise error
    assert caught.value.__cause__ is error


async def test_the_embedded_redis_has_no_findings(server: EmbeddedRedis) -> None:
    """The embedded one has no findings."""
    ledger = Ledger(Store.open(server.url))
    assert await health.redis_problems(ledger) == []
    assert await health.redis_doubts(ledger) == []
    await ledger.close()


async def test_a_redis_that_is_set_wrongly(tmp_path: Path) -> None:
    """Each finding names the setting to change."""
    wrong = {"appendonly": "no", "appendfsync": "no", "maxmemory_policy": "allkeys-lru"}
    with plain_redis(tmp_path, **wrong) as url:
        ledger = Ledger(Store.open(url))
        problems = await health.redis_problems(ledger)
        await ledger.close()
    remedies = ("`appendonly yes`", "`appendfsync always`", "`maxmemory-policy noeviction`")
    for problem, remedy in zip(problems, remedies, strict=True):
        assert remedy in problem


async def test_a_forbidden_config_command_is_a_finding(tmp_path: Path) -> None:
    """If CONFIG is not permitted, the finding says what to check by hand."""
    with plain_redis(tmp_path, user="app on >secret ~* +@all -config") as url:
        ledger = Ledger(Store.open(url.replace("//", "//app:secret@")))
        assert await health.redis_problems(ledger) == []
        (doubt,) = await health.redis_doubts(ledger)
        assert "Allow `CONFIG GET`" in doubt
        await ledger.close()
        wrong = Ledger(Store.open(url.replace("//", "//app:wrong@")))
        with pytest.raises(LedgerUnavailable) as caught:
            await health.redis_problems(wrong)
        assert "refuses the login" in str(caught.value)
        assert "wrong" not in str(caught.value).replace("wrong user", "").replace("WRONGPASS", "")
        await wrong.close()


async def test_an_eviction_policy_is_found_without_the_config_command(tmp_path: Path) -> None:
    """Redis users of single processes may only use INFO, which has it."""
    wrong = {"maxmemory_policy": "allkeys-lru", "user": "app on >secret ~* +@all -config"}
    with plain_redis(tmp_path, **wrong) as url:
        ledger = Ledger(Store.open(url.replace("//", "//app:secret@")))
        (problem,) = await health.redis_problems(ledger)
        assert "`maxmemory-policy noeviction`" in problem
        await ledger.close()


async def test_a_missing_password_is_named(tmp_path: Path) -> None:
    """Redis answers with a sentence about its protocol, which says nothing to a reader."""
    with plain_redis(tmp_path, login=":secret", requirepass="secret") as url:
        ledger = Ledger(Store.open(url.replace(":secret@", "")))
        with pytest.raises(LedgerUnavailable, match="It wants a password"):
            await ledger.now()
        await ledger.close()


@pytest.mark.parametrize(
    "url",
    [
        "http://localhost/",
        "redis://localhost:99999/0",
        "redis://:hunter2/x@localhost:6379/0",
        "redis://localhost/0?hunter2=x",
        "redis://localhost/0?socket_timeout=hunter2",
    ],
)
def test_an_invalid_url_is_an_error_of_the_settings(url: str) -> None:
    """Its message does not quote the URL, which may contain a password."""
    with pytest.raises(ConfigError) as caught:
        Store.open(url)
    assert caught.value.key == "redis.url"
    assert "hunter2" not in str(caught.value)


@pytest.mark.soak
async def test_another_user_cannot_use_the_embedded_redis(server: EmbeddedRedis) -> None:
    """Every user of the machine can connect to the port, but nothing else works."""
    async with redis.asyncio.Redis(port=server.port) as client:
        for command in (("PING",), ("GET", "a"), ("CONFIG", "SET", "dir", "/tmp"), ("INFO",)):
            with pytest.raises(redis.exceptions.AuthenticationError):
                await command_of(client, *command)
    (password,) = re.findall(r":([^:@]{20,})@", server.url)
    assert password not in psutil.Process(server.pid).cmdline()
    assert password not in "".join(psutil.Process(server.pid).environ().values())


@pytest.mark.parametrize(
    "command",
    [
        "CONFIG SET dir /tmp",
        "CONFIG SET appendonly no",
        "CONFIG REWRITE",
        "CONFIG RESETSTAT",
        "DEBUG SLEEP 0",
        "DEBUG RELOAD",
        "MODULE LOAD /tmp/x.so",
        "ACL SETUSER default nopass",
        "ACL LIST",
        "SAVE",
        "BGSAVE",
        "REPLICAOF 192.0.2.1 6379",
        "SLAVEOF 192.0.2.1 6379",
        "MIGRATE 192.0.2.1 6379 a 0 10",
        "MONITOR",
        "SHUTDOWN NOSAVE",
    ],
)
async def test_the_password_gives_access_to_data_alone(server: EmbeddedRedis, command: str) -> None:
    """A tool in a worker or a script in Redis cannot write files or change permissions."""
    script = f"return redis.call({', '.join(repr(word) for word in command.split())})"
    async with redis.asyncio.Redis.from_url(server.url) as client:
        with pytest.raises(redis.exceptions.ResponseError):
            await command_of(client, *command.split())
        with pytest.raises(redis.exceptions.ResponseError):
            await client.eval(script, 0)
        assert await client.config_get("appendfsync") == {"appendfsync": "always"}


async def test_the_embedded_redis_folder_is_made_private(tmp_path: Path) -> None:
    """A folder that an earlier release left open is closed, and its data stays."""
    folder = tmp_path / "redis"
    folder.mkdir()
    before = os.umask(0o022)
    try:
        with plain_redis(folder, appendonly="yes", appendfsync="always") as url:
            async with redis.asyncio.Redis.from_url(url) as client:
                await client.set("kept", "yes")
        assert _open_to_others(folder)
        with EmbeddedRedis(folder) as server:
            assert _open_to_others(folder) == []
            async with redis.asyncio.Redis.from_url(server.url) as client:
                assert await client.get("kept") == b"yes"
    finally:
        os.umask(before)
    assert _open_to_others(folder) == []


def _open_to_others(folder: Path) -> list[Path]:
    return [one for one in (folder, *folder.rglob("*")) if one.stat().st_mode & 0o077]


def test_a_password_ends_with_its_server(tmp_path: Path) -> None:
    """A password that was seen is worthless later."""
    with EmbeddedRedis(tmp_path) as first:
        first.kill()
        before = first.url
        assert first.start().url == before
        first.kill()
    with EmbeddedRedis(tmp_path, port=first.port) as second:
        assert second.url != before


@pytest.mark.parametrize(
    ("setting", "refusal"),
    [
        ({"maxmemory": "1"}, "OOM|maxmemory"),
        ({"min_replicas_to_write": "1"}, "NOREPLICAS|good replicas"),
    ],
)
async def test_a_redis_that_refuses_to_write_is_a_problem(
    tmp_path: Path, setting: dict[str, str], refusal: str
) -> None:
    """It can be read, and nothing can be decided; the check leaves nothing behind."""
    wanted = {"appendonly": "yes", "maxmemory_policy": "noeviction"}
    (tmp_path / "whole").mkdir()
    with plain_redis(tmp_path / "whole", **wanted) as url:
        ledger = Ledger(Store.open(url))
        assert await health.redis_problems(ledger) == []
        assert await ledger.store.keys("") == []
        await ledger.close()
    (tmp_path / "refusing").mkdir()
    with plain_redis(tmp_path / "refusing", **wanted, **setting) as url:
        ledger = Ledger(Store.open(url))
        (problem,) = await health.redis_problems(ledger)
        assert "takes no writes" in problem
        assert re.search(refusal, problem)
        await ledger.close()


async def test_a_redis_that_is_nearly_full_is_a_doubt(tmp_path: Path) -> None:
    """The alert about its memory leads to the doctor, which says how full it is."""
    with plain_redis(tmp_path) as url, redis.Redis.from_url(url) as root:
        ledger = Ledger(Store.open(url))
        assert await health.redis_doubts(ledger) == []
        used = root.info("memory")["used_memory"]
        root.config_set("maxmemory", int(used / 0.9))
        (doubt,) = await health.redis_doubts(ledger)
        assert re.search(r"used (8|9)\d% of its memory.*raise `maxmemory`", doubt)
        await ledger.close()


async def test_a_redis_that_could_not_write_its_file_is_a_doubt(tmp_path: Path) -> None:
    """The alert about its disk leads to the doctor, also while Redis still takes writes."""
    data = tmp_path / "data"
    data.mkdir()
    wanted = {"dir": f'"{data}"', "stop_writes_on_bgsave_error": "no"}
    with plain_redis(tmp_path, **wanted) as url, redis.Redis.from_url(url) as root:
        ledger = Ledger(Store.open(url))
        data.rmdir()
        root.bgsave()
        while root.info("persistence")["rdb_bgsave_in_progress"]:  # noqa: ASYNC110 -- Redis gives no signal
            await asyncio.sleep(0.02)
        (doubt,) = await health.redis_doubts(ledger)
        assert "could not write to its disk (rdb_last_bgsave_status)" in doubt
        await ledger.close()


async def test_an_old_redis(server: EmbeddedRedis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Redis before 6.2 lacks commands that Signoff uses."""
    ledger = Ledger(Store.open(server.url))

    async def info(section: str) -> dict[str, str]:
        return {"redis_version": "6.0.16"}

    monkeypatch.setattr(ledger.store.client, "info", info)
    assert "6.0.16 is too old" in (await health.redis_problems(ledger))[0]
    await ledger.close()


async def test_live_processes_are_listed_by_kind(ledger: Ledger) -> None:
    """Processes with a recent heartbeat are listed by kind; a heartbeat expires."""
    assert await heartbeat.alive(ledger) == {}
    for kind, name in (("worker", "host:1"), ("worker", "host:2"), ("gateway", "host:3")):
        await heartbeat.beat(ledger, kind, name)
    assert await heartbeat.alive(ledger) == {
        "gateway": ["host:3"],
        "worker": ["host:1", "host:2"],
    }
    ttl = await ledger.store.client.pttl(f"{ledger.store.prefix}alive:gateway:host:3")
    assert 0 < ttl <= heartbeat.TTL * 1000


def test_a_foreign_server_on_the_port_is_detected(server: EmbeddedRedis, tmp_path: Path) -> None:
    """Another server on the port is not mistaken for Signoff's."""
    with pytest.raises(ConfigError, match=f"did not start on port {server.port}"):
        EmbeddedRedis(tmp_path / "other", port=server.port).start()


def test_another_port_is_chosen_if_the_free_port_is_taken(
    server: EmbeddedRedis, tmp_path: Path
) -> None:
    """If another process takes the port that the system chose, another port is used."""
    unlucky = EmbeddedRedis(tmp_path / "other")
    unlucky.port = server.port
    with unlucky:
        assert unlucky.port != server.port
        port = unlucky.port
        unlucky.kill()
        assert unlucky.start().port == port


def test_starting_and_stopping_twice(server: EmbeddedRedis) -> None:
    """The second call does nothing."""
    pid = server.pid
    assert server.start().pid == pid
    server.stop()
    server.stop()
    server.kill()
    with pytest.raises(RuntimeError, match="not running"):
        _ = server.pid


def test_without_any_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install or what to set."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr("signoff.broker.server.embedded.find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="apt-get install redis-server"):
        find_server()
