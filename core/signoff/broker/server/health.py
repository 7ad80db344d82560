"""What a Redis must be set to, to be a ledger; `signoff doctor` says what is missing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import LedgerUnavailable

_OLDEST: Final = (6, 2)

_WANTED: Final = {
    "appendonly": frozenset({"yes"}),
    "appendfsync": frozenset({"always", "everysec"}),
    "maxmemory-policy": frozenset({"noeviction"}),
}
_WAITS_ON_DISK: Final = (7, 2)
_REMEDIES: Final = {
    "appendonly": """Redis does not write an append-only file: after a crash, answers that were \
acknowledged are gone. Set `appendonly yes`.""",
    "appendfsync": """Redis leaves it to the system when its file reaches the disk. Set \
`appendfsync always` to lose nothing, or `appendfsync everysec` to lose a second at most.""",
    "maxmemory-policy": """Redis throws keys away when its memory is full, approvals among them. \
Set `maxmemory-policy noeviction`.""",
}


async def redis_problems(ledger: Ledger) -> list[str]:
    """Return what is wrong with the ledger's Redis, each with what to set; empty when all is well.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    async with ledger.store.translated_client() as client:
        # In one: some servers tell less to users without all rights, and none tells nothing.
        info = await client.info("everything")
    problems = list(_of_info(info, waits=ledger.store.replica))
    for name, wanted in _WANTED.items():
        try:
            async with ledger.store.translated_client() as client:
                value = (await client.config_get(name)).get(name, "")
        except LedgerUnavailable as error:
            # Hosted servers forbid CONFIG; whether Redis is there was seen above.
            problems.append(
                f"Redis does not say how it is set ({error.__cause__}). Allow `CONFIG GET` to this "
                "user, or see to it in the server's own configuration that `appendonly` is yes, "
                "`appendfsync` is always or everysec, and `maxmemory-policy` is noeviction."
            )
            break
        if value not in wanted:
            problems.append(_REMEDIES[name])
        elif value == "everysec" and ledger.store.replica and _version(info) >= _WAITS_ON_DISK:
            problems.append(
                "Redis writes its file once a second, and each commit waits for it, here and on a "
                "replica. Set `appendfsync always` on all servers."
            )
    return problems


def _of_info(info: Mapping[str, Any], *, waits: bool) -> Iterator[str]:
    """Yield what is wrong with what a server says of itself."""
    if _version(info) < _OLDEST:
        version = info.get("redis_version", "0")
        yield f"Redis {version} is too old: 6.2 is the oldest that will do. Upgrade it."
    if info.get("cluster_enabled"):
        yield (
            "Redis runs in cluster mode, which Signoff does not support. Use one primary with "
            "replicas and Sentinels: `sentinel://…` as [redis] url."
        )
    if info.get("role") == "slave":
        yield "this Redis is a replica and takes no writes. Set [redis] url to its primary."
    if waits and not info.get("connected_slaves"):
        yield (
            'no replica is connected, and [redis] durability is "replica": nothing is acknowledged '
            'before there is one. Start a replica, or set durability = "local".'
        )
    if waits and _version(info) >= _WAITS_ON_DISK and not info.get("aof_enabled"):
        yield "Redis waits for its replica on disk, and writes no file. Set `appendonly yes`."


def _version(info: Mapping[str, Any]) -> tuple[int, ...]:
    parts = str(info.get("redis_version", "0")).split(".")[:2]
    return tuple(int(part) for part in parts if part.isdigit())
