"""A process that archives in small steps; tests kill it in the middle."""

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
    """Archive all ended runs; wait until the lease of a killed process runs out."""
    vars(archiving).update(_RUNS=7, _AT_ONCE=1, _LEASE=0.5)
    ledger = Ledger(Store.open(url, prefix=prefix))
    archiver = archiving.Archiver(ledger, ArchiveFiles(Path(folder)), after=timedelta())
    busy = True
    while busy:
        # A killed process may still hold the lease; on a busy machine,
        # this process may also lose so short a lease.
        with contextlib.suppress(LeaseLost):
            busy = (await archiver.once()).busy
        await asyncio.sleep(0.05)
    await ledger.close()


asyncio.run(main(*sys.argv[1:]))
