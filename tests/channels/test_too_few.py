"""A quorum that has become impossible is noticed immediately, not at the deadline."""

from __future__ import annotations

from collections.abc import Callable

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


async def both_channels(channels: Channels, *gone: str) -> tuple[Approval, FakeChannel]:
    """Ask Mara and Cleo in Slack, where Cleo is unknown; both have to approve.

    Args:
        channels: The ledger and the directory.
        gone: Ids of people whose mail comes back.
    """
    people = [one.model_copy(update={"slack": f"U{one.id.upper()}"}) for one in (MARA, CLEO)]
    directory = Directory([*people, *(one for one in channels.directory if one.id == "riley")])
    decider = Decider(channels.ledger, directory)
    policy = Policy(name="both", ask=("mara", "cleo"), quorum=2, channels=("slack",))
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

    slack = FakeChannel("slack", respond=refuse("cleo"))
    mail = FakeChannel("email", respond=refuse(*gone))
    approval = await channels.open()
    for _ in range(6):
        await router.drain()
        for channel in (slack, mail):
            await Delivery(channels.ledger, channel, directory=directory).drain()
    assert decider.ledger is channels.ledger
    return await channels.ledger.approval(approval.id), mail


async def test_approver_refused_by_one_channel_is_asked_by_mail(still_channels: Channels) -> None:
    """The other approver keeps their card and time, and both decide together."""
    approval, mail = await both_channels(still_channels)
    assert [(one.person, one.kind) for one in mail.delivered] == [("cleo", Kind.CARD)]
    assert (deliveries.unreached(approval), deliveries.can_be_met(approval), approval.level) == (
        (),
        True,
        0,
    )
    decider = Decider(still_channels.ledger, still_channels.directory)
    await decider.approve(approval.id, MARA, channel="cli")
    done = await decider.approve(approval.id, CLEO, channel="cli")
    assert done.state is State.APPROVED


async def test_impossible_quorum_raises_an_alarm_at_once(still_channels: Channels) -> None:
    """Nobody else can be asked: the alarm names the missing people before the deadline."""
    approval, _ = await both_channels(still_channels, "cleo")
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
