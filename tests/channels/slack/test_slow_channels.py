"""A channel that takes no cards for a while: its people are asked through another one, once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from builders import CLEO, MARA
from channels.conftest import Sink, SinkFactory
from channels.slack.office import Office
from channels.slack.workspace import slack_channel
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.bundles import BundleRule
from signoff.channels.pipeline.deliver import Delivery
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.policies.policy import Policy

POST = "chat.postMessage"
MANY = 10_000
LATER = "451 4.3.0 Try again later"


@dataclass
class Both:
    """Slack and a mail server, which deliver in turn."""

    office: Office
    sink: Sink
    bundling: BundleRule | None = None

    def policy(self, **rules: Any) -> None:
        """Replace the policy."""
        self.office.policy = Policy(**({"name": "expenses", "ask": ("mara",)} | rules))

    def slack_answers(self, *failures: str | int) -> None:
        """Let Slack refuse the next posts."""
        self.office.workspace.failures[POST] = [*failures]

    def by_mail(self) -> None:
        """Forget Mara's Slack id: she is asked by mail, and found in Slack by her address."""
        self.office.staff(
            *(
                one.model_copy(update={"slack": ""}) if one.id == MARA.id else one
                for one in self.office.directory
            )
        )

    async def once(self) -> None:
        """Route, and deliver what is due by both channels."""
        office = self.office
        await office.route()
        for channel in (
            slack_channel(office.web, office.ledger),
            EmailChannel(self.sink.settings()),
        ):
            delivery = Delivery(
                office.ledger,
                channel,
                directory=office.directory,
                inbox=office.inbox,
                bundling=self.bundling,
            )
            await delivery.drain()

    async def wait(self, span: timedelta, step: timedelta = timedelta(minutes=1)) -> None:
        """Let time pass while both channels deliver."""
        for _ in range(span // step):
            await self.once()
            self.office.clock.advance(step)
        await self.once()

    def mailed(self) -> list[str]:
        """Return the recipients of the mails, in order."""
        return [one.rcpt_tos[0] for one in self.sink.envelopes]

    async def now(self, approval: Approval) -> Approval:
        """Return an approval as it stands."""
        return await self.office.ledger.approval(approval.id)

    async def ways(self, approval: Approval) -> list[tuple[str, str]]:
        """Return who is asked through which channel."""
        return [(one.person, one.channel) for one in (await self.now(approval)).asked]


@pytest.fixture
async def both(office: Office, start_sink: SinkFactory) -> Both:
    """Return an office with Slack and mail."""
    made = Both(office, await start_sink())
    made.policy(within="4h")
    return made


def buttons(card: dict[str, Any]) -> bool:
    """Return whether a card in Slack has buttons."""
    return any(block["type"] == "actions" for block in card["blocks"])


@pytest.mark.parametrize("failure", [429, 503, "dropped", "ratelimited"])
async def test_slack_takes_no_card_for_hours(both: Both, failure: str | int) -> None:
    """After a quarter of the time the person is asked by mail, once, and both cards are closed."""
    both.policy(within="40m")
    both.slack_answers(*[failure] * MANY)
    approval = await both.office.open()
    await both.wait(timedelta(minutes=4))
    assert both.mailed() == []
    await both.wait(timedelta(minutes=20))
    assert both.mailed() == [MARA.email]
    after = await both.now(approval)
    assert (after.level, after.deadline) == (0, approval.deadline)
    assert await both.ways(approval) == [("mara", "slack"), ("mara", "email")]
    history = await both.office.ledger.history(approval.id)
    whys = [one.why for one in history if one.what is What.ASKED]
    assert whys[1:] == ["the card by slack could not be delivered yet"]

    both.slack_answers()
    await both.wait(timedelta(minutes=13))
    (card,) = both.office.workspace.cards("D0MARA")
    assert buttons(card)
    done = await both.office.decider.approve(approval.id, MARA, channel="email")
    assert done.state is State.APPROVED
    await both.wait(timedelta(minutes=1))
    assert not buttons(both.office.card())
    assert both.mailed() == [MARA.email] * 2


async def test_the_mail_server_takes_no_card_for_hours(both: Both) -> None:
    """The person is found in Slack by address and asked there, once; both cards are closed."""
    both.policy(within="40m")
    both.by_mail()
    both.sink.answers["DATA"] = LATER
    approval = await both.office.open()
    await both.wait(timedelta(minutes=4))
    assert both.office.workspace.cards() == []
    await both.wait(timedelta(minutes=20))
    (card,) = both.office.workspace.cards("D0MARA")
    assert buttons(card)
    assert await both.ways(approval) == [("mara", "email"), ("mara", "slack")]

    del both.sink.answers["DATA"]
    await both.wait(timedelta(minutes=11))
    assert both.mailed() == [MARA.email]
    await both.office.press("approve")
    await both.wait(timedelta(minutes=1))
    assert (await both.now(approval)).state is State.APPROVED
    assert not buttons(both.office.card())
    assert both.mailed() == [MARA.email] * 2


async def test_a_channel_card_that_waits_is_mailed_to_each_approver(both: Both) -> None:
    """The people who are asked by one card in a Slack channel get a mail each."""
    both.office.workspace.joined.add("C0OPS")
    both.policy(ask=("mara", "cleo"), slack_channel="C0OPS", within="40m")
    both.slack_answers(*[429] * MANY)
    approval = await both.office.open()
    await both.wait(timedelta(minutes=30))
    assert sorted(both.mailed()) == [CLEO.email, MARA.email]
    both.slack_answers()
    await both.wait(timedelta(minutes=1))
    await both.office.decider.approve(approval.id, CLEO, channel="email")
    await both.wait(timedelta(minutes=1))
    assert not buttons(both.office.card("C0OPS"))


async def test_slack_wants_a_pause_that_is_longer_than_the_time(both: Both) -> None:
    """The person is asked by mail at once, and Slack is not called before it wants to."""
    both.policy(within="1h")
    both.office.workspace.retry_after = "3000"
    both.slack_answers(429)
    await both.office.open()
    await both.once()
    await both.once()
    assert both.mailed() == [MARA.email]
    await both.wait(timedelta(minutes=49))
    assert len(both.office.workspace.called(POST)) == 1


async def test_a_card_that_waits_shortly_is_not_mailed(both: Both) -> None:
    """Slack limits us for some minutes of several hours, or the first attempt comes late."""
    both.slack_answers(*[429] * MANY)
    approval = await both.office.open(deliver=False)
    both.office.clock.advance(timedelta(hours=3))
    await both.wait(timedelta(minutes=10))
    both.slack_answers()
    await both.wait(timedelta(minutes=1))
    assert await both.ways(approval) == [("mara", "slack")]
    assert both.mailed() == []


async def test_a_policy_that_wants_mail_is_not_asked_about_in_slack(both: Both) -> None:
    """It names its channels, so the call is shown in no other one."""
    both.policy(within="40m", channels=("email",))
    both.sink.answers["DATA"] = LATER
    approval = await both.office.open()
    await both.wait(timedelta(minutes=38))
    assert await both.ways(approval) == [("mara", "email")]
    assert both.office.workspace.cards() == []


async def test_a_bundle_that_waits_is_mailed(both: Both) -> None:
    """Each of its requests is asked about by mail, where they become a bundle again."""
    both.bundling = BundleRule(over=1, within=timedelta(minutes=5))
    both.office.inbox = InboxSettings(url="https://approvals.example.com")
    both.policy(within="2h")
    both.slack_answers(*[429] * MANY)
    for _ in range(4):
        await both.office.open(deliver=False)
    await both.wait(timedelta(minutes=60))
    assert 1 <= len(both.mailed()) <= 2
    both.slack_answers()
    await both.wait(timedelta(minutes=2))
    assert len(both.office.workspace.cards("D0MARA")) == 1


async def test_a_card_that_slack_has_although_it_was_given_up_is_closed(both: Both) -> None:
    """It is found when Slack works again, takes answers meanwhile, and loses its buttons."""
    both.slack_answers("lost")
    both.office.workspace.failures["conversations.history"] = ["internal_error"] * MANY
    approval = await both.office.open()
    await both.wait(timedelta(minutes=150), timedelta(minutes=5))
    assert both.mailed() == [MARA.email]
    assert (await both.now(approval)).asked[0].problem
    both.office.workspace.failures["conversations.history"] = []
    await both.wait(timedelta(minutes=13))
    assert (await both.now(approval)).asked[0].receipt
    await both.office.decider.approve(approval.id, MARA, channel="email")
    await both.wait(timedelta(minutes=1))
    (card,) = both.office.workspace.cards("D0MARA")
    assert not buttons(card)
    assert not await both.office.ledger.store.client.zcard("{signoff}:outbox:deliver.slack")


async def test_nobody_is_mailed_after_the_end(both: Both) -> None:
    """The request is withdrawn after the mail was wanted, and before it was sent."""
    both.policy(within="40m")
    both.office.workspace.retry_after = "3000"
    both.slack_answers(429)
    approval = await both.office.open()
    await both.office.decider.withdraw(approval.id, by="riley", reason="no")
    await both.wait(timedelta(minutes=2))
    assert both.mailed() == []
