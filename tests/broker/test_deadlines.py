"""Deadlines hold in the decision: no timer runs in these tests."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, make_call, make_origin, people
from deciding import Decider
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Current, Ledger
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Approve, Claim, Comment, Move, Reject
from signoff.core.base.durations import Span
from signoff.core.base.errors import Escalated, SignoffError, TooLate
from signoff.core.policies.levels import Earlier, Level
from signoff.core.policies.policy import Fallback, OnTimeout, Policy
from signoff.core.routing.selection import choose
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)


async def asked(ledger: Ledger, **more: Any) -> Approval:
    """Open a pause whose call asks Mara for an hour and then Cleo for two hours."""
    levels = (
        Level(ask=("mara",), within=Span(HOUR), remind=(Span(HOUR / 2),)),
        Level(ask=("cleo",), within=Span(2 * HOUR)),
    )
    policy = Policy(name="expenses", when="true", levels=levels).model_copy(update=more)
    submitted = await Decider(ledger, people()).submit("finance", "Hello", user="riley")
    run = await ledger.run(submitted.id)
    (item,) = (await ledger.claim("run.finance", limit=1)).items
    now = await ledger.now()
    origin = make_origin(run=run.id, session=run.session)
    opened, _ = Approval.open(origin, make_call(), hint="", template=None, now=now)
    choice = choose((policy,), Fallback(ask=("mara",)), people(), opened.facts, now=now)
    cards = tuple(Asked(person=one.id, channel="email", address="x") for one in choice.people)
    approval, events = opened.ask(choice.terms, cards, now=now, start=choice.start)
    change = Change().put(approval, was=None).note(events).ack(item)
    await ledger.commit(change.put(run.paused([approval.id]), was=run))
    return await ledger.approval(approval.id)


@pytest.mark.parametrize("on_timeout", [OnTimeout.REJECT, OnTimeout.APPROVE])
async def test_after_the_end_every_answer_is_too_late(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock, on_timeout: OnTimeout
) -> None:
    """This holds to the microsecond and for every kind of end; the answer changes nothing."""
    approval = await asked(still_ledger, on_timeout=on_timeout)
    clock.advance(HOUR)
    await still_decider.time_out(approval.id)
    clock.advance(2 * HOUR)
    before = await still_ledger.approval(approval.id)
    with pytest.raises(TooLate):
        await still_decider.approve(approval.id, CLEO, channel="email")
    with pytest.raises(TooLate):
        await still_decider.reject(approval.id, CLEO, channel="cli")
    assert await still_ledger.approval(approval.id) == before


async def test_request_can_be_withdrawn_until_a_timer_has_ended_it(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """A withdrawal decides nothing, so the deadline does not make it too late."""
    approval = await asked(still_ledger)
    clock.advance(HOUR)
    await still_decider.time_out(approval.id)
    clock.advance(2 * HOUR)
    done = await still_decider.withdraw(approval.id, by="ops", reason="a mistake")
    assert done.state is State.WITHDRAWN
    with pytest.raises(SignoffError):
        await still_decider.withdraw(approval.id, by="ops", reason="again")


@pytest.mark.parametrize("earlier", Earlier)
@pytest.mark.parametrize("move", [Approve(), Reject(reason="no"), Claim(), Comment(text="why?")])
async def test_after_the_end_a_level_without_people_opens_no_door(
    still_ledger: Ledger,
    still_decider: Decider,
    clock: VirtualClock,
    earlier: Earlier,
    move: Move,
) -> None:
    """Nobody can be asked at the next level, so the first deadline is the end of the request."""
    empty = Level(ask=("gone",), within=Span(HOUR), earlier=earlier)
    levels = (Level(ask=("mara",), within=Span(HOUR)), empty)
    approval = await asked(still_ledger, levels=levels)
    clock.advance(HOUR)
    with pytest.raises(TooLate):
        await still_decider.made(approval.id, move, MARA)
    assert await still_ledger.approval(approval.id) == approval
    refused = (await still_ledger.history(approval.id))[-1]
    assert (refused.what, refused.more["late"]) == (What.REFUSED_ANSWER, True)


async def test_an_answer_is_judged_by_the_level_of_that_moment(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """Mara's hour is over, so she is refused; Cleo decides, and both steps are recorded."""
    approval = await asked(still_ledger)
    clock.advance(HOUR)
    with pytest.raises(Escalated):
        await still_decider.approve(approval.id, MARA, channel="email")
    done = await still_decider.approve(approval.id, CLEO, channel="cli")
    assert (done.state, done.level) == (State.APPROVED, 1)
    whats = [event.what for event in await still_ledger.history(approval.id)]
    assert whats[-2:] == [What.ESCALATED, What.APPROVED]


async def test_a_decision_just_before_the_deadline_counts(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """Mara decides a microsecond before the end of her level, and nobody else is asked."""
    approval = await asked(still_ledger)
    with pytest.raises(SignoffError):
        await still_decider.approve(approval.id, CLEO, channel="cli")
    clock.advance(HOUR - timedelta(microseconds=1))
    done = await still_decider.approve(approval.id, MARA, channel="email")
    assert (done.state, done.level) == (State.APPROVED, 0)
    clock.advance(3 * HOUR)
    assert await still_ledger.due() == []


class Slow(Ledger):
    """Advances the clock once between reading and committing."""

    clock: VirtualClock | None = None

    async def current_all(self, ids: Sequence[str]) -> list[Current | SignoffError]:
        """Read, and then advance the clock."""
        found = await super().current_all(ids)
        clock, self.clock = self.clock, None
        if clock is not None:
            clock.advance(timedelta(milliseconds=2))
        return found


async def test_an_answer_that_is_overtaken_by_the_deadline_does_not_count(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It was in time when it was read; the clock of the commit refuses it."""
    approval = await asked(still_ledger)
    clock.advance(HOUR - timedelta(milliseconds=1))
    slow = Slow(still_ledger.store)
    slow.clock = clock
    with pytest.raises(Escalated):
        await Decider(slow, people()).approve(approval.id, MARA, channel="email")
    assert (await still_ledger.approval(approval.id)).state is State.PENDING


async def test_the_due_index_holds_the_remaining_timers_of_an_approval(
    still_ledger: Ledger, still_decider: Decider, clock: VirtualClock
) -> None:
    """The due index has the reminder, the end of the level and the end at their times."""
    approval = await asked(still_ledger)
    found = []
    for pause in (HOUR / 2, HOUR / 2, 2 * HOUR):
        clock.advance(pause - timedelta(milliseconds=1))
        assert await still_ledger.due() == []
        clock.advance(timedelta(milliseconds=1))
        assert await still_ledger.due() == [approval.id]
        await still_decider.time_out(approval.id)
        found.append((await still_ledger.history(approval.id))[-1].what)
    assert found == [What.REMINDED, What.ESCALATED, What.TIMED_OUT]
