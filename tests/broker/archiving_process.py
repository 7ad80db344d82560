"""A process that archives in small steps, to be killed in the middle of it."""

import asyncio
import contextlib
import sys
from datetime import timedelta
from pathlib import Path

from signoff.broker.archive import archiver as archiving
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.core.base.errors import LeaseLost


async def main(url: str, prefix: str, folder: str) -> None:
    """Archive all that has ended; wait for the lease of one that was killed to run out."""
    vars(archiving).update(_RUNS=7, _AT_ONCE=1, _LEASE=0.5)
    ledger = Ledger(Store.open(url, prefix=prefix))
    archiver = archiving.Archiver(ledger, ArchiveFiles(Path(folder)), after=timedelta())
    busy = True
    while busy:
        # Another process, which was killed, may hold the lease still; on a busy machine so short a
        # lease may be lost as well.
        with contextlib.suppress(LeaseLost):
            busy = (await archiver.once()).busy
        await asyncio.sleep(0.05)
    await ledger.close()


asyncio.run(main(*sys.argv[1:]))
