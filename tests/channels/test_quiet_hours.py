"""Quiet hours in the router and the delivery, on the virtual clock."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import datetime, timedelta

import pytest

from builders import CLEO, NOON, RILEY
from channels.conftest import Channels
from channels.writing import Post
from deciding import Decider
from signoff.broker.directory.roster import Roster
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.timers.due_approvals import DueApprovals
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Result, Retry
from signoff.channels.pipeline.quiet_hours import LOOK_AGAIN
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.moves import Claim
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Policy
from signoff.core.routing.targets import targets_of
from signoff.core.simulation.timeline import simulate
from signoff.testing import VirtualClock

HOUR = timedelta(hours=1)
MARA = Person(
    id="mara",
    name="Mara Lind",
    email="mara@example.com",
    time_zone="Europe/Berlin",
    hours=("Mon-Fri 08:00-17:00",),
    quiet_hours=True,
)
MORNING = NOON.replace(day=3, hour=7)
"""08:00 in Berlin on the day after `NOON`."""


@dataclass
class Night:
    """The stages on the virtual clock, starting at eight in the evening."""

    channels: Channels
    clock: VirtualClock
    roster: Roster

    @property
    def delivered(self) -> list[tuple[Kind, str]]:
        """The deliveries and their recipients."""
        return [(one.kind, one.person) for one in self.channels.channel.delivered]

    async def ask(self, policy: Policy) -> Approval:
        """Open a request under a policy, route it, and make the deliveries that are due now."""
        self.channels.policies = (policy,)
        approval = await self.channels.open()
        await self.go(self.clock.now())
        return await self.channels.ledger.approval(approval.id)

    async def go(self, until: datetime, step: timedelta = LOOK_AGAIN) -> None:
        """Advance the clock in steps of ten minutes, or `step`, and do the due work at each."""
        while True:
            await DueApprovals(self.roster).once()
            await self.channels.router.drain()
            await self.deliver()
            left = until - self.clock.now()
            if left <= timedelta(0):
                return
            past = timedelta(seconds=self.clock.now().timestamp() % step.total_seconds())
            self.clock.advance(min(left, step - past))

    async def deliver(self) -> None:
        """Make the deliveries that are due now."""
        channels = self.channels
        delivery = Delivery(
            channels.ledger,
            channels.channel,
            directory=channels.directory,
            inbox=channels.inbox,
            roster=self.roster,
        )
        await delivery.drain()


@pytest.fixture
def directory() -> Directory:
    """Mara has quiet hours; Cleo and Riley do not."""
    return Directory([MARA, CLEO, RILEY])


@pytest.fixture
def night(
    still_ledger: Ledger, still_decider: Decider, directory: Directory, clock: VirtualClock
) -> Night:
    """Return the evening of a Monday."""
    clock.advance(timedelta(hours=7))
    channels = Channels(still_ledger, still_decider, directory, Post())
    return Night(channels, clock, Roster(still_ledger, directory))


async def test_card_waits_over_night_and_is_sent_once(night: Night) -> None:
    """It waits over night, goes out at eight, and the audit has both events once."""
    approval = await night.ask(Policy(name="expenses", ask=("mara",), within="24h"))
    await night.go(MORNING - timedelta(seconds=1))
    assert night.delivered == []

    await night.go(MORNING + HOUR)

    assert night.delivered == [(Kind.CARD, "mara")]
    after = await night.channels.ledger.approval(approval.id)
    assert after.asked[0].receipt
    whats = [What.OPENED, What.ASKED, What.HELD, What.DELIVERED]
    assert await night.channels.whats(approval) == whats
    events = await night.channels.events(approval)
    assert [one.at for one in events[2:]] == [events[1].at, MORNING]
    assert events[2].more == {"to": "mara", "until": MORNING.isoformat()}
    assert set((await night.channels.ledger.backlog()).values()) == {0}


async def test_approver_without_quiet_hours_is_asked_at_once(night: Night) -> None:
    """Of two approvers, only one waits."""
    await night.ask(Policy(name="both", ask=("mara", "cleo"), within="24h"))
    assert night.delivered == [(Kind.CARD, "cleo")]
    await night.go(MORNING)
    assert night.delivered == [(Kind.CARD, "cleo"), (Kind.CARD, "mara")]


async def test_urgent_and_short_levels_ignore_quiet_hours(night: Night) -> None:
    """An urgent level asks at night, as does a level that ends before the morning."""
    urgent = Policy(name="urgent", ask=("mara",), within="24h", urgent=True)
    await night.ask(urgent)
    await night.ask(Policy(name="short", ask=("mara",), within="4h"))
    assert night.delivered == [(Kind.CARD, "mara")] * 2


async def test_a_level_in_working_time_does_not_run_while_its_card_waits(night: Night) -> None:
    """The card goes out at eight, with all four hours left."""
    approval = await night.ask(Policy(name="expenses", ask=("mara",), within="4h business"))
    await night.go(MORNING)
    assert night.delivered == [(Kind.CARD, "mara")]
    assert approval.deadline == MORNING + 4 * HOUR


async def test_next_level_uses_the_quiet_hours_of_its_own_approvers(night: Night) -> None:
    """A level that begins at night waits for its own people's quiet hours."""
    levels = (
        Level(ask=("cleo",), within="1h"),
        Level(ask=("mara",), within="24h"),
    )
    await night.ask(Policy(name="levels", levels=levels))
    await night.go(MORNING - HOUR)
    assert (Kind.CARD, "mara") not in night.delivered
    await night.go(MORNING)
    assert night.delivered.count((Kind.CARD, "mara")) == 1


async def test_decision_by_another_approver_cancels_the_waiting_card(night: Night) -> None:
    """The approver whose card waits gets no message at all."""
    approval = await night.ask(Policy(name="both", ask=("mara", "cleo"), within="24h"))
    await night.channels.decider.approve(approval.id, CLEO, channel="inbox", reason="")
    await night.go(MORNING + HOUR)
    assert [kind for kind, who in night.delivered if who == "cleo"] == [Kind.CARD, Kind.OUTCOME]
    assert "mara" not in [who for _, who in night.delivered]
    assert (await night.channels.ledger.backlog())["deliver.email"] == 0


async def test_claim_on_the_page_sends_the_waiting_card(night: Night) -> None:
    """A person who acts before their hours does not wait for them."""
    approval = await night.ask(Policy(name="expenses", ask=("mara",), within="24h"))
    await night.go(night.clock.now() + HOUR)
    assert night.delivered == []
    await night.channels.decider.made(approval.id, Claim(length=HOUR), MARA, channel="inbox")
    await night.go(night.clock.now() + LOOK_AGAIN)
    assert night.delivered == [(Kind.CARD, "mara")]


async def test_end_of_an_absence_sends_the_waiting_card(night: Night, directory: Directory) -> None:
    """An absence that expires or is ended also ends the wait."""
    away = {"from": "2026-03-02", "to": "2026-03-20"}
    absent = MARA.model_validate({**MARA.model_dump(), "away": [away]})
    night.channels.directory = Directory([absent, CLEO, RILEY])
    night.roster = Roster(night.channels.ledger, night.channels.directory)
    policy = Policy(name="expenses", ask=("mara",), within="60d")
    night.channels.policies = (policy,)
    approval = await night.channels.open()
    night.channels.directory = directory
    await night.channels.router.drain()
    await night.go(MORNING - HOUR)
    assert night.delivered == []

    night.roster = Roster(night.channels.ledger, directory)
    await night.go(MORNING)

    assert night.delivered == [(Kind.CARD, "mara")]
    assert (await night.channels.ledger.approval(approval.id)).asked[0].receipt


async def test_night_reminders_are_merged_into_one_in_the_morning(night: Night) -> None:
    """Reminders every four hours wait; none comes before the card or beside another."""
    night.clock.advance(timedelta(hours=20))  # 16:00 on the Tuesday in Berlin
    policy = Policy(name="expenses", ask=("mara",), within="48h", remind="every 3h")
    await night.ask(policy)
    assert night.delivered == [(Kind.CARD, "mara")]
    wednesday = MORNING + timedelta(days=1)

    await night.go(wednesday - timedelta(seconds=1))
    assert night.delivered == [(Kind.CARD, "mara")]
    await night.go(wednesday + timedelta(minutes=30))
    assert night.delivered == [(Kind.CARD, "mara"), (Kind.NOTICE, "mara")]


async def test_reminder_due_in_the_night_is_dropped_for_a_waiting_card(night: Night) -> None:
    """A reminder that was due in the night is dropped."""
    await night.ask(Policy(name="expenses", ask=("mara",), within="48h", remind="every 3h"))
    await night.go(MORNING + timedelta(minutes=30))
    assert night.delivered == [(Kind.CARD, "mara")]
    await night.go(MORNING + 3 * HOUR)  # the next reminder
    assert night.delivered == [(Kind.CARD, "mara"), (Kind.NOTICE, "mara")]


async def test_waiting_reminder_is_dropped_after_the_decision(night: Night) -> None:
    """The request was decided while the reminder waited."""
    night.clock.advance(timedelta(hours=20))
    policy = Policy(name="both", ask=("mara", "cleo"), within="48h", remind=("12h",))
    approval = await night.ask(policy)
    await night.go(night.clock.now() + 13 * HOUR)
    await night.channels.decider.approve(approval.id, CLEO, channel="inbox", reason="")
    await night.go(MORNING + timedelta(days=1, hours=1))
    mine = [kind for kind, who in night.delivered if who == "mara"]
    assert mine == [Kind.CARD, Kind.OUTCOME]


async def test_news_waits_for_the_morning_and_a_confirmation_does_not(night: Night) -> None:
    """A person who decides at night gets a confirmation; the other approvers read it at eight."""
    tom = MARA.model_copy(update={"id": "tom", "name": "Tom Weber", "email": "tom@example.com"})
    night.channels.directory = Directory([MARA, tom, CLEO, RILEY])
    night.channels.decider = Decider(night.channels.ledger, night.channels.directory)
    night.roster = Roster(night.channels.ledger, night.channels.directory)
    night.clock.advance(timedelta(hours=20))
    approval = await night.ask(Policy(name="both", ask=("mara", "tom"), within="48h"))
    await night.go(night.clock.now() + 6 * HOUR)
    night.channels.channel.delivered.clear()

    await night.channels.decider.approve(approval.id, MARA, channel="email", reason="")
    await night.go(night.clock.now() + HOUR)
    outcomes = [who for kind, who in night.delivered if kind is Kind.OUTCOME]
    assert outcomes == ["mara"]
    await night.go(MORNING + timedelta(days=1))
    outcomes = [who for kind, who in night.delivered if kind is Kind.OUTCOME]
    assert outcomes == ["mara", "tom"]


async def test_informed_person_gets_the_outcome_in_the_morning(night: Night) -> None:
    """Mara does not have to act, and reads at eight that Cleo decided."""
    policy = Policy(name="expenses", ask=("cleo",), within="24h", inform=("mara",))
    approval = await night.ask(policy)
    await night.channels.decider.approve(approval.id, CLEO, channel="inbox", reason="")
    await night.go(MORNING - timedelta(seconds=1))
    assert "mara" not in [who for _, who in night.delivered]
    await night.go(MORNING + timedelta(minutes=10))
    assert {kind for kind, who in night.delivered if who == "mara"} == {Kind.STATUS}


async def test_requester_who_works_late_gets_the_outcome_at_night(night: Night) -> None:
    """A requester who works late reads the outcome at night."""
    riley = MARA.model_copy(update={"id": "riley", "name": "Riley", "email": RILEY.email})
    night.channels.directory = Directory([MARA, riley, CLEO])
    night.channels.decider = Decider(night.channels.ledger, night.channels.directory)
    night.roster = Roster(night.channels.ledger, night.channels.directory)
    approval = await night.ask(Policy(name="expenses", ask=("cleo",), within="24h"))
    await night.channels.decider.approve(approval.id, CLEO, channel="inbox", reason="")
    await night.go(night.clock.now() + timedelta(minutes=10))
    assert (Kind.STATUS, "riley") in night.delivered


async def test_waiting_card_survives_a_process_crash(night: Night) -> None:
    """The item stays leased; another process delivers it in the morning."""
    await night.ask(Policy(name="expenses", ask=("mara",), within="24h"))
    night.clock.advance(LOOK_AGAIN)
    claimed = await night.channels.ledger.claim("deliver.email", lease=10)
    assert len(claimed.items) == 1
    await night.go(MORNING + HOUR)
    assert night.delivered == [(Kind.CARD, "mara")]


async def test_card_with_an_unclear_first_attempt_is_not_postponed(night: Night) -> None:
    """A card with an unclear first attempt at 16:59 is not put off until the morning."""
    night.clock.advance(timedelta(hours=20, minutes=59))
    results: list[Result] = [Retry(60, "greylisted")]
    night.channels.channel = Post(respond=lambda _: results.pop() if results else Delivered("1"))
    await night.ask(Policy(name="expenses", ask=("mara",), within="24h"))
    await night.go(night.clock.now() + timedelta(minutes=10))
    assert night.delivered == [(Kind.CARD, "mara")]


async def test_waiting_card_does_not_escalate_the_request(night: Night) -> None:
    """A waiting card is not a failure: nobody else is asked, and it stays pending."""
    approval = await night.ask(Policy(name="expenses", ask=("mara",), within="24h"))
    assert approval.state is State.PENDING
    assert [(one.person, one.receipt, one.problem) for one in approval.asked] == [("mara", "", "")]
    await night.go(MORNING - HOUR)
    after = await night.channels.ledger.approval(approval.id)
    assert [one.person for one in after.asked] == ["mara"]


@pytest.mark.parametrize("seed", range(6))
async def test_simulator_predicts_delivery_times(night: Night, seed: int) -> None:
    """For random hours, levels and times, the simulator predicts when each card goes out."""
    dice = random.Random(seed)
    hours = (("Mon-Fri 08:00-17:00",), ("Mon-Sun 22:00-06:00",), ("Tue,Thu 12:00-14:00",))
    zones = ("Europe/Berlin", "America/New_York")
    people = [
        MARA.model_copy(
            update={
                "id": name,
                "email": f"{name}@example.com",
                "hours": dice.choice(hours),
                "time_zone": dice.choice(zones),
                "quiet_hours": dice.random() < 0.8,
            }
        )
        for name in ("ada", "bo", "cy")
    ]
    levels = tuple(
        Level(
            ask=tuple(dice.sample(["ada", "bo", "cy"], dice.randrange(1, 3))),
            within=dice.choice(("30m", "4h", "12h", "24h", "4h business")),
            urgent=dice.random() < 0.2,
        )
        for _ in range(dice.randrange(1, 4))
    )
    policy = Policy(name="random", levels=levels)
    night.channels.directory = Directory([*people, RILEY])
    night.channels.decider = Decider(night.channels.ledger, night.channels.directory)
    night.roster = Roster(night.channels.ledger, night.channels.directory)
    night.clock.advance(timedelta(minutes=30 * dice.randrange(7 * 24 * 2)))
    start = night.clock.now()

    approval = await night.ask(policy)
    facts = {**approval.facts, "user": "riley"}
    foreseen = simulate(
        (policy,),
        night.channels.fallback,
        night.channels.directory,
        facts,
        start=start,
        reach=lambda who, rules: targets_of(who, rules, ("email",)),
    )
    while (await night.channels.ledger.approval(approval.id)).state is State.PENDING:
        await night.go(night.clock.now() + 6 * HOUR, step=HOUR / 2)

    sent = [
        (str(one.more["to"]), one.at)
        for one in await night.channels.events(approval)
        if one.what is What.DELIVERED and "notice" not in one.more
    ]
    said = [(card.person, card.held or step.at) for step in foreseen.steps for card in step.asked]
    assert sorted(sent) == sorted(said)
