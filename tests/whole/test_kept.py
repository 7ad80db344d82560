"""The keys that real processes leave in Redis are in the reference, with the stated expiry."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from archiving import seeded
from promises.plant import ROOT, Plant, plant
from signoff.broker.archive.archiver import Archiver
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.archive.reading import items
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.submit import submit

PATIENCE = 300
_TYPES = {"sorted set": "zset"}


@cache
def stated() -> list[tuple[re.Pattern[str], str, str]]:
    """Return the rows of the table: key pattern, type and expiry."""
    text = (ROOT / "docs/reference/redis-keys.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`[^|]+`) \| ([^|]+) \| ([^|]+) \|", text, re.MULTILINE)
    found = []
    for names, kind, kept in rows:
        for name in re.findall(r"`([^`]+)`", names):
            form = re.sub(r"[A-Z]+", ".+", re.escape(name).replace("…", ".*"))
            found.append((re.compile(form), _TYPES.get(kind, kind), kept))
    return found


def row_of(key: str) -> tuple[str, str]:
    """Return the type and expiry of a key from the most exact row of the table."""
    fitting = [one for one in stated() if one[0].fullmatch(key)]
    assert fitting, f"{key} is not in docs/reference/redis-keys.md"
    _, kind, kept = max(fitting, key=lambda one: len(one[0].pattern.replace(".+", "")))
    return kind, kept


async def idle(ledger: Ledger) -> None:
    """Wait until all messages are delivered."""
    async with asyncio.timeout(PATIENCE):
        while any((await ledger.backlog()).values()):  # noqa: ASYNC110 -- in other processes
            await asyncio.sleep(0.1)


async def approved(built: Plant, count: int, start: int) -> None:
    """Complete runs: the agent pauses, Mara approves by mail, the agent resumes."""
    ledger = built.parts.ledger
    runs = [
        await submit(ledger, "finance", f"Reimburse me $2500 for trip {start + one}", user="riley")
        for one in range(count)
    ]
    answering = asyncio.create_task(built.answer_everything(lambda _: "approve"))
    try:
        async with asyncio.timeout(PATIENCE):
            await built.ends(one.id for one in runs)
    finally:
        answering.cancel()
    await idle(ledger)


async def lasting(ledger: Ledger) -> dict[str, Any]:
    """Return the size of each key without an expiry; check all keys against the table."""
    client, prefix = ledger.store.client, ledger.store.prefix
    found: dict[str, Any] = {}
    for key in await ledger.store.keys(""):
        kind, ttl = await client.type(prefix + key), await client.ttl(prefix + key)
        if ttl == -2:
            continue
        stated_kind, kept = row_of(key)
        assert kind == stated_kind, key
        unbound = kept in {"always", "with its members"}
        lasts = unbound or kept.startswith("until ")
        assert lasts if ttl == -1 else not unbound, (key, ttl, kept)
        if ttl == -1:
            sizes = {"zset": client.zcard, "hash": client.hlen, "stream": client.xlen}
            size: Any = sizes.get(str(kind))
            found[key] = 1 if size is None else await size(prefix + key)
    return found


@pytest.mark.soak
async def test_archived_run_leaves_no_key_in_redis(tmp_path: Path) -> None:
    """After archiving, Redis has the same keys and members, however many runs there were."""
    retention = '[retention]\nafter = "1m"\n'
    async with plant(tmp_path, gateway=retention) as built:
        ledger, found = built.parts.ledger, list[dict[str, Any]]()
        files = ArchiveFiles(tmp_path / ".signoff" / "archive")
        archiver = Archiver(ledger, files, after=timedelta())
        # A channels process archives old runs when it starts.
        await seeded(ledger, 2, ago=timedelta(minutes=5))
        await built.start("worker", "channels", "gateway")
        async with asyncio.timeout(PATIENCE):
            while await ledger.recent_runs():  # noqa: ASYNC110 -- in another process
                await asyncio.sleep(0.1)
        assert len([one async for one in items(ledger, files) if one.record.kind == "run"]) == 2
        for many in (1, 2):
            await approved(built, many, start=len(found) * 10)
            await lasting(ledger)
            assert (await archiver.once()).runs == many
            found.append(await lasting(ledger))
        first, second = found
        assert {key: second[key] - size for key, size in first.items()} == dict.fromkeys(first, 0)
        assert {*second} == {*first}
        assert first["audit"] <= 2
