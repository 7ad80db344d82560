"""A timer that keeps failing is reported, asks other people, and delays no other approval."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from deciding import Decider
from signoff.broker import stages
from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.timers.due_approvals import LEASE
from signoff.broker.timers.poison import PATIENCE, poisoned
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.pipeline.outbox import MOST_ATTEMPTS
from signoff.channels.pipeline.port import Kind
from signoff.channels.pipeline.route import Router
from signoff.cli.doctor.ledger import unfinished_work
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import Event, What
from signoff.core.approvals.run import RunState
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock

HOUR, CYCLE = timedelta(hours=1), timedelta(seconds=LEASE + 1)
FIRST = Level(ask=("mara",), within="1h")


class _Away(dict[str, Any]):
    """A calendar server that does not answer."""

    def get(self, key: str, default: Any = None) -> Any:
        """Raise an error, as foreign code can."""
        raise RuntimeError(f"the calendar of {key} does not answer")


class Shop:
    """The stages on a virtual clock, with a calendar that does not answer."""

    def __init__(self, channels: Channels, clock: VirtualClock) -> None:
        directory = Directory([MARA, CLEO, RILEY])
        directory.schedules = MappingProxyType(_Away())
        policies = (
            Policy(
                name="broken",
                when='tool == "deploy"',
                levels=(FIRST, Level(ask=("schedule:on-call",), within="1h")),
            ),
            Policy(name="whole", when="true", levels=(FIRST, Level(ask=("cleo",), within="1h"))),
        )
        decider = Decider(channels.ledger, directory)
        self.clock, self.ledger = clock, channels.ledger
        self.channels = replace(channels, decider=decider, directory=directory, policies=policies)
        self.router = self.channels.router
        self.reconciler = Reconciler(decider.roster)

    async def open(self, tool: str) -> Approval:
        """Open a request and deliver its first card."""
        approval, _ = await self.channels.ask(tool=tool)
        return approval

    async def wait(self, time: timedelta) -> None:
        """Advance the clock, and let every stage do its due work."""
        self.clock.advance(time)
        await self.reconciler.once()
        while await self.router.drain() + await self.channels.delivery.drain():
            pass

    def cards(self, approval: Approval) -> list[str]:
        """Return the recipients of cards, in order."""
        delivered = self.channels.channel.delivered
        return [
            one.person
            for one in delivered
            if one.kind is Kind.CARD and one.card.approval == approval.id
        ]


@pytest.fixture
def shop(still_channels: Channels, clock: VirtualClock) -> Shop:
    """Return a shop on the virtual clock."""
    return Shop(still_channels, clock)


@pytest.mark.promise
async def test_approval_with_a_failing_timer_is_reported_and_asks_the_default(shop: Shop) -> None:
    """The other approval escalates; after five failures this one is reported and asks Cleo."""
    broken, whole = await shop.open("deploy"), await shop.open("reimburse")
    await shop.wait(HOUR)
    assert shop.cards(whole) == ["mara", "cleo"]
    for _ in range(PATIENCE - 2):
        await shop.wait(CYCLE)
    assert await poisoned(shop.ledger) == []
    assert shop.cards(broken) == ["mara"]

    shop.clock.advance(CYCLE)
    await shop.reconciler.once()

    (one,) = await poisoned(shop.ledger)
    assert (one.approval, one.tries) == (broken.id, PATIENCE)
    assert "the calendar of on-call does not answer" in one.problem
    findings = {one.about: one for one in await unfinished_work(shop.ledger)}
    assert broken.id in findings["approvals"].text
    assert findings["approvals"].level == "broken"
    assert "dead:timers:" in findings["dead letters"].text

    await shop.wait(timedelta())
    assert shop.cards(broken) == ["mara", "cleo"]
    whats = [event.what for event in await shop.ledger.history(broken.id)]
    assert whats[-4:-1] == [What.POISONED, What.UNROUTABLE, What.ASKED]
    assert await poisoned(shop.ledger) == []
    decider = shop.channels.decider
    done = await decider.approve(broken.id, CLEO, channel="email")
    assert done.state is State.APPROVED
    assert (await shop.ledger.run(broken.origin.run)).state is RunState.ANSWERED


@pytest.mark.promise
async def test_unreadable_record_is_reported_and_the_rest_escalates(shop: Shop) -> None:
    """The rest of the batch escalates; the audit and the doctor report the unreadable record."""
    unread, whole = await shop.open("reimburse"), await shop.open("refund")
    version, _ = await shop.ledger.raw(f"approval:{unread.id}") or (0, "")
    spoil = Change().put_raw(f"approval:{unread.id}", '{"id": 1}', was=version)
    await shop.ledger.commit(spoil)
    await shop.wait(HOUR)
    assert shop.cards(whole) == ["mara", "cleo"]
    for _ in range(PATIENCE):
        await shop.wait(CYCLE)
    (one,) = await poisoned(shop.ledger)
    assert one.approval == unread.id
    entries = audit.entries(shop.ledger.store)
    told = [Event.model_validate_json(text) async for _, text, _ in entries]
    assert [one.approval for one in told if one.what is What.POISONED] == [unread.id]


@pytest.mark.promise
async def test_failing_cards_do_not_delay_the_start_of_a_level(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The level begins on time; `route` retries the cards, and then asks the default."""

    def fail(*_: object) -> tuple[Approval, tuple[Event, ...]]:
        raise RuntimeError("no card for this")

    shop.reconciler = Reconciler(shop.channels.decider.roster, cards=fail)
    monkeypatch.setattr(Router, "_cards", fail)
    third = Level(ask=("riley",), within="1h")
    levels = (FIRST, Level(ask=("cleo",), within="30h"), third)
    shop.channels = replace(shop.channels, policies=(Policy(name="p", levels=levels),))
    shop.router = shop.channels.router
    approval = await shop.open("reimburse")
    await shop.wait(HOUR)
    assert (await shop.ledger.approval(approval.id)).level == 1
    assert (await shop.ledger.backlog())[stages.ROUTE] == 1
    for _ in range(MOST_ATTEMPTS):
        await shop.wait(timedelta(minutes=15))
    events = await shop.ledger.history(approval.id)
    (alarm,) = [one for one in events if one.what is What.UNROUTABLE]
    assert "no card for this" in alarm.why
    assert "dead letters" in {one.about for one in await unfinished_work(shop.ledger)}
    # The default skips Riley, the requester; Cleo, of the level without cards, gets a mail.
    assert shop.cards(approval)[-1] == "cleo"
    assert deliveries.is_reachable(await shop.ledger.approval(approval.id))
