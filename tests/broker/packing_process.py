"""A process that packs everything again and again; tests kill it in the middle."""

import asyncio
import sys
from datetime import timedelta

from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.store import Store
from signoff.broker.timers.packer import Packer


async def main(url: str, prefix: str) -> None:
    """Pack until killed, in small blocks; print a line after each round."""
    vars(audit).update(BLOCK=5)
    packer = Packer(Ledger(Store.open(url, prefix=prefix)), timedelta())
    while True:
        sys.stdout.write(f"{await packer.once()}\n")
        sys.stdout.flush()


asyncio.run(main(*sys.argv[1:]))
