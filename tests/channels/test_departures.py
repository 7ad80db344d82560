"""People who leave after they were asked: others are asked immediately, and they cannot decide."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import timedelta

import pytest

from builders import CLEO, MARA
from channels.conftest import Channels
from channels.test_levels import DAN, Floor, elsewhere_away, level
from deciding import Decider
from signoff.broker.hand_over import hand_over, waits_for
from signoff.broker.ledger.change import Change
from signoff.broker.timers.departures import AGAIN, Departures
from signoff.channels.pipeline.port import Kind
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Actor, Approve, Claim, Reassign
from signoff.core.base.errors import Claimed, NotAnApprover
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.testing import VirtualClock

BOSS = Actor(Operator(name="boss"), "cli")
Open = Callable[..., Awaitable[tuple["Office", Approval]]]


class Office(Floor):
    """A floor whose timers also check who has left."""

    looks_as: Decider | None = None
    departures: Departures

    @property
    def decider(self) -> Decider:
        """Makes the moves."""
        return self.channels.decider

    async def leave(self, person: Person, delegate: str = "", days: int = 3) -> None:
        """Set a person's absence from today on, and let others be asked."""
        now = await self.decider.ledger.now()
        today = person.day(now)
        absence = Absence(start=today, end=today + timedelta(days=days), delegate=delegate)
        await self.decider.people.leave(person, absence, by="test", more={})
        await self.look()

    async def look(self) -> None:
        """Check who has left, and deliver the messages."""
        if self.decider is not self.looks_as:
            self.looks_as, self.departures = self.decider, Departures(self.decider.roster)
        await self.departures.once()
        await self.settle()

    async def delete(self, person: str) -> None:
        """Restart with settings without a person."""
        await self.restart(one for one in self.channels.directory if one.id != person)

    async def deactivate(self, person: str) -> None:
        """Restart with settings in which a person is inactive."""
        people = self.channels.directory
        await self.restart(one.model_copy(update={"active": one.id != person}) for one in people)

    async def restart(self, people: Iterable[Person]) -> None:
        """Restart with these people."""
        left = Directory(people)
        decider = Decider(self.channels.ledger, left)
        self.channels = replace(self.channels, decider=decider, directory=left)
        await self.look()


@pytest.fixture
def opened(still_channels: Channels, clock: VirtualClock) -> Open:
    """Return a function that asks about a call with these levels."""

    async def ask(*levels: object, **rules: object) -> tuple[Office, Approval]:
        office = Office(still_channels, clock, *levels, **rules)  # type: ignore[arg-type]
        approval = await office.ask()
        office.told()
        return office, approval

    return ask


async def test_the_delegate_shares_the_place(opened: Open) -> None:
    """Both may answer; the first answer fills the seat, and the other's is refused."""
    office, approval = await opened(level("mara", "cleo", quorum="all"))
    await office.leave(MARA, "dan")
    here = await office.now(approval)
    assert here.ballot.need == 2
    assert here.ballot.own == ("mara", "dan", "cleo")
    assert ("dan", "card") in [(one, kind.value) for one, kind in office.told()]
    await office.decider.approve(approval.id, DAN, channel="cli")
    with pytest.raises(NotAnApprover, match="in Mara Lind's place already"):
        await office.decider.approve(approval.id, MARA, channel="cli")
    after = await office.decider.approve(approval.id, CLEO, channel="cli")
    assert (after.state, after.decided_by) == (State.APPROVED, ("dan", "cleo"))


async def test_person_and_their_delegate_count_once_for_a_quorum(opened: Open) -> None:
    """A person and their delegate cannot make up a quorum of two."""
    office, approval = await opened(level("mara", "cleo", quorum=2))
    await office.leave(MARA, "dan")
    await office.decider.approve(approval.id, MARA, channel="cli")
    with pytest.raises(NotAnApprover):
        await office.decider.approve(approval.id, DAN, channel="cli")
    assert (await office.now(approval)).state is State.PENDING


async def test_delegate_of_the_next_person_in_a_sequence_is_asked_at_their_turn(
    opened: Open,
) -> None:
    """No timer has noticed yet that Cleo is away: with Mara's yes, the card goes to Dan."""
    office, approval = await opened(level("mara", "cleo", quorum="all", order="sequence"))
    await elsewhere_away(office, CLEO, delegate="dan")
    await office.decider.approve(approval.id, MARA, channel="cli")
    await office.settle()
    assert ("dan", Kind.CARD) in office.told()
    after = await office.decider.approve(approval.id, DAN, channel="cli")
    assert (after.state, after.decided_by) == (State.APPROVED, ("mara", "dan"))


async def test_absence_without_a_delegate_escalates_at_once(opened: Open) -> None:
    """The absent person may still answer at that level."""
    office, approval = await opened(level("mara"), level("cleo"))
    await office.leave(MARA)
    here = await office.now(approval)
    assert (here.level, here.ballot.own) == (1, ("cleo",))
    why = next(
        one.why for one in await office.channels.events(approval) if one.what is What.ESCALATED
    )
    assert "Mara Lind is away until" in why
    await office.decider.approve(approval.id, MARA, channel="cli")
    assert (await office.now(approval)).state is State.APPROVED


async def test_absence_whose_work_was_lost_is_noticed_again(
    opened: Open, clock: VirtualClock
) -> None:
    """All absent people are checked every few minutes, also if nothing seems to have changed."""
    office, approval = await opened(level("mara"), level("cleo"))
    departures, ledger = Departures(office.decider.roster), office.channels.ledger
    assert await departures.once() == 0
    await elsewhere_away(office, MARA, delegate="dan")
    assert await departures.once() == 1
    (lost,) = (await ledger.claim("route")).items
    await ledger.commit(Change().ack(lost))
    clock.advance(AGAIN - timedelta(seconds=1))
    assert await departures.once() == 0
    clock.advance(timedelta(seconds=1))
    assert await departures.once() == 1
    await office.settle()
    assert "dan" in (await office.now(approval)).approvers
    clock.advance(AGAIN)
    assert await departures.once() == 0


async def test_absence_does_not_escalate_while_the_quorum_is_possible(opened: Open) -> None:
    """One approval is needed, and one person is there."""
    office, approval = await opened(level("mara", "cleo"), level("dan"))
    await office.leave(MARA)
    here = await office.now(approval)
    assert (here.level, here.absent) == (0, ("mara",))
    await office.decider.people.come_back(MARA, by="test", more={})
    await office.look()
    assert (await office.now(approval)).absent == ()


async def test_absences_that_break_the_quorum_raise_an_alarm_and_escalate(opened: Open) -> None:
    """An alarm names the absent people, and the next level is asked."""
    office, approval = await opened(level("mara", "cleo", quorum=2), level("dan"))
    await office.leave(CLEO)
    assert (await office.now(approval)).level == 1
    events = await office.channels.events(approval)
    alarm = next(one for one in events if one.what is What.UNROUTABLE)
    assert "2 must approve, and Cleo Park is away until" in alarm.why


async def test_rejection_that_breaks_the_quorum_is_noticed_at_once(opened: Open) -> None:
    """This is noticed immediately, although nobody has left since."""
    office, approval = await opened(
        level("mara", "cleo", "dan", quorum=2, veto=False), level("riley")
    )
    await office.leave(CLEO)
    assert (await office.now(approval)).level == 0
    await office.decider.reject(approval.id, MARA, channel="cli")
    await office.settle()
    whats = [one.what for one in await office.channels.events(approval)]
    assert What.UNROUTABLE in whats


async def test_absence_ends_the_claim_of_the_absent_person(opened: Open) -> None:
    """Their delegate does not have to wait; a later claim of theirs holds."""
    office, approval = await opened(level("mara"))
    await office.decider.made(approval.id, Claim(), MARA)
    await office.leave(MARA, "dan")
    assert (await office.now(approval)).claimed is None
    await office.decider.made(approval.id, Claim(), MARA)
    await office.look()
    with pytest.raises(Claimed):
        await office.decider.approve(approval.id, DAN, channel="cli")


async def test_deleted_person_is_skipped_and_the_next_level_is_asked(opened: Open) -> None:
    """They are not in the settings, so a new process asks the next level."""
    office, approval = await opened(level("mara"), level("cleo"))
    await office.look()
    await office.delete("mara")
    here = await office.now(approval)
    assert (here.level, here.ballot.own) == (1, ("cleo",))


async def test_inactive_person_loses_the_claim_and_cannot_decide(opened: Open) -> None:
    """Their claim ends, the next level is asked, and they cannot decide."""
    office, approval = await opened(level("mara"), level("cleo"))
    await office.look()
    await office.decider.made(approval.id, Claim(), MARA)
    await office.deactivate("mara")
    here = await office.now(approval)
    assert (here.level, here.ballot.own, here.claimed) == (1, ("cleo",), None)
    for move in (Approve(), Claim(), Reassign(of=MARA, to=DAN, reason="me")):
        with pytest.raises(NotAnApprover, match="Mara Lind is not active any more"):
            await office.decider.made(approval.id, move, MARA)
    events = await office.channels.events(approval)
    assert any("Mara Lind is not active any more" in one.why for one in events)


async def test_new_manager_replaces_one_who_has_left(opened: Open) -> None:
    """A reference to the requester's manager finds the current one."""
    office, approval = await opened(level("requester.manager"))
    await office.look()
    people = [
        one.model_copy(update={"manager": "cleo"}) if one.id == "riley" else one
        for one in office.channels.directory
        if one.id != "dan"
    ]
    left = Directory(people)
    decider = Decider(office.channels.ledger, left)
    office.channels = replace(office.channels, decider=decider, directory=left)
    await office.look()
    here = await office.now(approval)
    assert (here.level, here.ballot.awaited) == (0, ("dan", "cleo"))
    after = await decider.approve(approval.id, CLEO, channel="cli")
    assert after.state is State.APPROVED


async def test_process_with_old_settings_does_not_mark_people_as_departed(opened: Open) -> None:
    """During a deployment, the processes that started last determine who has left."""
    office, _ = await opened(level("cleo"))
    old = Departures(Decider(office.channels.ledger, Directory([CLEO, DAN])).roster)
    assert await old.once() == 0
    await Departures(office.decider.roster).once()
    approval = await office.channels.open(session="other", confirmation="adk-2")
    await office.settle()
    await office.decider.made(approval.id, Reassign(of=CLEO, to=MARA, reason="hers"), CLEO)
    office.clock.advance(AGAIN)
    assert await old.once() == 0
    assert (
        await Departures(Decider(office.channels.ledger, Directory([CLEO, DAN])).roster).once() == 1
    )


async def test_the_place_is_handed_over_for_good(opened: Open) -> None:
    """Only the delegate gets it; other requests stay, with the reason."""
    office, approval = await opened(level("mara"))
    waiting = await waits_for(office.channels.ledger, "mara")
    assert [one.id for one in waiting] == [approval.id]
    handed = await hand_over(office.decider, waiting, Actor(MARA, "cli"), of=MARA, to=CLEO)
    assert [one.id for one in handed.done] == [approval.id]
    assert (await office.now(approval)).ballot.own == ("cleo",)
    again = await hand_over(office.decider, waiting, Actor(MARA, "cli"), of=MARA, to=CLEO)
    assert "went to Cleo Park" in again.refused[0][1]


async def test_request_can_still_be_delegated_after_the_absence_offer(opened: Open) -> None:
    """The delegate then has the seat alone, and counts once."""
    office, approval = await opened(level("mara", "cleo", quorum=2))
    await office.leave(MARA, "dan")
    waiting = await waits_for(office.channels.ledger, "mara")
    await hand_over(office.decider, waiting, Actor(MARA, "cli"), of=MARA, to=DAN)
    here = await office.now(approval)
    assert ({*here.ballot.own}, here.ballot.need) == ({"dan", "cleo"}, 2)
    await office.decider.approve(approval.id, DAN, channel="cli")
    assert (await office.now(approval)).state is State.PENDING


async def test_an_approval_that_is_gone_keeps_none_of_the_others(opened: Open) -> None:
    """It is reported, and the other approvals are handed over."""
    office, approval = await opened(level("mara"))
    (here,) = await waits_for(office.channels.ledger, "mara")
    gone = here.model_copy(update={"id": "ap_aaaaaaaaaaaaaaaa"})
    handed = await hand_over(office.decider, [gone, here], Actor(MARA, "cli"), of=MARA, to=CLEO)
    assert [one.id for one in handed.done] == [approval.id]
    assert [one.id for one, _ in handed.refused] == [gone.id]


async def test_who_has_handed_on_a_place_does_not_get_it_back_as_a_stand_in(opened: Open) -> None:
    """The delegate hands it on to somebody who is there: the next check gives nothing back."""
    office, approval = await opened(level("mara"))
    await office.leave(MARA, "dan")
    here = await office.now(approval)
    await hand_over(office.decider, [here], Actor(DAN, "cli"), of=DAN, to=CLEO)
    await office.leave(MARA, "dan", days=4)
    here = await office.now(approval)
    assert {*here.ballot.own} == {"mara", "cleo"}
    with pytest.raises(NotAnApprover, match="went to Cleo Park"):
        await office.decider.approve(approval.id, DAN, channel="cli")
    # Cleo goes away too: now it comes back, because nobody else is there.
    await office.leave(CLEO)
    assert {*(await office.now(approval)).ballot.own} == {"mara", "cleo", "dan"}


async def test_what_an_operator_has_taken_does_not_come_back(opened: Open) -> None:
    """Not even if the person who got it goes away."""
    office, approval = await opened(level("mara"))
    await office.leave(MARA, "dan")
    here = await office.now(approval)
    await hand_over(office.decider, [here], BOSS, of=DAN, to=CLEO)
    await office.leave(MARA, "dan", days=4)
    await office.leave(CLEO)
    assert {*(await office.now(approval)).ballot.own} == {"mara", "cleo"}
    with pytest.raises(NotAnApprover, match="went to Cleo Park"):
        await office.decider.approve(approval.id, DAN, channel="cli")


async def test_a_queue_passes_over_from_whom_a_place_was_taken(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The member who got it leaves: the next one is asked from whom it was not taken."""
    office = Office(still_channels, clock, level("queue:desk"))
    queue = Queue(name="desk", members=("mara", "dan", "cleo"), pick=Pick.LEAST_RECENT)
    office.channels.directory.become(Directory(office.channels.directory, queues=[queue]))
    approval = await office.ask()
    here = await office.now(approval)
    assert here.ballot.own == ("mara",)
    # Further requests ask the others, so that it is Mara's turn again.
    await office.ask()
    await office.ask()
    await hand_over(office.decider, [here], BOSS, of=MARA, to=CLEO)
    await office.leave(CLEO)
    assert (await office.now(approval)).ballot.own == ("cleo", "dan")


async def test_who_was_given_a_place_may_name_its_former_holder_as_delegate(opened: Open) -> None:
    """Mara hands over to Dan and returns; then Dan goes away and leaves it to Mara."""
    office, approval = await opened(level("mara"))
    await office.leave(MARA, "dan")
    here = await office.now(approval)
    await hand_over(office.decider, [here], BOSS, of=MARA, to=DAN)
    await office.decider.people.come_back(MARA, by="test", more={})
    await office.leave(DAN, "mara")
    assert (await office.now(approval)).ballot.own == ("dan", "mara")
    done = await office.decider.approve(approval.id, MARA, channel="cli")
    assert done.state is State.APPROVED
