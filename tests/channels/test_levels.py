"""Levels with the real router, ledger and delivery, on a virtual clock."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from channels.test_intake import reply, take
from deciding import Decider
from signoff.broker.directory.absences import People
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.email.outbound.channel import sent_lines
from signoff.channels.email.outbound.render import html, plain_text
from signoff.channels.email.settings import EmailSettings
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Actor, Reassign
from signoff.core.base.errors import Escalated, NotAnApprover, OwnRequest
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel, VirtualClock

HOUR = timedelta(hours=1)
SETTINGS = EmailSettings(mailbox="approvals@signoff.example")
DAN = Person(id="dan", name="Dan Roe", email="dan@example.com", manager="mara")
ASKER = RILEY.model_copy(update={"manager": "dan"})


def level(*ask: str, **rules: Any) -> Level:
    """Return a level with a deadline of an hour."""
    return Level(ask=ask, within="1h", **rules)


class Floor:
    """An office and its clock: due work is done, and waiting messages are delivered."""

    def __init__(
        self, channels: Channels, clock: VirtualClock, *parts: Level, **rules: Any
    ) -> None:
        self.clock = clock
        policy = Policy(name="expenses", levels=parts, **rules)
        directory = Directory([MARA, CLEO, DAN, ASKER])
        decider = Decider(channels.ledger, directory)
        self.channels = replace(channels, decider=decider, directory=directory, policies=(policy,))

    async def ask(self, **parts: Any) -> Approval:
        """Open a request, and deliver its first cards."""
        approval = await self.channels.open(**parts)
        await self.settle()
        return await self.channels.ledger.approval(approval.id)

    async def wait(self, time: timedelta) -> None:
        """Advance the clock, and run the timers."""
        self.clock.advance(time)
        await Reconciler(self.channels.decider.roster).once()
        await self.settle()

    async def settle(self) -> None:
        """Run the stages until nothing waits."""
        while await self.channels.router.drain() + await self.channels.delivery.drain():
            pass

    def told(self) -> list[tuple[str, Kind]]:
        """Return the recipients of messages since the last call."""
        messages = [(one.person, one.kind) for one in self.channels.channel.delivered]
        self.channels.channel.delivered.clear()
        return sorted(messages)

    async def now(self, approval: Approval) -> Approval:
        """Return the current approval."""
        return await self.channels.ledger.approval(approval.id)


async def elsewhere_away(floor: Floor, person: Person, *, delegate: str) -> None:
    """Record in another process that a person is away today, and who stands in."""
    today = floor.clock.now().date()
    absence = Absence(start=today, end=today, delegate=delegate)
    people = People(floor.channels.ledger, floor.channels.directory)
    await people.leave(person, absence, by="test", more={})


async def test_answer_to_a_level_that_is_due_heeds_an_absence_of_another_process(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The first level is over, and no timer has run: the delegate can decide at once."""
    floor = Floor(still_channels, clock, level("dan"), level("mara"))
    approval = await floor.ask()
    await elsewhere_away(floor, MARA, delegate="cleo")
    clock.advance(HOUR)
    done = await floor.channels.decider.approve(approval.id, CLEO, channel="cli")
    assert done.decided_by == ("cleo",)


async def test_timers_heed_an_absence_of_another_process(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """They read who is away before a level begins, so that its first card goes to the delegate."""
    floor = Floor(still_channels, clock, level("dan"), level("mara"))
    approval = await floor.ask()
    await elsewhere_away(floor, MARA, delegate="cleo")
    clock.advance(HOUR)
    assert await Reconciler(floor.channels.decider.roster).once() == 1
    assert "cleo" in (await floor.now(approval)).approvers


async def test_the_lines_of_a_later_card_are_known(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A quotation of the card is recognised, with the time that was left when it was sent."""
    floor = Floor(still_channels, clock, level("dan"), level("mara"))
    approval = await floor.ask()
    await floor.wait(HOUR)
    (card,) = (one for one in floor.channels.channel.delivered if one.person == "mara")
    ours = sent_lines(
        await floor.now(approval),
        "mara",
        directory=floor.channels.directory,
        settings=SETTINGS,
        inbox=floor.channels.inbox,
    )
    text = plain_text(card, SETTINGS)
    assert "(in 1 h)" in text
    assert {line for line in text.splitlines() if line.strip()} <= ours


async def test_a_successor_above_a_slack_channel_gets_a_card_alone(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The card of the level below stands in a channel; that of this level is their own."""
    there = FakeChannel()
    there.name = "slack"
    floor = Floor(still_channels, clock, level("dan", slack_channel="C0FINANCE"), level("mara"))
    office = floor.channels
    router = Router(
        office.ledger,
        policies=office.policies,
        fallback=office.fallback,
        directory=office.directory,
        channels=("email", "slack"),
    )
    approval = await office.open()
    await router.drain()
    await Delivery(office.ledger, there, directory=office.directory).drain()
    clock.advance(HOUR)
    await Reconciler(office.decider.roster).once()
    while await router.drain() + await office.delivery.drain():
        pass
    office.channel.delivered.clear()
    to_cleo = Reassign(of=MARA, to=CLEO, reason="she knows the vendor")
    (await office.decider.take(approval.id, to_cleo, Actor(MARA, "email"))).approval_or_raise()
    while await router.drain() + await office.delivery.drain():
        pass
    assert [(one.person, one.kind) for one in office.channel.delivered] == [("cleo", Kind.CARD)]


async def test_three_levels_and_reminders(still_channels: Channels, clock: VirtualClock) -> None:
    """Each level gets cards and reminders, and earlier ones learn where it escalated."""
    floor = Floor(
        still_channels,
        clock,
        level("requester.manager", remind=("30m",)),
        level("mara", name="finance"),
        level("cleo", name="the board"),
    )
    approval = await floor.ask()
    assert floor.told() == [("dan", Kind.CARD)]
    await floor.wait(HOUR / 2)
    (reminder,) = floor.channels.channel.delivered
    assert (reminder.kind, reminder.person) == (Kind.NOTICE, "dan")
    assert reminder.headline.startswith("A reminder: reimburse waits")
    assert reminder.token
    assert reminder.thread
    floor.told()

    await floor.wait(HOUR / 2)

    moved = next(one for one in floor.channels.channel.delivered if one.kind is Kind.OUTCOME)
    assert moved.headline == "reimburse was escalated to finance"
    assert "so it was escalated on " in moved.text
    fresh = next(one for one in floor.channels.channel.delivered if one.kind is Kind.CARD)
    assert fresh.card.escalated == "Escalated: Dan Roe did not decide within 1 h."
    assert floor.told() == [("dan", Kind.OUTCOME), ("mara", Kind.CARD)]
    await floor.wait(HOUR)
    assert floor.told() == [("cleo", Kind.CARD), ("mara", Kind.OUTCOME)]
    await floor.wait(HOUR)
    assert (await floor.now(approval)).state is State.TIMED_OUT
    assert floor.told() == [
        ("cleo", Kind.OUTCOME),
        ("dan", Kind.OUTCOME),
        ("mara", Kind.OUTCOME),
        ("riley", Kind.STATUS),
    ]
    whats = await floor.channels.whats(approval)
    assert whats.count(What.ESCALATED) == 2
    assert whats.count(What.REMINDED) == 1


async def test_an_answer_is_judged_by_the_level_of_that_moment(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """Before any timer has run, the earlier level is refused and the later one decides."""
    floor = Floor(still_channels, clock, level("mara"), level("cleo", name="finance"))
    approval = await floor.ask()
    decider = floor.channels.decider
    clock.advance(HOUR)
    with pytest.raises(Escalated, match="went on to finance"):
        await decider.approve(approval.id, MARA, channel="email")
    with pytest.raises(NotAnApprover):
        await decider.approve(approval.id, DAN, channel="cli")
    assert (await floor.now(approval)).level == 0

    done = await decider.approve(approval.id, CLEO, channel="cli")

    assert (done.state, done.level) == (State.APPROVED, 1)
    assert (await floor.channels.whats(approval))[-2:] == [
        What.ESCALATED,
        What.APPROVED,
    ]


async def test_two_of_three_by_two_channels(still_channels: Channels, clock: VirtualClock) -> None:
    """A person counts once in any channel, and reads how many approvals are missing."""
    floor = Floor(still_channels, clock, level("mara", "cleo", "dan", quorum=2))
    approval = await floor.ask()
    tokens = {one.person: one.token for one in floor.channels.channel.delivered}
    (notice,) = await take(floor.channels, reply(tokens["mara"], "approve"))
    assert notice.headline == "Recorded: your yes to reimburse; one more is needed"
    assert "1 of 2 have approved: Mara Lind" in notice.text
    again = await floor.channels.decider.approve(approval.id, MARA, channel="slack")
    assert again.state is State.PENDING

    done = await floor.channels.decider.approve(approval.id, DAN, channel="cli")

    assert done.state is State.APPROVED
    event = (await floor.channels.events(approval))[-1]
    assert event.more["approved_by"] == ["mara", "dan"]
    await floor.settle()
    outcomes = [one for one in floor.channels.channel.delivered if one.kind is Kind.OUTCOME]
    assert {one.person: one.headline for one in outcomes} == {
        "mara": "You and Dan Roe approved reimburse",
        "cleo": "Mara Lind and Dan Roe approved reimburse",
        "dan": "Recorded: you approved reimburse",
    }


async def test_a_veto_after_a_yes(still_channels: Channels, clock: VirtualClock) -> None:
    """One rejection ends it, and its reason is told."""
    floor = Floor(still_channels, clock, level("mara", "cleo", quorum="all"))
    approval = await floor.ask()
    await floor.channels.decider.approve(approval.id, MARA, channel="email")
    done = await floor.channels.decider.reject(
        approval.id, CLEO, channel="email", reason="too dear"
    )
    assert (done.state, done.decision and done.decision.reason) == (State.REJECTED, "too dear")


async def test_second_level_gets_its_card_after_the_first_approval(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The second approver gets the card after the first approval."""
    floor = Floor(still_channels, clock, level("mara", "cleo", quorum="all", order="sequence"))
    approval = await floor.ask()
    assert floor.told() == [("mara", Kind.CARD)]
    await floor.channels.decider.approve(approval.id, MARA, channel="email")
    await floor.settle()
    assert floor.told() == [("cleo", Kind.CARD)]
    assert (await floor.channels.decider.approve(approval.id, CLEO, channel="email")).state is (
        State.APPROVED
    )


async def test_unreachable_level_escalates_at_once(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """After a refused card the next level is asked without waiting, and then the default."""
    floor = Floor(still_channels, clock, level("mara"), level("dan"))
    floor.channels.fallback = Fallback(ask=("cleo",))

    def respond(message: Message) -> Result:
        return Refused("no such mailbox") if message.person != "cleo" else Delivered(message.id)

    floor.channels.channel = FakeChannel(respond=respond)
    approval = await floor.ask()
    after = await floor.now(approval)
    assert after.terms is not None
    assert (after.terms.policy, set(after.approvers)) == ("default", {"cleo", "dan", "mara"})
    assert (await floor.channels.whats(approval)).count(What.ESCALATED) == 1


async def test_unreachable_approver_may_answer_until_the_level_ends(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """A returned card does not exclude a person from answering; the end of a level does."""
    floor = Floor(still_channels, clock, level("dan"), level("mara"), level("cleo"))

    def respond(message: Message) -> Result:
        return Refused("no such mailbox") if message.person == "mara" else Delivered(message.id)

    floor.channels.channel = FakeChannel(respond=respond)
    approval = await floor.ask()
    await floor.wait(HOUR)

    after = await floor.now(approval)
    assert after.approvers == {"cleo", "mara"}
    with pytest.raises(Escalated):
        await floor.channels.decider.reject(approval.id, DAN, channel="cli")
    ended = await floor.channels.decider.reject(approval.id, MARA, channel="cli")
    assert ended.state is State.REJECTED


async def test_again_from_the_beginning(still_channels: Channels, clock: VirtualClock) -> None:
    """A person who is asked again gets a second card, with the same effect as the first."""
    floor = Floor(still_channels, clock, level("mara"), level("cleo"), repeat=1)
    approval = await floor.ask()
    (first,) = floor.channels.channel.delivered
    await floor.wait(HOUR)
    floor.told()
    await floor.wait(HOUR)
    (card,) = [one for one in floor.channels.channel.delivered if one.kind is Kind.CARD]
    assert (card.person, card.level_key) == ("mara", "1.0")
    assert card.id != first.id
    assert card.token != first.token
    (asked,) = [one for one in (await floor.now(approval)).asked if one.person == "mara"]
    assert asked.copies
    await take(floor.channels, reply(card.token, "approve"))
    assert (await floor.now(approval)).state is State.APPROVED


async def test_a_late_mail_of_an_earlier_level_is_answered(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """It changes nothing, and the reply names the current level."""
    floor = Floor(still_channels, clock, level("mara"), level("cleo", name="finance"))
    approval = await floor.ask()
    (card,) = floor.channels.channel.delivered
    await floor.wait(HOUR)
    (notice,) = await take(floor.channels, reply(card.token, "approve"))
    assert notice.headline == "Too late: reimburse now waits for others"
    assert "went on to finance" in notice.text
    assert (await floor.now(approval)).state is State.PENDING


async def test_a_reason_that_is_missing_is_asked_for_by_mail(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """Nothing is decided, and the reply shows an answer that would have worked."""
    floor = Floor(still_channels, clock, level("mara", reasons=("reject",)))
    approval = await floor.ask()
    (card,) = floor.channels.channel.delivered
    (notice,) = await take(floor.channels, reply(card.token, "reject"))
    assert (notice.example, "needs a reason" in notice.text) == ("reject: because …", True)
    await take(floor.channels, reply(card.token, "reject: too dear"))
    assert (await floor.now(approval)).state is State.REJECTED


@pytest.mark.parametrize(
    ("template", "yes"),
    [
        (None, "approve"),
        ({"approved_days": 0}, "approve 3"),
        ({"plan": "", "days": 0}, "approve\nplan: b\ndays: 3"),
    ],
)
async def test_a_reason_for_a_yes_is_asked_for_by_mail(
    still_channels: Channels, clock: VirtualClock, template: JsonValue, yes: str
) -> None:
    """The card says how to give it, its button leaves room for it, and the shown answer works."""
    floor = Floor(still_channels, clock, level("mara", reasons=("approve",)))
    approval = await floor.ask(template=template)
    (card,) = floor.channels.channel.delivered
    assert "note: the reason" in plain_text(card, SETTINGS)
    assert "%0D%0Anote%3A%20" in html(card, SETTINGS)
    for unsaid in (yes, f"{yes}\nnote: "):
        (notice,) = await take(floor.channels, reply(card.token, unsaid))
        assert "needs a reason" in notice.text
        assert (await floor.now(approval)).state is State.PENDING
    assert notice.example.endswith("\nnote: because …")
    await take(floor.channels, reply(card.token, notice.example))
    assert (await floor.now(approval)).state is State.APPROVED


async def test_agent_owner_is_not_asked_and_cannot_decide(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The settings name the owner, for all calls of the agent."""
    floor = Floor(still_channels, clock, level("mara", "cleo"))
    approval = await floor.channels.open()
    router = Router(
        floor.channels.ledger,
        policies=floor.channels.policies,
        fallback=Fallback(),
        directory=floor.channels.directory,
        owners={"finance": "mara"},
    )
    await router.drain()
    after = await floor.now(approval)
    assert (set(after.approvers), after.barred) == ({"cleo"}, ("mara",))
    with pytest.raises(OwnRequest, match="owns the agent"):
        await floor.channels.decider.approve(approval.id, MARA, channel="cli")


async def test_silence_approves_under_the_ceiling(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """The run continues with exactly that call."""
    rules = {"on_timeout": "approve", "ceiling": "args.amount <= 2500"}
    floor = Floor(still_channels, clock, level("mara"), **rules)
    approval = await floor.ask()
    await floor.wait(HOUR)
    after = await floor.now(approval)
    assert after.state is State.APPROVED
    assert (await floor.channels.ledger.run(approval.origin.run)).state.value == "answered"
