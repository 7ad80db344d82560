"""What a Redis must be set to, to be a ledger; `signoff doctor` says what is missing."""

from __future__ import annotations

from typing import Final

from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import LedgerUnavailable

_OLDEST: Final = (6, 2)

_WANTED: Final = {
    "appendonly": frozenset({"yes"}),
    "appendfsync": frozenset({"always", "everysec"}),
    "maxmemory-policy": frozenset({"noeviction"}),
}
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
    problems = []
    async with ledger.store.translated_client() as client:
        version = str((await client.info("server")).get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdigit()) < _OLDEST:
        problems.append(f"Redis {version} is too old: 6.2 is the oldest that will do. Upgrade it.")
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
    return problems
