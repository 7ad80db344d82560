"""Records of the last release are read and written again without loss.

``golden/`` holds approvals, runs and grants in many states as that release (d388fc7) stored them.
The files never change: records of a later release get files of their own.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from builders import NOON
from signoff.broker.ledger.change import Change, Record
from signoff.broker.ledger.records import read_approval, read_grant, read_run
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Decision
from signoff.core.approvals.run import Run
from signoff.core.approvals.voting import Vote
from signoff.core.grants.grant import Grant

GOLDEN = Path(__file__).with_name("golden")
READERS: dict[str, Callable[[int, str], Approval | Run | Grant]] = {
    "approvals": read_approval,
    "runs": read_run,
    "grants": read_grant,
}
RECORDS = [
    pytest.param(kind, record, id=f"{kind}: {name}")
    for kind in READERS
    for name, record in json.loads((GOLDEN / f"{kind}.json").read_text("utf-8")).items()
]


def written(record: Record) -> dict[str, Any]:
    """Return a record in the form of a commit."""
    change = Change().put(record, was=None)
    found: dict[str, Any] = json.loads(str(change.writes[0]["data"]))
    return found


def as_written_now(record: dict[str, Any]) -> dict[str, Any]:
    """Return a record in today's form: a vote holds the decision of the person."""
    if "votes" not in record:
        return record
    own = {"stands_for", "level", "round", "verdict"}
    votes = [
        {name: one for name, one in vote.items() if name in own}
        | {"decision": {name: one for name, one in vote.items() if name not in own}}
        for vote in record["votes"]
    ]
    return {**record, "votes": votes}


def test_vote_of_the_last_release_keeps_every_part() -> None:
    """Person, time, channel, reason and values of a vote stay the same; no vote loses a part."""
    stored = {
        "by": "mara",
        "stands_for": "cleo",
        "level": 1,
        "verdict": "approve",
        "at": "2026-03-02T12:30:00Z",
        "channel": "inbox",
        "reason": "fine",
        "payload": {"amount": 7},
        "first_step": "email",
    }
    vote = Vote.model_validate(stored)
    assert (vote.by, vote.stands_for, vote.level) == ("mara", "cleo", 1)
    assert vote.decision == Decision(
        by="mara",
        at=NOON + timedelta(minutes=30),
        channel="inbox",
        reason="fine",
        payload={"amount": 7},
        first_step="email",
    )
    with pytest.raises(ValidationError):
        Vote.model_validate({**stored, "surprise": 1})
    with pytest.raises(ValidationError):
        Vote.model_validate({"verdict": "approve", "by": "mara"})


@pytest.mark.parametrize(("kind", "record"), RECORDS)
def test_a_record_of_the_last_release_is_written_again_without_loss(
    kind: str, record: dict[str, Any]
) -> None:
    """Every field that was stored is stored again, with the same value."""
    read = READERS[kind](7, json.dumps(record))
    assert read.version == 7
    assert written(read) == as_written_now(record)
    assert READERS[kind](7, json.dumps(written(read))) == read
