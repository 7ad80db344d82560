"""The files of the archive: JSON Lines, written once and closed by a checksum.

A file is called by its number, ``000001.jsonl``. Its first line says where in the audit it begins.
Then come entries of the audit as `signoff audit export` writes them, and records of runs, approvals
and grants. Its last line has the SHA-256 of all bytes before.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator
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


class Head(Value):
    """The first line of a file.

    Attributes:
        archive: The version of the format.
        sequence: The number of the file, from 1.
        after: The stream id of the last entry before; "" where there is none.
        link: The link of that entry.
        count: How many entries there are before.
        at: When it was written (UTC).
        kept: Runs of the file before that do not count there: they changed as they were archived,
            and stayed in the ledger.
    """

    archive: int = Field(1, le=1)
    sequence: int
    after: str = ""
    link: str = ""
    count: int = 0
    at: datetime
    kept: tuple[str, ...] = ()


class Entry(NamedTuple):
    """An entry of the audit; `hashed` is set where personal data was erased from its text."""

    id: str
    text: str
    link: str
    hashed: str = ""


class Record(NamedTuple):
    """A record as the ledger had it.

    Attributes:
        key: Its key there, such as ``run:run_1``.
        version: Counts its commits.
        mark: Stands for the last of them; "" after an erasure.
        trail: Of a run: the ids of its entries in the audit, separated by spaces.
        data: What it held, as JSON text.
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
        """The id of what it is about."""
        return self.key.partition(":")[2]

    def to_line(self) -> str:
        """Return it as a line."""
        about = {"version": self.version, "mark": self.mark}
        about |= {"trail": self.trail} if self.trail else {}
        more = json.dumps(about)[1:-1]
        return f'{{"record": {json.dumps(self.key)}, {more}, "data": {self.data}}}\n'


class Part(NamedTuple):
    """A file that is written and not in its place yet."""

    name: str
    sha256: str


class ArchiveFiles:
    """The folder of the archive.

    Args:
        folder: Made with the first file.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sequence: int) -> Path:
        """Return where a file is, or will be."""
        return self.folder / f"{sequence:06}.jsonl"

    def write(self, head: Head, lines: Iterable[str], *, suffix: str = "part") -> Part:
        """Write a file under a name of its own; it is on the disk when this returns.

        Args:
            head: Its first line.
            lines: The others, each with its line feed.
            suffix: How its name ends until it is placed.

        Raises:
            OSError: It cannot be written.
        """
        private_folder(self.folder)
        part = self.folder / f"{head.sequence:06}.{secrets.token_hex(6)}.{suffix}"
        whole = hashlib.sha256()
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            for line in (head.model_dump_json() + "\n", *lines):
                data = line.encode()
                whole.update(data)
                file.write(data)
            file.write(f'{{"sha256": "{whole.hexdigest()}"}}\n'.encode())
            file.flush()
            os.fsync(file.fileno())
        self._sync()
        return Part(part.name, whole.hexdigest())

    def place(self, sequence: int, part: Part, *, replaces: bool = False) -> None:
        """Give a written file its name, unless it has it already.

        Args:
            sequence: Its number.
            part: What was written.
            replaces: Whether there is a file of this number, which it replaces.

        Raises:
            ArchiveBroken: There is neither the one nor the other, or another file has its name.
        """
        source, target = self.folder / part.name, self.path(sequence)
        if source.exists():
            if target.exists() and not replaces and self.checksum(sequence) != part.sha256:
                raise ArchiveBroken(
                    f"{target} is there already, and is not what the ledger has archived. Was the "
                    "ledger restored from an older backup? Move the newer files away first."
                )
            source.replace(target)
            self._sync()
        self.require(sequence, part.sha256)

    def require(self, sequence: int, sha256: str) -> None:
        """Check that a file is there and is what it was.

        Raises:
            ArchiveBroken: It is not.
        """
        if self.checksum(sequence) != sha256:
            raise ArchiveBroken(
                f"{self.path(sequence)} is not what was archived: it was changed or replaced. "
                "Bring it back from a backup."
            )

    def checksum(self, sequence: int) -> str:
        """Return the checksum of a file, which its last line has too.

        Raises:
            ArchiveBroken: The file is not there, or the two differ.
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
                "machines that archive must have the same folder: [retention] archive."
            ) from error
        form = _END.fullmatch(last.decode(errors="replace"))
        if form is None or form[1] != whole.hexdigest():
            raise ArchiveBroken(
                f"{self.path(sequence)} does not have the checksum in its last line: it was "
                "changed or cut off. Bring it back from a backup."
            )
        return form[1]

    def read(self, sequence: int) -> Iterator[Head | Entry | Record]:
        """Yield what is in a file; check its checksum before.

        Raises:
            ArchiveBroken: The file is not there, or a line is not of this format.
        """
        try:
            with self.path(sequence).open(encoding="utf-8", newline="\n") as file:
                for number, line in enumerate(file, 1):
                    if _END.fullmatch(line) is None:
                        yield _read(line, f"{self.path(sequence)}, line {number}")
        except OSError as error:
            raise ArchiveBroken(f"{self.path(sequence)}: {error.strerror}.") from error

    def unplaced(self, suffix: str = "part") -> dict[str, int]:
        """Return the names of files that were written and not placed, with their numbers."""
        found = (one.name for one in self.folder.glob(f"*.{suffix}"))
        return {name: int(name[:6]) for name in found if name[:6].isdigit()}

    def drop(self, name: str) -> None:
        """Remove a file that was written and will not be placed."""
        (self.folder / name).unlink(missing_ok=True)

    def _sync(self) -> None:
        """Bring the names in the folder to the disk."""
        number = os.open(self.folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _read(line: str, where: str) -> Head | Entry | Record:
    try:
        if line.startswith(_ENTRY):
            return Entry(*from_line(line))
        if line.startswith(_RECORD):
            row: dict[str, Any] = json.loads(line)
            # As it stands there: what was written as JSON is not written anew.
            data = line[line.index('"data": ') + 8 : line.rindex("}")]
            return Record(row["record"], row["version"], row["mark"], row.get("trail", ""), data)
        if line.startswith(_HEAD):
            return Head.model_validate_json(line)
    except (ValueError, KeyError, ValidationError) as error:
        raise ArchiveBroken(f"{where} cannot be read: {error}") from error
    raise ArchiveBroken(f"{where} is of no known kind; was it written by a newer version?")
