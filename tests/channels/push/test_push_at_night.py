"""Notifications respect quiet hours."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY
from channels.push.conftest import Notified
from channels.push.device import PushService
from signoff.broker.ledger.change import Change
from signoff.broker.work import SendPush
from signoff.core.directory.people import Directory
from signoff.core.policies.policy import Policy

LATER = NOON + timedelta(hours=2)


@pytest.fixture
def directory() -> Directory:
    """Mara starts work at two o'clock and wants no messages before."""
    late = MARA.model_copy(update={"hours": ("Mon-Fri 14:00-18:00",), "quiet_hours": True})
    return Directory([late, CLEO, RILEY])


async def test_the_device_waits_with_the_card(office: Notified, service: PushService) -> None:
    """Both arrive at the start of her working hours."""
    device = service.device()
    await office.turn_on(device)
    office.channels.policies = (Policy(name="expenses", ask=("mara",), within="24h"),)
    approval = await office.channels.open(amount=1)
    await office.deliver()
    assert office.channels.channel.delivered == []
    # In a Slack channel, the card is there for the others.
    early = SendPush(person="mara", approvals=(approval.id,), cause="a card in a place")
    await office.channels.ledger.commit(Change().send(early))
    await office.deliver()
    assert service.got == []
    office.channels.clock.advance(LATER - NOON)
    await office.deliver()
    assert len(service.to(device)) == len(office.channels.channel.delivered) == 1
