"""Celery's transport for Redis Cluster, which connects to the owner of the ledger's slot."""

from __future__ import annotations

from collections import Counter
from typing import Any

import redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from signoff.broker.doorbells.waiting import BlockingChannel, BlockingTransport
from signoff.broker.server.cluster import Nodes, sent_elsewhere
from signoff.broker.server.hosts import Address
from signoff.broker.server.redis_py import ELSEWHERE


class _Connection(redis.Connection):
    """Asks the nodes for the owner of the slot before each attempt to connect.

    It only connects if the owner serves the slot. Otherwise a consumer whose commands are
    redirected would connect to the same node again and again without a pause.
    """

    def __init__(self, *, nodes: Nodes, probe: str, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        self._nodes = nodes
        self._probe = probe
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:  # noqa: ANN401 -- the socket
        self.host, self.port = self._find()
        return super()._connect()  # type: ignore[no-untyped-call]

    def on_connect_check_health(self, *args: Any, **options: Any) -> None:  # noqa: ANN401 -- redis-py's
        """Log in, and check that the node serves the slot."""
        super().on_connect_check_health(*args, **options)
        self.send_command("EXISTS", self._probe, check_health=False)  # type: ignore[no-untyped-call]
        self.read_response()

    def read_response(self, *args: Any, **options: Any) -> Any:  # noqa: ANN401 -- redis-py's
        """Read a reply.

        Raises:
            Unreachable: The node does not serve the slot at the moment.
        """
        try:
            return super().read_response(*args, **options)
        except ELSEWHERE as error:
            self.disconnect()  # type: ignore[no-untyped-call]
            raise sent_elsewhere(error) from error

    def _find(self) -> Address:
        problem: Exception | None = None
        for hosts in self._nodes.rounds():
            votes = Counter[Address]()
            for one in hosts:
                try:
                    votes[self._ask(one)] += 1
                except (RedisError, OSError) as error:
                    problem = error
                if votes and 2 * votes.most_common(1)[0][1] > len(hosts):
                    break
            if votes:
                return votes.most_common(1)[0][0]
        raise self._nodes.nobody(problem)

    def _ask(self, node: Address) -> Address:
        host, port = node
        reach = {**self._nodes.cluster.reach, "retry": Retry(NoBackoff(), 0)}
        with redis.Redis(host=host, port=port, **reach) as client:
            return self._nodes.owner(node, client.execute_command("CLUSTER SLOTS"))


class _TLSConnection(_Connection, redis.SSLConnection):
    """The same with TLS."""


class _Channel(BlockingChannel):
    nodes: Nodes
    from_transport_options = (*BlockingChannel.from_transport_options, "nodes")

    def _connparams(self, asynchronous: bool = False) -> dict[str, Any]:
        cluster = self.nodes.cluster
        self.connection_class = _TLSConnection if cluster.tls else _Connection
        about = {"nodes": self.nodes, "probe": self.global_keyprefix}
        return {**super()._connparams(asynchronous), **cluster.options, **about}  # type: ignore[misc]


class ClusterTransport(BlockingTransport):
    """kombu's transport for a single server, with connections to the owner of the slot."""

    Channel = _Channel
