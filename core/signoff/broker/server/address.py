"""Where a Redis is: one server, or the primary that Sentinels name at the moment."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, unquote

from signoff.broker.server.redis_py import (
    NoBackoff,
    RedisError,
    Sentinel,
    SentinelConnectionPool,
    SentinelManagedConnection,
    Unreachable,
    redis,
)
from signoff.core.base.errors import ConfigError

SCHEME: Final = "sentinel://"
_PORT: Final = 26379
_CONNECT: Final = 2.0
"""Seconds after which a Sentinel or a server that does not answer counts as away."""


@dataclass(frozen=True, slots=True)
class Sentinels:
    """What a ``sentinel://`` URL says.

    ``sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/DATABASE?master=NAME``, where user and password
    are those of the Redis servers. Sentinels that want a password of their own get it by
    ``&sentinel_password=``, with ``&sentinel_username=``. Celery's form, which repeats the scheme
    behind a semicolon for each Sentinel, is read too.

    Attributes:
        hosts: Host and port of each Sentinel.
        master: The name under which they watch the servers.
        database: The number of the database.
        login: User and password for the servers, as far as they are given.
        own: The same for the Sentinels.
    """

    hosts: tuple[tuple[str, int], ...]
    master: str
    database: int
    login: dict[str, str]
    own: dict[str, str]

    @classmethod
    def read(cls, url: str) -> Self:
        """Return what a URL says.

        Raises:
            ConfigError: It is not of this form. The message does not quote it, because it may have
                a password in it.
        """
        rest, _, query = url.partition("?")
        parts = [one.removeprefix(SCHEME) for one in rest.split(";")]
        credentials, _, first = parts[0].rpartition("@")
        *others, last = [first, *(one.rpartition("@")[2] for one in parts[1:])]
        last, _, path = last.partition("/")
        names = [one for part in (*others, last) for one in part.partition("/")[0].split(",")]
        options = {name: found[-1] for name, found in parse_qs(query, strict_parsing=False).items()}
        unknown = options.keys() - {"master", "sentinel_username", "sentinel_password"}
        if unknown:
            raise _refused(f"it has the option {min(unknown)!r}, which is not known")
        if not options.get("master"):
            raise _refused("it does not name the master that the Sentinels watch")
        if path and not path.isdigit():
            raise _refused("what follows the hosts should be a database number")
        user, _, password = credentials.partition(":")
        login = {"username": unquote(user), "password": unquote(password)}
        own = {
            key: options[f"sentinel_{key}"]
            for key in ("username", "password")
            if f"sentinel_{key}" in options
        }
        return cls(
            hosts=tuple(_host(one) for one in names),
            master=options["master"],
            database=int(path or 0),
            login={key: one for key, one in login.items() if one},
            own=own,
        )

    def for_celery(self) -> tuple[str, dict[str, Any]]:
        """Return the URL and the transport options by which Celery finds the same servers."""
        user, password = (quote(self.login.get(key, ""), "") for key in ("username", "password"))
        login = f"{user}:{password}@" if self.login else ""
        urls = [f"{SCHEME}{login}{host}:{port}/{self.database}" for host, port in self.hosts]
        # One that is away is not asked again: the others are.
        once = redis.retry.Retry(NoBackoff(), 0)
        options = {"master_name": self.master, "sentinel_kwargs": {**self.reach, "retry": once}}
        return ";".join(urls), options

    @property
    def reach(self) -> dict[str, Any]:
        """How a Sentinel is connected to, as redis-py takes it."""
        return {**self.own, "socket_connect_timeout": _CONNECT, "socket_timeout": _CONNECT}


def named_primary(states: Collection[Mapping[str, Any]]) -> tuple[str, int]:
    """Return host and port of the primary by what Sentinels say of it.

    Where they do not agree, the highest configuration epoch counts. A Sentinel that is replacing
    the primary does not count: until it has finished it names the old one, which may have been
    started again by then and takes writes that are lost a few seconds later.

    Args:
        states: The reply of each Sentinel, as redis-py parses it.

    Raises:
        Unreachable: None of them names a primary that is up.
    """
    epoch = max((one["config-epoch"] for one in states), default=0)
    for one in states:
        up = one["is_master"] and not one["is_sdown"] and not one["is_odown"]
        if one["config-epoch"] == epoch and up and "failover_in_progress" not in one["flags"]:
            return one["ip"], one["port"]
    raise Unreachable(f"{len(states)} Sentinels answer, and none names a primary that is up.")


class _Sentinels(Sentinel):
    """Asks all Sentinels at once, and believes the best informed of the first majority."""

    async def discover_master(self, service_name: str) -> tuple[str, int]:
        """Return host and port of the primary.

        Raises:
            Unreachable: None of them names a primary that is up.
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

    redis-py does so for the first attempt only: it repeats a command at the old address.
    https://github.com/redis/redis-py/issues/3874
    """

    async def _connect(self) -> None:
        self.host, self.port = await self.connection_pool.get_master_address()
        await super()._connect()  # type: ignore[no-untyped-call]


class _Pool(SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
    """Connections to the present primary; callers wait when all are in use."""

    async def aclose(self) -> None:
        """Close them, and those to the Sentinels."""
        await super().aclose()
        await self.sentinel_manager.aclose()


def open_pool(url: str, **options: Any) -> redis.asyncio.BlockingConnectionPool:  # noqa: ANN401 -- redis-py's
    """Return a pool that makes callers wait when its connections are all in use.

    Args:
        url: ``redis://…``, ``rediss://…``, ``unix://…`` or ``sentinel://…``; see `Sentinels`.
        options: As `redis.asyncio.BlockingConnectionPool` takes them.

    Raises:
        ConfigError: A ``sentinel://`` URL is not of its form.
    """
    if not url.startswith(SCHEME):
        return redis.asyncio.BlockingConnectionPool.from_url(url, **options)
    found = Sentinels.read(url)
    named = {"db": found.database, "socket_connect_timeout": _CONNECT, **found.login}
    named["connection_class"] = _Connection
    once = redis.asyncio.retry.Retry(NoBackoff(), 0)
    manager = _Sentinels(found.hosts, sentinel_kwargs={**found.reach, "retry": once})  # type: ignore[no-untyped-call]
    return _Pool(found.master, manager, **named, **options)  # type: ignore[no-untyped-call]


async def connect_anew(pool: redis.asyncio.ConnectionPool) -> None:
    """Close the connections of a pool, those in use as soon as they are given back.

    For one that leads to a server which is not the primary any more: the next one is opened to
    where the Sentinels, or the DNS, say by now.
    """
    await pool.disconnect(inuse_connections=False)
    await pool.update_active_connections_for_reconnect()  # type: ignore[no-untyped-call]


def _host(text: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":") if not text.endswith("]") else (text, "", "")
    if not colon:
        host, port = text, str(_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit():
        raise _refused("a Sentinel is HOST or HOST:PORT")
    return host, int(port)


def _refused(why: str) -> ConfigError:
    return ConfigError(
        f"the sentinel:// URL cannot be used: {why}. Write "
        "sentinel://user:password@host1:26379,host2:26379,host3:26379/0?master=NAME.",
        key="redis.url",
    )
