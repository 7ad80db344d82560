"""The people and the rotations of the queues, as a process has last read them from the ledger."""

from __future__ import annotations

import structlog

from signoff.broker.directory.absences import People
from signoff.broker.directory.rotation import RotationKeeper
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import RecordUnreadable
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)


class Roster:
    """The directory and the rotations, by which approvals are judged.

    Args:
        ledger: Has the absences, the groups and the rotations.
        directory: The people as the settings have them.

    Attributes:
        directory: The people as of the last `refresh`.
        rotations: The rotations of the queues as of then.
        people: Sets absences.
    """

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self.ledger = ledger
        self.directory = directory
        self.rotations = RotationKeeper({})
        self.people = People(ledger, directory)

    async def refresh(self) -> None:
        """Read who is away by now, and whose turn it is in the queues.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        try:
            self.directory = await self.people.directory()
        except RecordUnreadable as error:
            # Who was away when it could be read still is, and questions go on.
            log.error("roster.absences_unreadable", error=str(error))  # noqa: TRY400 -- the message says it all
        self.rotations = await RotationKeeper.read(self.ledger, self.directory)
