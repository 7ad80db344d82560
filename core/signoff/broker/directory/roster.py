"""The people and the rotations of the queues, as a process last read them."""

from __future__ import annotations

import structlog

from signoff.broker.directory.absences import People
from signoff.broker.directory.rotation import RotationKeeper
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import RecordUnreadable
from signoff.core.directory.people import Directory

log = structlog.get_logger(__name__)


class Roster:
    """The directory and the rotations that approvals are judged by.

    Args:
        ledger: The ledger with absences, groups and rotations.
        directory: The people of the settings.

    Attributes:
        rotations: The rotations of the queues as of the last `refresh`.
        people: Sets absences.
    """

    def __init__(self, ledger: Ledger, directory: Directory) -> None:
        self.ledger = ledger
        self.rotations = RotationKeeper({})
        self.people = People(ledger, directory)

    @property
    def directory(self) -> Directory:
        """The people of the current settings, with absences and freezes as last read."""
        return self.people.present

    async def refresh(self) -> None:
        """Read the current absences and rotations.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        try:
            await self.people.directory()
        except RecordUnreadable as error:
            # Go on with the absences that were last read.
            log.error("roster.absences_unreadable", error=str(error))  # noqa: TRY400 -- the message says it all
        self.rotations = await RotationKeeper.read(self.ledger, self.directory)
