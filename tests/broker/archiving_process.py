"""A process that archives in small steps, to be killed in the middle of it."""

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

from signoff.broker.archive import archiver as archiving
from signoff.broker.archive.files import ArchiveFiles
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store


async def main(url: str, prefix: str, folder: str) -> None:
    """Archive all that has ended; wait for the lease of one that was killed to run out."""
    vars(archiving).update(_RUNS=7, _AT_ONCE=1, _LEASE=0.5)
    ledger = Ledger(Store.open(url, prefix=prefix))
    archiver = archiving.Archiver(ledger, ArchiveFiles(Path(folder)), after=timedelta())
    while (await archiver.once()).busy:  # noqa: ASYNC110 -- in another process, which was killed
        await asyncio.sleep(0.05)
    await ledger.close()


asyncio.run(main(*sys.argv[1:]))
