"""Records of the last release are read, and written again without loss.

``golden/`` holds approvals, runs and grants in many states as that release (d388fc7) stored them.
They are never written anew: what follows is a new file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from signoff.broker.ledger.change import Change, Record
from signoff.broker.ledger.records import read_approval, read_grant, read_run

GOLDEN = Path(__file__).with_name("golden")
READERS = {"approvals": read_approval, "runs": read_run, "grants": read_grant}
RECORDS = [
    pytest.param(kind, record, id=f"{kind}: {name}")
    for kind in READERS
    for name, record in json.loads((GOLDEN / f"{kind}.json").read_text("utf-8")).items()
]


def written(record: Record) -> dict[str, Any]:
    """Return a record as a commit writes it."""
    change = Change().put(record, was=None)
    return json.loads(str(change.writes[0]["data"]))  # type: ignore[no-any-return]


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_a_record_of_the_last_release_is_written_again_without_loss(
    kind: str, record: dict[str, Any]
) -> None:
    """Every field that was stored is stored again, with the same value."""
    read = READERS[kind](7, json.dumps(record))
    assert read.version == 7
    assert written(read) == record
    assert READERS[kind](7, json.dumps(written(read))) == read
