"""The anchor: the record in the ledger that says where the archive ends."""

from pydantic import Field, ValidationError

from signoff.broker.archive.files import PartialFile
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.base.errors import RecordUnreadable
from signoff.core.base.model import Value

KEY = "archive"
LEASE_KEY = "lease:archive"


class Swap(Value):
    """A replacement for a file of the archive, from which personal data was erased."""

    sequence: int
    part: str
    sha256: str


class Anchor(Value):
    """The end of the archive.

    Attributes:
        sequence: The number of the last file; 0 if there is none.
        part: The temporary name of that file.
        sha256: The checksum of that file.
        entry: The stream id of the last audit entry in the archive, "" if there is none.
        link: The link of that entry.
        count: How many entries are in the archive.
        pruning: Whether contents of the last file may still be in the ledger.
        kept: Runs in the last file that stayed in the ledger; see `FileHeader.kept`.
        swaps: Replacements that are written, but may not have their final names yet.
        version: The number of commits that wrote the anchor.
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
    def last(self) -> PartialFile:
        """The temporary name and the checksum of the last file."""
        return PartialFile(self.part, self.sha256)

    def put(self, change: Change, after: "Anchor") -> Change:
        """Add the replacement of this anchor by another one to a change."""
        return change.put_raw(KEY, after.model_dump_json(exclude_defaults=True), was=self.version)


async def read_anchor(ledger: Ledger) -> Anchor:
    """Return the current anchor.

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
