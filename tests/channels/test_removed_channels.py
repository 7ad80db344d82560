"""If a channel is removed from the settings while its cards are open, people are asked by mail."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial

import pytest

from builders import MARA
from channels.conftest import Channels
from signoff.broker import heartbeat
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Message, Result, Retry
from signoff.channels.pipeline.removed_channels import RemovedChannels
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.policies.policy import Policy
from signoff.core.routing.targets import Reach
from signoff.testing import FakeChannel

BOTH, MAIL = ({"email", "slack"}, {"email"})


async def says(ledger: Ledger, process: str, state: dict[str, str]) -> None:
    """Let a channels process send a heartbeat."""
    await heartbeat.beat(ledger, "channels", process, json.dumps(state))


async def has(ledger: Ledger, process: str, names: set[str]) -> None:
    """Let a channels process say which channels it has."""
    await says(ledger, process, {"reach": Reach(names).text})


async def asked_in_slack(channels: Channels, *, busy: bool) -> Approval:
    """Ask Mara in Slack; if Slack is busy, her card waits for another attempt."""
    channels.policies = (Policy(name="expenses", ask=("mara",), channels=("slack",)),)

    def respond(_: Message) -> Result:
        return Retry(5, "busy")

    slack = FakeChannel("slack", respond=respond) if busy else FakeChannel("slack")
    approval = await channels.open()
    await Router(
        channels.ledger,
        policies=channels.policies,
        fallback=channels.fallback,
        directory=channels.directory,
        channels=BOTH,
    ).drain()
    await Delivery(channels.ledger, slack, directory=channels.directory).drain()
    return approval


def checker(channels: Channels) -> RemovedChannels:
    """Return what looks for removed channels."""
    delivery = partial(Delivery, channels.ledger, directory=channels.directory)
    return RemovedChannels(channels.ledger, delivery)


@pytest.mark.parametrize("busy", [False, True])
async def test_people_are_asked_by_mail(still_channels: Channels, busy: bool) -> None:
    """Whether their card was delivered or was still on its way; their answer by mail counts."""
    channels, ledger = still_channels, still_channels.ledger
    approval = await asked_in_slack(channels, busy=busy)
    await has(ledger, "host:1", MAIL)
    checked = checker(channels)
    await checked.once()
    assert What.UNDELIVERED not in await channels.whats(approval)
    await checked.once()
    channels.clock.advance(timedelta(seconds=10))
    await checked.once()
    await channels.router.drain()
    await channels.delivery.drain()
    (card,) = channels.channel.delivered
    assert (card.person, card.address) == ("mara", "mara@example.com")
    (refused,) = {
        one.why for one in await channels.events(approval) if one.what is What.UNDELIVERED
    }
    assert refused == "the channel slack is not set up any more"
    assert (await ledger.backlog())["deliver.slack"] == 0
    after = await channels.decider.approve(approval.id, MARA, channel="email")
    assert after.state is State.APPROVED


@pytest.mark.parametrize(
    "others", [[("host:2", {"reach": Reach(BOTH).text})], [("host:2", {"rules": "x"})]]
)
async def test_a_process_that_has_the_channel_delivers(
    channels: Channels, others: list[tuple[str, dict[str, str]]]
) -> None:
    """So may a process of another release, which does not say which channels it has."""
    approval = await asked_in_slack(channels, busy=False)
    await has(channels.ledger, "host:1", MAIL)
    for process, state in others:
        await says(channels.ledger, process, state)
    checked = checker(channels)
    for _ in range(3):
        await checked.once()
    assert What.UNDELIVERED not in await channels.whats(approval)


async def test_a_channel_that_is_missing_for_a_moment_is_kept(channels: Channels) -> None:
    """While processes are restarted, none may have it for some seconds."""
    approval = await asked_in_slack(channels, busy=False)
    checked = checker(channels)
    await checked.once()  # nobody is alive
    for names in (MAIL, BOTH, MAIL):
        await has(channels.ledger, "host:1", names)
        await checked.once()
    assert What.UNDELIVERED not in await channels.whats(approval)
