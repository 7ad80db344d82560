"""Where a Redis is: one server, or the primary that Sentinels name at the moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Self
from urllib.parse import parse_qs, quote, unquote

from signoff.broker.server.redis_py import redis
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
        options = {"master_name": self.master, "sentinel_kwargs": self.reach}
        return ";".join(urls), options

    @property
    def reach(self) -> dict[str, Any]:
        """How a Sentinel is connected to, as redis-py takes it."""
        return {**self.own, "socket_connect_timeout": _CONNECT, "socket_timeout": _CONNECT}


class _Pool(redis.asyncio.SentinelConnectionPool, redis.asyncio.BlockingConnectionPool):
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
    manager = redis.asyncio.Sentinel(found.hosts, sentinel_kwargs=found.reach)  # type: ignore[no-untyped-call]
    return _Pool(found.master, manager, **named, **options)  # type: ignore[no-untyped-call]


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
