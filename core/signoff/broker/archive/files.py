"""The files of the archive: JSON Lines, written once, with a checksum at the end.

The name of a file is its number, ``000001.jsonl``. The first line says where in the audit the file
begins. Then follow audit entries, as `signoff audit export` writes them, and records of runs,
approvals and grants. The last line has the SHA-256 of all bytes before it.
"""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import Field, ValidationError

from signoff.broker.ledger.audit import from_line
from signoff.broker.server.private import private_folder
from signoff.core.base.errors import ArchiveBroken
from signoff.core.base.model import Value

_HEAD: Final = '{"archive":'
_ENTRY: Final = '{"id": '
_RECORD: Final = '{"record": '
_END: Final = re.compile(r'\{"sha256": "([0-9a-f]{64})"\}\n')


class FileHeader(Value):
    """The first line of a file.

    Attributes:
        archive: The version of the format.
        sequence: The number of the file, from 1.
        after: The stream id of the last audit entry before this file; "" if there is none.
        link: The link of that entry.
        count: How many entries precede this file.
        at: When it was written (UTC).
        kept: Runs of the previous file that do not count there: they changed while they were
            archived, and stayed in the ledger.
    """

    archive: int = Field(1, le=1)
    sequence: int
    after: str = ""
    link: str = ""
    count: int = 0
    at: datetime
    kept: tuple[str, ...] = ()


class ArchivedEntry(NamedTuple):
    """An entry of the audit; `hashed` is set if personal data was erased from its text."""

    id: str
    text: str
    link: str
    hashed: str = ""


class ArchivedRecord(NamedTuple):
    """A record from the ledger.

    Attributes:
        key: The key in the ledger, such as ``run:run_1``.
        version: The number of commits that wrote it.
        mark: The mark of the last commit; "" after an erasure.
        trail: For a run, the ids of its audit entries, separated by spaces.
        data: The data as JSON text.
    """

    key: str
    version: int
    mark: str
    trail: str
    data: str

    @property
    def kind(self) -> str:
        """``run``, ``approval`` or ``grant``."""
        return self.key.partition(":")[0]

    @property
    def id(self) -> str:
        """The id of the run, approval or grant."""
        return self.key.partition(":")[2]

    def to_line(self) -> str:
        """Return the line of a file for this record."""
        about = {"version": self.version, "mark": self.mark}
        about |= {"trail": self.trail} if self.trail else {}
        more = json.dumps(about)[1:-1]
        return f'{{"record": {json.dumps(self.key)}, {more}, "data": {self.data}}}\n'


class PartialFile(NamedTuple):
    """A file that is written but does not have its final name yet."""

    name: str
    sha256: str


class ArchiveFiles:
    """The folder of the archive.

    Args:
        folder: The path, created with the first file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sequence: int) -> Path:
        """Return the path of a file, which need not exist."""
        return self.folder / f"{sequence:06}.jsonl"

    def write(self, head: FileHeader, lines: Iterable[str], *, suffix: str = "part") -> PartialFile:
        """Write a file under a temporary name, and sync it to the disk.

        Args:
            head: The first line.
            lines: The other lines, each with its line feed.
            suffix: The end of the temporary name.

        Raises:
            OSError: It cannot be written.
            ConfigError: The folder cannot be created.
        """
        private_folder(self.folder)
        part = self.folder / f"{head.sequence:06}.{secrets.token_hex(6)}.{suffix}"
        whole = hashlib.sha256()
        number = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            with os.fdopen(number, "wb") as file:
                for line in (head.model_dump_json() + "\n", *lines):
                    data = line.encode()
                    whole.update(data)
                    file.write(data)
                file.write(f'{{"sha256": "{whole.hexdigest()}"}}\n'.encode())
                file.flush()
                os.fsync(file.fileno())
        except OSError:
            with suppress(OSError):
                part.unlink()  # to free the space if the disk is full
            raise
        self._sync()
        return PartialFile(part.name, whole.hexdigest())

    def place(self, sequence: int, part: PartialFile, *, replaces: bool = False) -> None:
        """Give a written file its final name, unless it has it already.

        Args:
            sequence: The number of the file.
            part: The written file.
            replaces: Whether it replaces an existing file with this number.

        Raises:
            ArchiveBroken: The file exists under neither name, or another file has its name.
        """
        source, target = self.folder / part.name, self.path(sequence)
        if source.exists():
            if target.exists() and not replaces and self.checksum(sequence) != part.sha256:
                raise ArchiveBroken(
                    f"{target} exists already, and is not the file that the ledger archived. Was "
                    "the ledger restored from an older backup? Move the newer files away first."
                )
            source.replace(target)
            self._sync()
        self.require(sequence, part.sha256)

    def require(self, sequence: int, sha256: str) -> None:
        """Check that a file exists and is unchanged.

        Raises:
            ArchiveBroken: The file is missing or was changed.
        """
        if self.checksum(sequence) != sha256:
            raise ArchiveBroken(
                f"{self.path(sequence)} is not the archived file: it was changed or replaced. "
                "Restore it from a backup."
            )

    def checksum(self, sequence: int) -> str:
        """Compute the checksum of a file, and compare it with its last line.

        Raises:
            ArchiveBroken: The file is missing, or the checksums differ.
        """
        whole, last = hashlib.sha256(), b""
        try:
            with self.path(sequence).open("rb") as file:
                for line in file:
                    whole.update(last)
                    last = line
        except OSError as error:
            raise ArchiveBroken(
                f"{self.path(sequence)} cannot be read: {error.strerror}. All processes and "
                "machines that archive must share one folder: [retention] archive."
            ) from error
        form = _END.fullmatch(last.decode(errors="replace"))
        if form is None or form[1] != whole.hexdigest():
            raise ArchiveBroken(
                f"{self.path(sequence)} does not match the checksum in its last line: it was "
                "changed or truncated. Restore it from a backup."
            )
        return form[1]

    def read(self, sequence: int) -> Iterator[FileHeader | ArchivedEntry | ArchivedRecord]:
        """Yield the contents of a file, without verifying its checksum; see `checksum`.

        Raises:
            ArchiveBroken: The file is missing, or a line is invalid.
        """
        try:
            with self.path(sequence).open(encoding="utf-8", newline="\n") as file:
                for number, line in enumerate(file, 1):
                    if _END.fullmatch(line) is None:
                        yield _read(line, f"{self.path(sequence)}, line {number}")
        except OSError as error:
            raise ArchiveBroken(f"{self.path(sequence)}: {error.strerror}.") from error
        except UnicodeDecodeError as error:
            raise ArchiveBroken(f"{self.path(sequence)} cannot be read: {error}") from error

    def unplaced(self, suffix: str = "part") -> dict[str, int]:
        """Return the names and numbers of files without a final name."""
        found = (one.name for one in self.folder.glob(f"*.{suffix}"))
        return {name: int(name[:6]) for name in found if name[:6].isdigit()}

    def drop(self, name: str) -> None:
        """Delete a file that will not get its final name."""
        (self.folder / name).unlink(missing_ok=True)

    def _sync(self) -> None:
        """Sync the folder to the disk."""
        number = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _read(line: str, where: str) -> FileHeader | ArchivedEntry | ArchivedRecord:
    try:
        if line.startswith(_ENTRY):
            return ArchivedEntry(*from_line(line))
        if line.startswith(_RECORD):
            row: dict[str, Any] = json.loads(line)
            # The original text, because writing the JSON again could change it.
            data = line[line.index('"data": ') + 8 : line.rindex("}")]
            return ArchivedRecord(
                row["record"], row["version"], row["mark"], row.get("trail", ""), data
            )
        if line.startswith(_HEAD):
            return FileHeader.model_validate_json(line)
    except (ValueError, KeyError, ValidationError) as error:
        raise ArchiveBroken(f"{where} cannot be read: {error}") from error
    raise ArchiveBroken(f"{where} is of an unknown kind; was it written by a newer version?")
