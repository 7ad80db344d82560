"""An archiving process is killed again and again: nothing is lost or stored twice."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from archiving import seeded
from signoff.broker.archive import reading
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger.ledger import Ledger

PROCESS = Path(__file__).parents[1] / "broker" / "archiving_process.py"
PATIENCE = 300.0


async def archived(ledger: Ledger, files: ArchiveFiles) -> list[str]:
    """Return the ids of the runs in the archive."""
    found = reading.items(ledger, files)
    return [one.record.id async for one in found if one.record.kind == "run"]


@pytest.mark.soak
async def test_killed_in_the_middle_of_archiving(
    ledger: Ledger, redis_url: str, prefix: str, tmp_path: Path
) -> None:
    """Each run is in the archive once or in the ledger; in the end all are in the archive."""
    ids = await seeded(ledger, 40, waiting=2)
    folder, left = tmp_path / "archive", 40
    command = [sys.executable, str(PROCESS), redis_url, prefix, str(folder)]
    files = ArchiveFiles(folder)
    for step in (1, 6, 5, 12):
        process = await asyncio.create_subprocess_exec(*command)
        # It may archive more, or all, before this process notices.
        wanted = max(left - step, 0)
        async with asyncio.timeout(PATIENCE):
            while await ledger.store.client.zcard(f"{prefix}runs") - 2 > wanted:
                assert process.returncode in {None, 0}
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        here = {one.id for one in await ledger.recent_runs()}
        gone = await archived(ledger, files)
        assert {*ids} <= here | {*gone}
        assert len(gone) == len(set(gone))
        assert len(here) - 2 <= wanted
        left = len(here) - 2
    process = await asyncio.create_subprocess_exec(*command)
    assert await asyncio.wait_for(process.wait(), PATIENCE) == 0
    gone = await archived(ledger, files)
    assert sorted(gone) == ids
    assert len(await ledger.recent_runs()) == 2
    verified = await reading.verify(ledger, files)
    assert verified.archived >= 40 * 6 + 2
    assert not list(folder.glob("*.part"))
