"""Checks the settings of the Redis that holds the ledger, for `signoff doctor`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from signoff.broker.ledger.ledger import Ledger
from signoff.broker.server.redis_py import redis
from signoff.core.base.errors import LedgerUnavailable

_OLDEST: Final = (6, 2)

_WANTED: Final = {
    "appendonly": frozenset({"yes"}),
    "appendfsync": frozenset({"always", "everysec"}),
    "maxmemory-policy": frozenset({"noeviction"}),
}
_WAITS_ON_DISK: Final = (7, 2)
_FULL: Final = 0.85
"""The part of the memory from which Redis counts as nearly full, as in the alert rules."""

WRITES: Final = ("aof_last_write_status", "aof_last_bgrewrite_status", "rdb_last_bgsave_status")
"""The fields of ``INFO persistence`` that say whether Redis could write to its disk."""

_REMEDIES: Final = {
    "appendonly": """Redis does not write an append-only file: a crash loses answers that were \
acknowledged. Set `appendonly yes`.""",
    "appendfsync": """Redis lets the operating system decide when its file reaches the disk. Set \
`appendfsync always` to lose nothing, or `appendfsync everysec` to lose at most one second.""",
    "maxmemory-policy": """Redis evicts keys when its memory is full, including approvals. \
Set `maxmemory-policy noeviction`.""",
}


async def eviction_problem(ledger: Ledger) -> str:
    """Return the problem if Redis evicts records, "" if not. Any Redis user may find it out.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with ledger.store.translated_client() as client:
        policy = (await client.info("memory")).get("maxmemory_policy", "noeviction")
    return "" if policy in _WANTED["maxmemory-policy"] else _REMEDIES["maxmemory-policy"]


async def redis_problems(ledger: Ledger) -> list[str]:
    """Return the problems of the ledger's Redis, each with its remedy; empty if there are none.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with ledger.store.translated_client() as client:
        # All sections at once: some servers leave sections out for users without all rights.
        info = await client.info("everything")
    problems = list(_of_info(info, waits=ledger.store.replica))
    if info.get("role") != "slave" and (refusal := await _refusal(ledger)):
        problems.append(
            f"Redis takes no writes, so nothing can be decided: {refusal}. Its log and `INFO` have "
            "the cause, such as a full disk, too little memory or a missing replica."
        )
    if info.get("cluster_enabled") and not ledger.store.in_cluster:
        problems.append(
            "Redis runs in cluster mode, but [redis] url names a single server, so Signoff cannot "
            "follow a failover. Set it to several nodes: redis+cluster://host1:6379,host2:6379."
        )
    for name, wanted in _WANTED.items():
        value: str | None
        try:
            async with ledger.store.translated_client() as client:
                value = (await client.config_get(name)).get(name, "")
        except LedgerUnavailable:
            # INFO has one of them; `redis_doubts` reports the others.
            value = info.get(name.replace("-", "_"))
        if value is None:
            continue
        if value not in wanted:
            problems.append(_REMEDIES[name])
        elif value == "everysec" and ledger.store.replica and _version(info) >= _WAITS_ON_DISK:
            problems.append(
                "Redis writes its file once a second, and each commit waits for it here and on a "
                "replica. Set `appendfsync always` on all servers."
            )
    return problems


async def _refusal(ledger: Ledger) -> str:
    """Return why Redis refuses to write, "" if it does not. Nothing is written."""
    async with (
        ledger.store.translated_client() as client,
        client.pipeline(transaction=False) as pipe,
    ):
        # Of nothing into a missing key: it is refused as any other write, and changes nothing.
        pipe.execute_command("SETRANGE", f"{ledger.store.prefix}probe:doctor", 0, "")
        (reply,) = await pipe.execute(raise_on_error=False)
    # The users of some processes may not write this key.
    allowed = not isinstance(reply, redis.exceptions.NoPermissionError)
    return str(reply).rstrip(".") if isinstance(reply, Exception) and allowed else ""


async def redis_doubts(ledger: Ledger) -> list[str]:
    """Return what may become a problem of the ledger's Redis, each with its remedy.

    Hosted servers forbid ``CONFIG``, so that some settings cannot be checked.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with ledger.store.translated_client() as client:
        doubts = list(_of_state(await client.info("memory") | await client.info("persistence")))
        replicas = (await client.info("replication")).get("connected_slaves")
    if replicas and not ledger.store.replica:
        doubts.append(
            "Redis has replicas, and commits do not wait for them: a failover can lose confirmed "
            'answers, and run approved calls again. Set [redis] durability = "replica", unless no '
            "replica ever takes over or the service itself waits, as Amazon MemoryDB does"
        )
    try:
        async with ledger.store.translated_client() as client:
            await client.config_get("appendonly")
    except LedgerUnavailable as error:
        doubt = (
            f"Redis does not reveal its settings ({error.__cause__}). Allow `CONFIG GET` for this "
            "user, or check in the server's own configuration that `appendonly` is yes, "
            "`appendfsync` is always or everysec, and `maxmemory-policy` is noeviction"
        )
        doubts.append(doubt)
    return doubts


def _of_state(info: Mapping[str, Any]) -> Iterator[str]:
    """Yield what the reply to ``INFO`` says about memory and disk."""
    used, most = int(info.get("used_memory", 0)), int(info.get("maxmemory", 0))
    if most and used > _FULL * most:
        yield (
            f"Redis has used {used / most:.0%} of its memory. When it is full, nothing can be "
            "decided: raise `maxmemory`, or archive more with [retention] after"
        )
    if failed := [one for one in WRITES if info.get(one, "ok") != "ok"]:
        yield (
            f"Redis could not write to its disk ({', '.join(failed)}): a crash may lose answers "
            "that were acknowledged. Its log has the cause, such as a full disk"
        )


def _of_info(info: Mapping[str, Any], *, waits: bool) -> Iterator[str]:
    """Yield the problems that the reply to ``INFO`` shows."""
    if _version(info) < _OLDEST:
        version = info.get("redis_version", "0")
        yield f"Redis {version} is too old: Signoff needs 6.2 or later. Upgrade it."
    if info.get("role") == "slave":
        yield "this Redis is a replica and takes no writes. Set [redis] url to its primary."
    if waits and not info.get("connected_slaves"):
        yield (
            'no replica is connected, but [redis] durability is "replica": nothing is acknowledged '
            'until one is connected. Start a replica, or set durability = "local".'
        )
    if waits and _version(info) >= _WAITS_ON_DISK and not info.get("aof_enabled"):
        yield "Commits wait until they are on disk, but Redis writes no file. Set `appendonly yes`."


def _version(info: Mapping[str, Any]) -> tuple[int, ...]:
    parts = str(info.get("redis_version", "0")).split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())
