"""A level that a timer begins: its cards are made in the same commit, or by `route`."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY, people
from channels.conftest import Channels
from deciding import Decider
from signoff.broker import stages
from signoff.broker.timers.due import DueChanges
from signoff.broker.work import SendStatus
from signoff.channels.pipeline.route import Router
from signoff.core.approvals.events import What
from signoff.core.approvals.milestones import Milestone
from signoff.core.base.durations import Span
from signoff.core.directory.notifications import NotifyOn
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)
LEVELS = (
    Level(ask=("mara",), within=Span(HOUR)),
    Level(ask=("cleo",), within=Span(HOUR)),
)


@pytest.mark.parametrize("here", [True, False])
async def test_escalation_sends_the_same_cards_with_and_without_local_routing(
    still_channels: Channels, clock: VirtualClock, here: bool
) -> None:
    """Cleo gets one card, Mara's names the new level, Riley is told, and the audit has it all."""
    ledger = still_channels.ledger
    policy = Policy(
        name="expenses", when="true", levels=LEVELS, notify_requester=(NotifyOn.ESCALATED,)
    )
    router = Router(
        ledger, policies=(policy,), fallback=Fallback(ask=("mara",)), directory=people()
    )
    opened = await still_channels.open()
    await router.drain()
    decider = Decider(ledger, people())
    decider.due = DueChanges(decider.roster, router.cards if here else None)
    clock.advance(HOUR)
    await decider.time_out(opened.id)
    assert (await ledger.backlog())[stages.ROUTE] == (0 if here else 2)
    await router.drain()
    approval = await ledger.approval(opened.id)
    assert [(one.person, one.level_key) for one in approval.asked] == [
        (MARA.id, ""),
        (CLEO.id, "0.1"),
    ]
    items = (await ledger.claim(stages.deliver("email"))).items
    assert {item.id.split(":")[0] for item in items} == {"card", "moved", "status"}
    (status,) = [item.work for item in items if item.body["person"] == RILEY.id]
    assert isinstance(status, SendStatus)
    assert (status.milestone, status.level_key) == (Milestone.ESCALATED, approval.level_key)
    (card,) = [item for item in items if item.body["person"] == CLEO.id]
    assert card.body["token"]
    assert card.body["turn"] == approval.level_key
    whats = [event.what for event in await ledger.history(opened.id)]
    assert whats[-2:] == [What.ESCALATED, What.ASKED]
