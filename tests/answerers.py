"""People who keep answering while the ledger's servers crash and restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from builders import MARA, paused, people
from deciding import Decider
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import State
from signoff.core.base.errors import AlreadyDecided, LeaseLost, LedgerUnavailable

_PEOPLE = 8


class Answerers:
    """People who answer approvals, with the answers that were acknowledged to them.

    Attributes:
        acknowledged: The approvals whose answer was acknowledged.
    """

    def __init__(self, ledger: Ledger) -> None:
        self.acknowledged: set[str] = set()
        self._ledger = ledger
        self._decider = Decider(ledger, people())
        self._stop = asyncio.Event()

    async def more(self, count: int) -> None:
        """Wait until this number of further answers has been acknowledged."""
        had = len(self.acknowledged)
        while len(self.acknowledged) < had + count:  # noqa: ASYNC110 -- there is no signal
            await asyncio.sleep(0.02)

    def stop(self) -> None:
        """Let each person finish their current answer and then stop."""
        self._stop.set()

    async def answer(self) -> None:
        """Answer one approval after another until `stop`."""
        while not self._stop.is_set():
            try:
                _, (approval,) = await paused(self._ledger)
            except (LedgerUnavailable, LeaseLost, IndexError):
                # Only the dead primary knew this lease, so the work is claimed again.
                await asyncio.sleep(0.05)
                continue
            while not self._stop.is_set():
                with suppress(LedgerUnavailable):
                    with suppress(AlreadyDecided):
                        await self._decider.approve(approval.id, MARA, channel="cli")
                    self.acknowledged.add(approval.id)
                    break
                await asyncio.sleep(0.05)

    async def verify(self) -> None:
        """Check that the ledger has every acknowledged answer."""
        found = await self._ledger.approvals(sorted(self.acknowledged))
        assert {one.state for one in found} == {State.APPROVED}
        await audit.verify(self._ledger.store)


@asynccontextmanager
async def answering(ledger: Ledger) -> AsyncIterator[Answerers]:
    """Let people answer while the block runs, and then check that no answer is lost."""
    answerers = Answerers(ledger)
    async with asyncio.TaskGroup() as group:
        for _ in range(_PEOPLE):
            group.create_task(answerers.answer())
        try:
            yield answerers
        finally:
            answerers.stop()
    await answerers.verify()
