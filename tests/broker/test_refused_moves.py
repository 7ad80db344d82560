"""A refused move adds an entry to the audit and changes nothing else."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, paused, people
from signoff.broker.decisions import Decisions, Extras, Refused, Taken, always
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals import moves
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Actor, Move

MOVES: tuple[Move, ...] = (
    moves.Approve(),
    moves.Reject(reason="over budget"),
    moves.Confirm(mark="x"),
    moves.Withdraw(reason="not needed"),
    moves.Claim(),
    moves.Release(),
    moves.Reassign(of=CLEO, to=MARA, reason="away"),
    moves.AskBack(text="What for?"),
    moves.AnswerBack(text="For the conference."),
    moves.Comment(text="Looks high."),
    moves.Extend(by=timedelta(hours=1), reason="waiting for the invoice"),
    moves.Remind(),
)


@pytest.mark.parametrize("move", MOVES, ids=lambda move: move.name)
async def test_a_refused_action_adds_one_audit_entry(ledger: Ledger, move: Move) -> None:
    """The entry has the person, the move, the channel and the reason of the refusal."""
    _, (approval,) = await paused(ledger, asked=[MARA])
    decisions = Decisions(ledger, people())
    outcome = await decisions.take(approval.id, move, Actor(CLEO, "email", {"proof": "token"}))
    assert isinstance(outcome, Refused)
    assert await ledger.approval(approval.id) == approval
    refused = [one for one in await ledger.history(approval.id) if one.what is What.REFUSED_ANSWER]
    assert [(one.by, one.why) for one in refused] == [("cleo", str(outcome.error))]
    (entry,) = refused
    assert (entry.more["verdict"], entry.more["channel"]) == (move.name, "email")
    assert entry.more["proof"] == "token"


async def test_a_repeated_click_is_neither_decided_nor_refused_again(ledger: Ledger) -> None:
    """The guard of the first click recognises the second: no decision and no refusal follow."""
    _, (approval,) = await paused(ledger, asked=[MARA])
    decisions, actor = Decisions(ledger, people()), Actor(MARA, "slack")
    first = Change().put_raw("click:1", "1", ttl=timedelta(hours=1))
    taken = await decisions.take(approval.id, moves.Approve(), actor, Extras(also=first))
    assert isinstance(taken, Taken)
    assert await ledger.raw("click:1") is not None
    again = await decisions.take(
        approval.id, moves.Approve(), actor, Extras(also=first.copy(), seen=None)
    )
    assert isinstance(again, Refused)
    refused = [one for one in await ledger.history(approval.id) if one.what is What.REFUSED_ANSWER]
    assert refused == []


async def test_a_refused_message_that_comes_twice_is_refused_once(ledger: Ledger) -> None:
    """The guard of the first one recognises the second, whose commit could never succeed."""
    _, (approval,) = await paused(ledger, asked=[MARA])
    decisions, actor = Decisions(ledger, people()), Actor(CLEO, "slack")
    for _ in range(2):
        also = Change().put_raw("click:1", "1", ttl=timedelta(hours=1))
        extras = Extras(also=also, acknowledges=always)
        outcome = await decisions.take(approval.id, moves.Approve(), actor, extras)
        assert isinstance(outcome, Refused)
    refused = [one for one in await ledger.history(approval.id) if one.what is What.REFUSED_ANSWER]
    assert len(refused) == 1
