"""Redis Cluster: all keys of a ledger are in one slot, whose owner serves all commands."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple, Self

from signoff.broker.server.hosts import (
    PATIENCE,
    Address,
    read_address,
    read_login,
    read_options,
)
from signoff.broker.server.redis_py import (
    ELSEWHERE,
    NoBackoff,
    RedisError,
    Unreachable,
    key_slot,
    redis,
)
from signoff.broker.server.tls import name_tls
from signoff.core.base.errors import ConfigError

CLUSTER: Final = "redis+cluster://"
CLUSTER_TLS: Final = "rediss+cluster://"
_PORT: Final = 6379
_TLS_OPTIONS: Final = frozenset(
    {"ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile", "ssl_cert_reqs"}
)


def is_cluster(url: str) -> bool:
    """Say whether a URL names the nodes of a Redis Cluster."""
    return url.startswith((CLUSTER, CLUSTER_TLS))


class Cluster(NamedTuple):
    """A parsed ``redis+cluster://`` or ``rediss+cluster://`` URL.

    The form is ``redis+cluster://USER:PASSWORD@HOST:PORT,HOST:PORT``, with one user and password
    for all nodes. With TLS, redis-py's TLS options may follow, such as ``?ssl_ca_certs=FILE``.

    Attributes:
        hosts: The host and port of the nodes to ask first.
        tls: Whether to connect to all nodes with TLS.
        options: The user, the password and the TLS options for redis-py.
    """

    hosts: tuple[Address, ...]
    tls: bool
    options: dict[str, str]

    @classmethod
    def read(cls, url: str) -> Self:
        """Parse a URL.

        Raises:
            ConfigError: The URL is invalid. The message does not quote it, because it may contain
                a password.
        """
        rest, _, query = url.partition("?")
        scheme, _, rest = rest.partition("://")
        credentials, _, rest = rest.rpartition("@")
        names, _, path = rest.partition("/")
        tls = scheme.startswith("rediss")
        options = read_options(query)
        if unknown := options.keys() - (_TLS_OPTIONS if tls else frozenset()):
            raise _no_cluster(f"the option {min(unknown)!r} is unknown")
        if path not in {"", "0"}:
            raise _no_cluster("a cluster only has database 0")
        hosts = [read_address(one, _PORT) for one in names.split(",")]
        if None in hosts:
            raise _no_cluster("a node is HOST or HOST:PORT")
        return cls(tuple(one for one in hosts if one), tls, read_login(credentials) | options)

    @property
    def reach(self) -> dict[str, Any]:
        """The options of redis-py to connect to a node and ask it for the owner."""
        timeouts = {"socket_connect_timeout": PATIENCE, "socket_timeout": PATIENCE}
        return {**self.options, **timeouts, "ssl": self.tls, "decode_responses": True}


def slot_of(prefix: str) -> int:
    """Return the cluster slot of all keys with this prefix.

    https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/#hash-tags

    Raises:
        ConfigError: The prefix has no hash tag, so the keys would be in different slots.
    """
    if not re.match(r"[^{]*\{[^}]+\}", prefix) or not prefix.isascii():
        raise ConfigError(
            "a Redis Cluster would spread the keys over its slots. Use a prefix with an ASCII name "
            "in braces, such as {signoff}: or {signoff:finance}:",
            key="redis.prefix",
        )
    return key_slot(prefix.encode())


def celery_prefix(prefix: str) -> str:
    """Return the prefix of Celery's keys in a cluster, which has the hash tag of the ledger.

    It does not begin with the ledger's prefix, so the keys do not belong to the ledger.
    """
    return f"celery:{prefix}"


class Nodes:
    """The nodes to ask for the owner of the slot, including those that earlier replies named.

    Attributes:
        cluster: The parsed URL.
        slot: The slot of the keys.

    Raises:
        ConfigError: The keys would be in different slots.
    """

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        self.cluster = cluster
        self.slot = slot_of(prefix)
        self._named: tuple[Address, ...] = ()

    def rounds(self) -> Iterator[Sequence[Address]]:
        """Yield the nodes of the URL and, if they name no owner, other nodes of earlier replies."""
        yield self.cluster.hosts
        yield tuple(set(self._named) - set(self.cluster.hosts))

    def owner(self, asked: Address, slots: Sequence[Sequence[Any]]) -> Address:
        """Return the owner of the slot according to a node, and remember the nodes in the reply.

        Args:
            asked: The node that answered.
            slots: Its reply to ``CLUSTER SLOTS``.

        Raises:
            Unreachable: The reply names no owner.
        """
        self._named = tuple({_node(asked, one) for _, _, *nodes in slots for one in nodes})
        for first, last, owner, *_ in slots:
            if first <= self.slot <= last:
                return _node(asked, owner)
        raise Unreachable(f"No node serves slot {self.slot}")

    def nobody(self, problem: Exception | None) -> Unreachable:
        """Return the error when no node has named the owner."""
        why = f": {str(problem).rstrip('.')}" if problem else ""
        return Unreachable(f"No node of the cluster names the owner of slot {self.slot}{why}.")


class AskedNodes(Nodes):
    """Asks all nodes at once, and takes the owner that most of them name."""

    def __init__(self, cluster: Cluster, prefix: str) -> None:
        super().__init__(cluster, prefix)
        self._clients: dict[Address, redis.asyncio.Redis] = {}

    async def find(self) -> Address:
        """Return the host and port of the owner of the slot.

        Raises:
            Unreachable: No node names an owner.
        """
        problem: Exception | None = None
        for hosts in self.rounds():
            votes = Counter[Address]()
            asked = [asyncio.ensure_future(self._ask(one)) for one in hosts]
            try:
                for one in asyncio.as_completed(asked):
                    try:
                        votes[await one] += 1
                    except (RedisError, OSError) as error:
                        problem = error
                    if votes and 2 * votes.most_common(1)[0][1] > len(asked):
                        break
            finally:
                for each in asked:
                    each.cancel()
                await asyncio.gather(*asked, return_exceptions=True)
            if votes:
                return votes.most_common(1)[0][0]
        raise self.nobody(problem)

    async def _ask(self, node: Address) -> Address:
        if node not in self._clients:
            host, port = node
            once = redis.asyncio.retry.Retry(NoBackoff(), 0)
            reach = {**self.cluster.reach, "retry": once}
            self._clients[node] = redis.asyncio.Redis(host=host, port=port, **reach)
            name_tls(self._clients[node].connection_pool)
        slots = await self._clients[node].execute_command("CLUSTER SLOTS")  # type: ignore[no-untyped-call]
        return self.owner(node, slots)

    async def aclose(self) -> None:
        """Close the connections to the nodes."""
        for one in self._clients.values():
            await one.aclose()


class _NodeConnection(redis.asyncio.Connection):
    """Asks for the owner of the slot before each attempt to connect.

    A redirect such as ``MOVED`` means that the node has not executed the command. It counts as a
    lost connection, so the whole round trip is sent again, to the owner at that time. ``ASK`` is
    not followed: while a slot moves key by key, scripts would only find some of their keys. Each
    script names the prefix as a key, which never exists, so all scripts wait until the slot has
    moved.
    """

    def __init__(self, *, nodes: AskedNodes, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        self._nodes = nodes
        super().__init__(**options)

    async def _connect(self) -> None:
        self.host, self.port = await self._nodes.find()
        await super()._connect()  # type: ignore[no-untyped-call]

    async def read_response(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 -- redis-py's
        """Read a reply.

        Raises:
            Unreachable: The node does not serve the slot at the moment.
        """
        try:
            return await super().read_response(*args, **options)
        except ELSEWHERE as error:
            raise sent_elsewhere(error) from error


class _TLSNodeConnection(_NodeConnection, redis.asyncio.SSLConnection):
    """The same with TLS."""


class ClusterPool(redis.asyncio.BlockingConnectionPool):
    """Connections to the owner of the slot; callers wait if all are in use."""

    def __init__(self, nodes: AskedNodes, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        kind = _TLSNodeConnection if nodes.cluster.tls else _NodeConnection
        options = {**nodes.cluster.options, **options}
        super().__init__(connection_class=kind, nodes=nodes, **options)
        self._nodes = nodes

    async def aclose(self) -> None:
        """Close these connections and those for asking nodes."""
        await super().aclose()
        await self._nodes.aclose()


def sent_elsewhere(error: Exception) -> Unreachable:
    """Return the connection error for a reply such as ``MOVED``."""
    kind = type(error).__name__.removesuffix("Error").upper()
    return Unreachable(f"The node of the cluster does not serve the slot at the moment: {kind}")


def _node(asked: Address, row: Sequence[Any]) -> Address:
    """Return the address of a node in ``CLUSTER SLOTS``; it may not know its own host."""
    return row[0] or asked[0], int(row[1])


def _no_cluster(why: str) -> ConfigError:
    return ConfigError(
        f"the {CLUSTER} URL cannot be used: {why}. Write {CLUSTER}user:password@host1:6379,"
        f"host2:6379,host3:6379, or {CLUSTER_TLS} for TLS.",
        key="redis.url",
    )
