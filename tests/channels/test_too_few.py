"""A quorum that has become impossible is noticed immediately, not at the deadline."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from builders import CLEO, MARA
from channels.conftest import Channels
from channels.test_levels import Floor, level
from deciding import Decider
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result
from signoff.channels.pipeline.route import Router
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import FakeChannel, VirtualClock

NO_TIME, DAY = timedelta(), timedelta(days=1)


async def both_channels(
    channels: Channels, *gone: str, unknown: tuple[str, ...] = ("cleo",), wait: timedelta = NO_TIME
) -> tuple[Approval, FakeChannel, FakeChannel]:
    """Ask Mara and Cleo in Slack, where one is unknown; both have to approve.

    Args:
        channels: The ledger and the directory.
        gone: Ids of people whose mail comes back.
        unknown: Ids of people whom Slack does not know.
        wait: How long Slack says nothing.

    Returns:
        The approval, Slack and the mail.
    """
    people = [one.model_copy(update={"slack": f"U{one.id.upper()}"}) for one in (MARA, CLEO)]
    directory = Directory([*people, *(one for one in channels.directory if one.id == "riley")])
    decider = Decider(channels.ledger, directory)
    policy = Policy(name="both", ask=("mara", "cleo"), quorum=2, channels=("slack",), within=DAY)
    router = Router(
        channels.ledger,
        policies=[policy],
        fallback=Fallback(ask=("mara",)),
        directory=directory,
        channels=("email", "slack"),
    )

    def refuse(*names: str) -> Callable[[Message], Result]:
        return lambda message: (
            Refused("not here") if message.person in names else Delivered(f"r:{message.id}")
        )

    slack = FakeChannel("slack", respond=refuse(*unknown))
    mail = FakeChannel("email", respond=refuse(*gone))
    approval = await channels.open()
    await router.drain()
    if wait:
        channels.clock.advance(wait)
    for _ in range(6):
        await router.drain()
        for channel in (slack, mail):
            await Delivery(channels.ledger, channel, directory=directory).drain()
    assert decider.ledger is channels.ledger
    return await channels.ledger.approval(approval.id), slack, mail


async def test_approver_refused_by_one_channel_is_asked_by_mail(still_channels: Channels) -> None:
    """The other approver keeps their card and time, and both decide together."""
    approval, slack, mail = await both_channels(still_channels)
    assert [(one.person, one.kind) for one in mail.delivered] == [("cleo", Kind.CARD)]
    assert [(one.person, one.kind) for one in slack.delivered] == [("mara", Kind.CARD)]
    asked = [one for one in await still_channels.events(approval) if one.what is What.ASKED]
    assert len(asked) == 2
    assert (deliveries.unreached(approval), deliveries.can_be_met(approval), approval.level) == (
        (),
        True,
        0,
    )
    decider = Decider(still_channels.ledger, still_channels.directory)
    await decider.approve(approval.id, MARA, channel="cli")
    done = await decider.approve(approval.id, CLEO, channel="cli")
    assert done.state is State.APPROVED


async def test_level_that_no_card_reached_starts_again_by_mail(still_channels: Channels) -> None:
    """Slack knows none of its people, after an hour: they have the full time from the mails on."""
    approval, slack, mail = await both_channels(
        still_channels, unknown=("mara", "cleo"), wait=timedelta(hours=1)
    )
    assert slack.delivered == []
    assert sorted(one.person for one in mail.delivered) == ["cleo", "mara"]
    assert approval.level == 0
    assert approval.deadline == still_channels.clock.now() + DAY
    whys = [one.why for one in await still_channels.events(approval) if one.what is What.ASKED]
    assert "they are asked by mail" in whys[-1]


async def test_impossible_quorum_raises_an_alarm_at_once(still_channels: Channels) -> None:
    """Nobody else can be asked: the alarm names the missing people before the deadline."""
    approval, _, _ = await both_channels(still_channels, "cleo")
    assert (deliveries.unreached(approval), deliveries.can_be_met(approval)) == (("cleo",), False)
    events = await still_channels.events(approval)
    alarm = next(one for one in events if one.what is What.UNROUTABLE)
    assert "2 must approve, and no card reaches Cleo Park" in alarm.why


async def test_impossible_quorum_escalates_at_once(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """This happens without waiting, although one person of this level was reached."""
    floor = Floor(still_channels, clock, level("mara", "cleo", quorum="all"), level("dan"))

    def respond(message: Message) -> Delivered | Refused:
        return Refused("no such mailbox") if message.person == "cleo" else Delivered(message.id)

    floor.channels.channel = FakeChannel(respond=respond)
    approval = await floor.ask()
    after = await floor.now(approval)
    assert (after.level, after.ballot.own) == (1, ("dan",))
    whats = await floor.channels.whats(approval)
    assert whats.index(What.UNROUTABLE) < whats.index(What.ESCALATED)


async def test_refused_card_changes_nothing_while_the_quorum_is_possible(
    still_channels: Channels, clock: VirtualClock
) -> None:
    """One approval is needed, and one of two people was reached."""
    floor = Floor(still_channels, clock, level("mara", "cleo"), level("dan"))

    def respond(message: Message) -> Delivered | Refused:
        return Refused("no such mailbox") if message.person == "cleo" else Delivered(message.id)

    floor.channels.channel = FakeChannel(respond=respond)
    approval = await floor.now(await floor.ask())
    assert (approval.level, approval.ballot.awaited) == (0, ("mara", "cleo"))
