"""The anchor: what the ledger knows of the archive, and where the audit goes on."""

from __future__ import annotations

from pydantic import Field, ValidationError

from signoff.broker.archive.files import Part
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import Value

KEY = "archive"
LEASE_KEY = "lease:archive"


class Swap(Value):
    """A file that replaces one of the archive, because personal data was erased from it."""

    sequence: int
    part: str
    sha256: str


class Anchor(Value):
    """What the ledger knows of the archive.

    Attributes:
        sequence: The number of the last file; 0 where there is none.
        part: The name that it was written under.
        sha256: Its checksum.
        entry: The stream id of the last entry of the audit in the archive, "" where there is none.
        link: The link of that entry.
        count: How many entries are in the archive.
        pruning: Whether what is in the last file may still be in the ledger.
        kept: Runs in the last file that do not count there; see `Head.kept`.
        swaps: Files whose replacements are written and may not be in their places yet.
        version: Counts the commits.
    """

    sequence: int = 0
    part: str = ""
    sha256: str = ""
    entry: str = ""
    link: str = ""
    count: int = 0
    pruning: bool = False
    kept: tuple[str, ...] = ()
    swaps: tuple[Swap, ...] = ()
    version: int = Field(0, exclude=True)

    @property
    def last(self) -> Part:
        """The last file, as it was written."""
        return Part(self.part, self.sha256)

    def put(self, change: Change, after: Anchor) -> Change:
        """Add to a change that another anchor takes the place of this one."""
        return change.put_raw(KEY, after.model_dump_json(exclude_defaults=True), was=self.version)


async def read_anchor(ledger: Ledger) -> Anchor:
    """Return the anchor as it stands.

    Raises:
        RecordUnreadable: A newer version of Signoff has written it.
        LedgerUnavailable: Redis cannot be reached.
    """
    record = await ledger.raw(KEY)
    if record is None:
        return Anchor()
    try:
        found = Anchor.model_validate_json(record[1])
    except ValidationError as error:
        raise RecordUnreadable(KEY, str(error)) from error
    return found.model_copy(update={"version": record[0]})
