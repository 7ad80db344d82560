"""Phases end to end: cards, messages, and phases without people."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA
from channels.conftest import Channels
from channels.test_intake import reply, take
from channels.test_levels import DAN, Floor, elsewhere_away, level
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.pipeline.port import Kind
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Comment, Reject
from signoff.core.approvals.run import RunState
from signoff.core.base.errors import Escalated, NotAnApprover
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


@pytest.fixture
def floor(still_channels: Channels, clock: VirtualClock) -> Floor:
    """Return an office in which Riley's manager and then two others have to approve."""
    return Floor(
        still_channels,
        clock,
        level("requester.manager", phase="manager"),
        level("mara", "cleo", phase="board", name="the board", quorum=2),
    )


async def test_the_board_is_asked_when_the_manager_has_approved(floor: Floor) -> None:
    """Dan's approval by mail is recorded; two of the board end it, and the run continues."""
    approval = await floor.ask()
    assert floor.told() == [("dan", Kind.CARD)]
    decider = floor.channels.decider
    with pytest.raises(NotAnApprover):
        await decider.approve(approval.id, MARA, channel="cli")

    await decider.approve(approval.id, DAN, channel="cli")
    await floor.settle()
    moved = next(one for one in floor.channels.channel.delivered if one.kind is Kind.OUTCOME)
    assert moved.headline == "reimburse was approved at your level and now waits for the board"
    assert floor.told() == [
        ("cleo", Kind.CARD),
        ("dan", Kind.OUTCOME),
        ("mara", Kind.CARD),
    ]
    with pytest.raises(Escalated):
        await decider.reject(approval.id, DAN, channel="cli")
    await decider.approve(approval.id, MARA, channel="cli")
    done = await decider.approve(approval.id, CLEO, channel="cli")
    assert (done.state, done.decided_by) == (State.APPROVED, ("dan", "mara", "cleo"))
    assert (await decider.ledger.run(approval.origin.run)).state is RunState.ANSWERED
    wanted = (What.ASKED, What.VOTED, What.PASSED, What.APPROVED)
    whats = [one for one in await floor.channels.whats(approval) if one in wanted]
    first, then = [What.ASKED, What.VOTED, What.PASSED], [What.ASKED, What.VOTED, What.APPROVED]
    assert whats == first + then


async def test_next_phase_heeds_an_absence_that_another_process_has_recorded(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The process that takes the answer reads who is away before it asks."""
    parts = level("dan", phase="manager"), level("mara", phase="board")
    floor = Floor(still_channels, clock, *parts)
    approval = await floor.ask()
    await elsewhere_away(floor, MARA, delegate="cleo")
    done = await floor.channels.decider.approve(approval.id, DAN, channel="cli")
    assert done.approvers == {"cleo"}


async def test_mail_answer_names_the_next_phase(floor: Floor) -> None:
    """The reply to Dan's mail names the board; the board's card names the earlier approver."""
    await floor.ask()
    (card,) = floor.channels.channel.delivered
    floor.channels.channel.delivered.clear()
    told = await take(floor.channels, reply(card.token, "approve", sender=DAN.email))
    headlines = [one.headline for one in told]
    assert "Recorded: your yes to reimburse; it now waits for the board" in headlines
    await floor.settle()
    cards = [one for one in floor.channels.channel.delivered if one.kind is Kind.CARD]
    assert {one.card.progress for one in cards} == {"0 of 2 have approved; before that: Dan Roe"}


async def test_phase_without_approvers_asks_the_default(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The phase is not skipped: the default needs as many approvals."""
    floor = Floor(
        still_channels,
        clock,
        level("requester.manager", phase="manager"),
        level("nobody", phase="board", quorum=2),
    )
    approval = await floor.ask()
    decider = floor.channels.decider
    after = await decider.approve(approval.id, DAN, channel="cli")
    assert after.state is State.PENDING
    await floor.settle()
    here = await floor.now(approval)
    assert (here.ballot.own, here.ballot.need) == (("cleo",), 2)
    assert What.UNROUTABLE in await floor.channels.whats(approval)
    with pytest.raises(Escalated):
        await decider.approve(approval.id, DAN, channel="cli")
    after = await decider.approve(approval.id, CLEO, channel="cli")
    assert after.state is State.PENDING
    clock.advance(25 * HOUR)
    await Reconciler(decider.roster).once()
    assert (await floor.now(approval)).state is State.TIMED_OUT


async def test_only_an_approval_starts_the_next_phase(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """Mara's approval is enough at the second level; Cleo's rejection and comment are none."""
    floor = Floor(
        still_channels,
        clock,
        level("mara", "cleo", phase="one", quorum=2, veto=False),
        level("requester.manager", phase="one", earlier="stay", veto=False),
        level("cleo", phase="two"),
    )
    approval = await floor.ask()
    decider = floor.channels.decider
    await decider.approve(approval.id, MARA, channel="cli")
    clock.advance(HOUR)
    await Reconciler(decider.roster).once()
    for move in (Comment(text="I am against it"), Reject(reason="too much")):
        after = await decider.made(approval.id, move, CLEO)
        assert (after.state, after.level) == (State.PENDING, 1)
    after = await decider.approve(approval.id, DAN, channel="cli")
    assert (after.state, after.level) == (State.PENDING, 2)
