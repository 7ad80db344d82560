"""A Redis Cluster of real processes on loopback."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from redis.exceptions import ResponseError

from ports import free_port
from sentinels import PATIENCE, Server, following
from signoff.broker.server.cluster import slot_of
from signoff.broker.server.embedded import find_server

SLOTS = 16384
_BETWEEN = 10_000
"""The distance between a node's port and its port for other nodes."""

SLOT = slot_of("{signoff}:")


class Node(Server):
    """A node of the cluster.

    Attributes:
        open_port: The port by which Signoff and the other nodes reach it.
    """

    def __init__(self, folder: Path, program: Path, certificate: Path | None) -> None:
        cluster = {
            "cluster_enabled": "yes",
            "cluster_node_timeout": "1500",
            "cluster_replica_validity_factor": "0",
            # The ledger's replica never moves to a primary that has lost its own.
            "cluster_migration_barrier": "99",
            "appendonly": "yes",
            "appendfsync": "always",
            "save": '""',
            "repl_diskless_sync_delay": "0",
        }
        self.open_port = port = free_port(above=_BETWEEN)
        if certificate is not None:
            files = dict.fromkeys(("cert", "key", "ca_cert"), str(certificate))
            cluster |= {f"tls_{name}_file": file for name, file in files.items()}
            cluster |= dict.fromkeys(("tls_cluster", "tls_replication"), "yes")
            cluster |= {"tls_auth_clients": "no", "tls_port": str(port)}
            port = free_port(above=_BETWEEN)
        super().__init__(folder, program, port=str(port), **cluster)

    @property
    def id(self) -> str:
        """The id of the node in the cluster."""
        return str(self.ask("MYID"))

    def ask(self, *words: str | int) -> Any:
        """Send a command of CLUSTER, and return the reply."""
        name, *rest = words
        return self.client.execute_command(f"CLUSTER {name}", *rest)  # type: ignore[no-untyped-call]

    def owner(self) -> str:
        """Return the id of the node that this node considers the owner of the ledger's slot."""
        for first, last, owner, *_ in self.ask("SLOTS"):
            if first <= SLOT <= last:
                return str(owner[2])
        return ""

    def healthy(self, nodes: int) -> bool:
        """Return whether this node knows this number of nodes and sees every slot served."""
        about: Any = self.ask("INFO")
        rows = (
            about
            if isinstance(about, dict)
            else dict(line.split(":", 1) for line in about.splitlines() if ":" in line)
        )
        return rows["cluster_state"] == "ok" and int(rows["cluster_known_nodes"]) == nodes


class Servers:
    """The nodes of a cluster: the first ones share the slots, the others replicate the owner.

    The owner is the primary that has the ledger's slot.
    """

    def __init__(self, nodes: Sequence[Node], primaries: int, certificate: Path | None) -> None:
        self.nodes = list(nodes)
        self._certificate = certificate
        self._primaries = primaries
        self._replicas = len(nodes) - primaries
        self._dead = nodes[0]

    @property
    def url(self) -> str:
        """The URL that Signoff uses to find the owner of the slot."""
        hosts = ",".join(f"127.0.0.1:{one.open_port}" for one in self.nodes)
        if self._certificate is None:
            return f"redis+cluster://{hosts}"
        return f"rediss+cluster://{hosts}?ssl_ca_certs={self._certificate}"

    @property
    def living(self) -> list[Node]:
        """The running nodes."""
        return [one for one in self.nodes if one.process and one.process.poll() is None]

    def owner(self) -> Node | None:
        """Return the owner of the ledger's slot if all running nodes agree on it."""
        named = {one.owner() for one in self.living}
        found = [one for one in self.living if {one.id} == named]
        return found[0] if found else None

    async def fail_over(self) -> None:
        """Kill the owner, and wait until another node owns the slot and has a replica."""
        old = self.owner()
        assert old is not None
        old.signal(signal.SIGKILL)
        self._dead = old
        await until(lambda: (self.owner() or old) is not old)
        await until(lambda: following(self.owner() or old) > 0)

    def restart(self) -> None:
        """Start the killed node again."""
        self._dead.start()

    async def recover(self) -> None:
        """Start the killed node again, and wait until it replicates the owner."""
        self.restart()
        await until(lambda: following(self.owner() or self._dead) == self._replicas)

    async def promote(self) -> None:
        """Make the last node, a replica, the owner; the old owner becomes its replica."""
        new = self.nodes[-1]
        deadline = time.monotonic() + PATIENCE
        while self.owner() is not new and time.monotonic() < deadline:
            with suppress(ResponseError):
                new.ask("FAILOVER")
            # A replica gives up after five seconds. On a busy machine, it needs another attempt.
            with suppress(AssertionError):
                await until(lambda: self.owner() is new, patience=6)
        await until(lambda: self.owner() is new and following(new) == self._replicas)

    async def begin_moving(self, target: Node) -> Node:
        """Announce that the ledger's slot moves to a node, and return the current owner."""
        source = self.owner()
        assert source is not None
        target.ask("SETSLOT", SLOT, "IMPORTING", source.id)
        source.ask("SETSLOT", SLOT, "MIGRATING", target.id)
        return source

    async def move_keys(self, source: Node, target: Node, *, most: int = 0) -> None:
        """Move the keys of the ledger's slot: all of them, or at most this number."""
        while keys := source.ask("GETKEYSINSLOT", SLOT, most or 10):
            where = "127.0.0.1", target.port, "", 0, 5000, "KEYS"
            await asyncio.to_thread(source.client.execute_command, "MIGRATE", *where, *keys)
            if most:
                return

    async def end_moving(self, target: Node) -> None:
        """Declare a node the owner of the ledger's slot."""
        for one in (
            target,
            *(each for each in self.nodes[: self._primaries] if each is not target),
        ):
            one.ask("SETSLOT", SLOT, "NODE", target.id)
        await until(lambda: self.owner() is target)


async def until(wanted: Callable[[], bool], *, patience: float = PATIENCE) -> None:
    """Check a condition again and again until it holds, for at most this number of seconds."""
    deadline = time.monotonic() + patience
    while not await asyncio.to_thread(wanted):
        assert time.monotonic() < deadline, "the nodes do not agree"
        await asyncio.sleep(0.05)


@contextmanager
def clustered(
    folder: Path,
    *,
    primaries: int = 3,
    replicas: int = 1,
    program: Path | None = None,
    certificate: Path | None = None,
) -> Iterator[Servers]:
    """Start primaries that share the slots, and replicas of the owner of the ledger's slot.

    Args:
        folder: The folder for their data.
        primaries: The number of nodes that share the slots. With three, two can replace a dead one.
        replicas: How many nodes replicate the owner of the ledger's slot.
        program: The server; the default is the one of this machine.
        certificate: Certificate and key of all nodes, if clients are to use TLS.
    """
    program = program or find_server()
    nodes = [Node(folder, program, certificate) for _ in range(primaries + replicas)]
    owner = nodes[0]
    try:
        for one in nodes:
            one.start()
        for place, one in enumerate(nodes[:primaries]):
            slots = range(SLOTS * place // primaries, SLOTS * (place + 1) // primaries)
            one.ask("ADDSLOTS", *((SLOT + slot) % SLOTS for slot in slots))
        for epoch, one in enumerate(nodes):
            one.ask("SET-CONFIG-EPOCH", epoch + 1)
        for one in nodes:
            for other in nodes:
                if other is not one:
                    one.ask("MEET", "127.0.0.1", other.open_port)
        _wait(lambda: all(one.healthy(len(nodes)) for one in nodes))
        for one in nodes[primaries:]:
            one.ask("REPLICATE", owner.id)
        _wait(lambda: following(owner) == replicas)
        _wait(lambda: all(one.healthy(len(nodes)) and one.owner() == owner.id for one in nodes))
        yield Servers(nodes, primaries, certificate)
    finally:
        for one in nodes:
            one.stop()


def _wait(wanted: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not wanted():
        assert time.monotonic() < deadline, "the nodes do not find each other"
        time.sleep(0.02)
