"""Finds Redis: a single server, the primary behind Sentinels, or the owner of a cluster slot."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Collection, Mapping
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote

from signoff.broker.server.cluster import AskedNodes, Cluster, ClusterPool, is_cluster
from signoff.broker.server.hosts import (
    NO_URL,
    PATIENCE,
    Address,
    read_address,
    read_login,
    read_options,
    split_url,
)
from signoff.broker.server.redis_py import (
    NAMED,
    NoBackoff,
    RedisError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    Unreachable,
    redis,
)
from signoff.broker.server.tls import name_tls
from signoff.core.base.errors import ConfigError

SCHEME: Final = "sentinel://"

DECODE_ANY: Final = "signoff-decode-any"
"""The handler of errors with which replies are decoded: bytes that are not UTF-8 become surrogates.

One damaged value, or one in a form of a later release, must not make the other replies of its round
trip unreadable. pydantic refuses surrogates, so such an approval is unreadable. Commands with
surrogates are refused, because their bytes could be the name of another record.
"""

_PORT: Final = 26379


def _decode_any(error: UnicodeError) -> tuple[str | bytes, int]:
    if isinstance(error, UnicodeDecodeError):
        # The whole rest at once: packed records have such bytes everywhere.
        return error.object[error.start :].decode("utf-8", "surrogateescape"), len(error.object)
    raise error


codecs.register_error(DECODE_ANY, _decode_any)


def fails_over(url: str) -> bool:
    """Say whether another server may take over from the one that a URL leads to."""
    return url.startswith(SCHEME) or is_cluster(url)


class Sentinels(NamedTuple):
    """A parsed ``sentinel://`` URL.

    The form is ``sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?master=NAME``, with the user
    and password of the Redis servers. Options for Sentinels with their own login are
    ``sentinel_username`` and ``sentinel_password``. Celery's form, with a full URL for each
    Sentinel separated by semicolons, is accepted too.

    Attributes:
        hosts: The host and port of each Sentinel.
        master: The name of the monitored primary.
        database: The number of the database.
        login: The user and password for the servers, if given.
        own: The user and password for the Sentinels, if given.
    """

    hosts: tuple[Address, ...]
    master: str
    database: int
    login: dict[str, str]
    own: dict[str, str]

    @classmethod
    def read(cls, url: str) -> Self:
        """Parse a URL.

        Raises:
            ConfigError: The URL is invalid. The message does not quote it, because it may contain
                a password.
        """
        rest, _, query = url.partition("?")
        parts = [one.removeprefix(SCHEME) for one in rest.split(";")]
        credentials, _, first = parts[0].rpartition("@")
        *others, last = [first, *(one.rpartition("@")[2] for one in parts[1:])]
        last, _, path = last.partition("/")
        names = [one for part in (*others, last) for one in part.partition("/")[0].split(",")]
        options = read_options(query)
        unknown = options.keys() - {"master", "sentinel_username", "sentinel_password"}
        if unknown:
            raise _refused(f"the option {min(unknown)!r} is unknown")
        if not options.get("master"):
            raise _refused("it does not name the master that the Sentinels watch")
        if path and not path.isdigit():
            raise _refused("what follows the hosts should be a database number")
        own = {
            key: options[f"sentinel_{key}"]
            for key in ("username", "password")
            if f"sentinel_{key}" in options
        }
        hosts = [read_address(one, _PORT) for one in names]
        if None in hosts:
            raise _refused("a Sentinel is HOST or HOST:PORT")
        return cls(
            hosts=tuple(one for one in hosts if one),
            master=options["master"],
            database=int(path or 0),
            login=read_login(credentials),
            own=own,
        )

    def for_celery(self) -> tuple[str, dict[str, Any]]:
        """Return the URL and transport options with which Celery finds the same servers."""
        user, password = (quote(self.login.get(key, ""), "") for key in ("username", "password"))
        login = f"{user}:{password}@" if self.login else ""
        urls = [f"{SCHEME}{login}{host}:{port}/{self.database}" for host, port in self.hosts]
        # A Sentinel that does not answer is not asked again, because the others are asked.
        once = redis.retry.Retry(NoBackoff(), 0)
        options = {"master_name": self.master, "sentinel_kwargs": {**self.reach, "retry": once}}
        return ";".join(urls), options

    @property
    def reach(self) -> dict[str, Any]:
        """The options of redis-py to connect to a Sentinel."""
        return {**self.own, "socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE}


def named_primary(states: Collection[Mapping[str, Any]]) -> tuple[str, int]:
    """Return the host and port of the primary, given the replies of Sentinels.

    If they disagree, the highest configuration epoch counts. A Sentinel with a failover in progress
    is ignored: it names the old primary until the failover has finished. If that server was started
    again, it accepts writes that are lost a few seconds later.

    Args:
        states: The reply of each Sentinel, as redis-py parses it.

    Raises:
        Unreachable: No Sentinel names a primary that is up.
    """
    epoch = max((one["config-epoch"] for one in states), default=0)
    for one in states:
        up = one["is_master"] and not one["is_sdown"] and not one["is_odown"]
        if one["config-epoch"] == epoch and up and "failover_in_progress" not in one["flags"]:
            return one["ip"], one["port"]
    raise Unreachable(f"{len(states)} Sentinels answer, but none names a primary that is up.")


class _Sentinels(Sentinel):
    """Asks all Sentinels at once, and takes the newest state that the first majority report."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return the host and port of the primary.

        Raises:
            Unreachable: No Sentinel names a primary that is up.
        """
        asked = [asyncio.ensure_future(one.sentinel_masters()) for one in self.sentinels]
        states: list[Mapping[str, Any]] = []
        try:
            for one in asyncio.as_completed(asked):
                try:
                    reply: Any = await one
                    states.append(reply[service_name])
                except (RedisError, OSError, KeyError):
                    continue
                if 2 * len(states) > len(asked):
                    break
        finally:
            for one in asked:
                one.cancel()
            await asyncio.gather(*asked, return_exceptions=True)
        return named_primary(states)


class _Connection(SentinelManagedConnection):
    """Asks the Sentinels before each attempt to connect.

    redis-py only does so for the first attempt, and then repeats a command at the old address.
    https://github.com/redis/redis-py/issues/3874
    """

    async def _connect(self) -> None:
        self.host, self.port = await self.connection_pool.get_master_address()
        await super()._connect()  # type: ignore[no-untyped-call]


class _Pool(SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
    """Connections to the current primary; callers wait if all are in use."""

    async def aclose(self) -> None:
        """Close these connections and those to the Sentinels."""
        await super().aclose()
        await self.sentinel_manager.aclose()


def open_pool(
    url: str,
    *,
    prefix: str,
    **options: Any,  # noqa: ANN401 -- redis-py's
) -> redis.asyncio.BlockingConnectionPool:
    """Return a connection pool; if all connections are in use, callers wait.

    Args:
        url: ``redis://…``, ``rediss://…``, ``unix://…``, ``sentinel://…`` (see `Sentinels`),
            ``redis+cluster://…`` or ``rediss+cluster://…`` (see `Cluster`).
        prefix: The prefix of the keys, whose hash tag determines their slot in a cluster.
        options: Options of `redis.asyncio.BlockingConnectionPool`.

    Raises:
        ConfigError: The URL is invalid, or the keys would be in different slots of a cluster.
    """
    options = NAMED | {"encoding_errors": DECODE_ANY} | options
    if is_cluster(url):
        nodes = AskedNodes(Cluster.read(url), prefix)
        return ClusterPool(nodes, socket_connect_timeout=PATIENCE, **options)
    if not url.startswith(SCHEME):
        return _single(url, **options)
    found = Sentinels.read(url)
    named = {"db": found.database, "socket_connect_timeout": PATIENCE, **found.login}
    named["connection_class"] = _Connection
    once = redis.asyncio.retry.Retry(NoBackoff(), 0)
    manager = _Sentinels(found.hosts, sentinel_kwargs={**found.reach, "retry": once})  # type: ignore[no-untyped-call]
    return _Pool(found.master, manager, **named, **options)  # type: ignore[no-untyped-call]


def _single(url: str, **options: Any) -> redis.asyncio.BlockingConnectionPool:  # noqa: ANN401 -- redis-py's
    if split_url(url) is None:
        raise ConfigError(f"{NO_URL}.", key="redis.url")
    try:
        pool = redis.asyncio.BlockingConnectionPool.from_url(url, **options)
        # Finds options that the URL should not have; nothing is connected.
        pool.connection_class(**pool.connection_kwargs)
    except (ValueError, TypeError) as error:
        # No message of redis-py: it names Python's classes, or quotes a part of the URL.
        why = "its scheme, or an option behind the question mark, is unknown or has a wrong value"
        remedy = "Write redis://user:password@host:port/0."
        raise ConfigError(f"{why}. {remedy}", key="redis.url") from error
    name_tls(pool)
    return pool


async def connect_anew(pool: redis.asyncio.ConnectionPool) -> None:
    """Close all connections of a pool; those in use are closed when they are returned.

    Use it when the server is no longer the primary. The next connection is opened to the server
    that the Sentinels, the nodes of the cluster or the DNS name by then.
    """
    await pool.disconnect(inuse_connections=False)
    await pool.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]


def _refused(why: str) -> ConfigError:
    return ConfigError(
        f"the sentinel:// URL cannot be used: {why}. Write "
        "sentinel://user:password@host1:26379,host2:26379,host3:26379/0?master=NAME.",
        key="redis.url",
    )
