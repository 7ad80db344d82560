"""Bundles in Slack: one message with a link to each request, updated as they end."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import Any

import pytest

from builders import MARA, NOON
from channels.slack.limits import faults_of
from channels.slack.office import MARA_AT, Office
from channels.slack.workspace import fast_channel
from signoff.channels.inbox.settings import InboxSettings
from signoff.channels.pipeline.bundles import MOST, BundleRule, blank
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Entry, Kind, Message
from signoff.channels.slack.outbound import blocks
from signoff.core.approvals.approval import Approval
from signoff.core.policies.policy import Policy

BUNDLING = BundleRule(over=3, within=timedelta(minutes=5))
THERE = f"D{MARA_AT[1:]}"


@dataclass
class Crowd(Office):
    """An office with bundled cards."""

    async def deliver(self) -> int:
        """Run the Slack delivery."""
        delivery = Delivery(
            self.ledger,
            fast_channel(self.web, self.ledger),
            directory=self.directory,
            inbox=self.inbox,
            bundling=BUNDLING,
        )
        return await delivery.drain()

    async def later(self) -> None:
        """Deliver the cards that have waited for others."""
        self.clock.advance(BUNDLING.within + timedelta(seconds=1))
        await self.deliver()


@pytest.fixture
def crowd(office: Office) -> Crowd:
    """Return the office with an inbox page."""
    made = Crowd(**{one.name: getattr(office, one.name) for one in fields(office)})
    made.inbox = InboxSettings(url="https://approvals.example.com")
    return made


async def eight(crowd: Crowd) -> list[Approval]:
    """Open eight requests; the last five are bundled."""
    return [await crowd.open(args={"amount": 100 + number}) for number in range(8)]


def text_of(message: dict[str, Any]) -> str:
    """Return the blocks of a message as JSON."""
    return json.dumps(message["blocks"], ensure_ascii=False)


async def test_a_bundle_is_one_message_with_a_link_to_each_request(crowd: Crowd) -> None:
    """Three cards go out, and one message for the other five is the receipt of each."""
    approvals = await eight(crowd)
    await crowd.later()
    *cards, bundle = crowd.workspace.cards(THERE)
    assert len(cards) == 3
    assert bundle["text"] == "5 requests wait for your decision"
    for one in approvals[3:]:
        assert text_of(bundle).count(crowd.inbox.link_to(one.id)) == 1
        (asked,) = (await crowd.ledger.approval(one.id)).asked
        assert asked.receipt == f"{THERE}/{bundle['ts']}"
    assert not [one for one in bundle["blocks"] if one["type"] == "actions"]


async def test_an_ended_request_is_struck_out_in_its_bundle(crowd: Crowd) -> None:
    """The message keeps the others and shows how this one ended."""
    approvals = await eight(crowd)
    await crowd.later()
    for one in approvals[3:5]:
        await crowd.decider.approve(one.id, MARA, channel="inbox", reason="")
    await crowd.deliver()

    *_, bundle = crowd.workspace.cards(THERE)
    assert bundle["text"] == "3 of 5 requests wait for your decision"
    assert text_of(bundle).count("approved by Mara Lind") == 2
    assert [crowd.inbox.link_to(one.id) in text_of(bundle) for one in approvals[3:]] == [
        False,
        False,
        True,
        True,
        True,
    ]
    # Both in one call: requests that end together are written once.
    assert len(crowd.workspace.called("chat.update")) == 1
    assert (await crowd.ledger.backlog())["deliver.slack"] == 0


async def test_a_lost_slack_response_does_not_duplicate_a_bundle(crowd: Crowd) -> None:
    """The message was posted before the connection broke; it is found again."""
    approvals = await eight(crowd)
    crowd.workspace.failures["chat.postMessage"] = ["lost"]
    await crowd.later()
    crowd.clock.advance(timedelta(seconds=10))
    await crowd.deliver()
    assert len(crowd.workspace.cards(THERE)) == 4
    assert all([(await crowd.ledger.approval(one.id)).asked[0].receipt for one in approvals])


async def test_a_channel_gets_one_bundle(crowd: Crowd) -> None:
    """If a level posts into a channel, the list is there and mentions the group."""
    crowd.workspace.joined.add("C012AB3CD")
    crowd.policy = Policy(
        name="expenses",
        ask=("mara",),
        within="4h",
        slack_channel="C012AB3CD",
        slack_group="S012AB3CD",
    )
    approvals = await eight(crowd)
    await crowd.later()
    *cards, bundle = crowd.workspace.cards("C012AB3CD")
    assert len(cards) == 3
    assert bundle["text"].startswith("<!subteam^S012AB3CD> 5 requests")
    assert all([(await crowd.ledger.approval(one.id)).asked[0].bundle for one in approvals[3:]])


def test_the_longest_bundle_stays_within_slack_limits() -> None:
    """Thirty requests with long foreign texts: no mention, no extra link, within the limits."""
    hostile = "<!channel> *x* <https://evil.example|here> ~|& " * 20
    entries = tuple(
        Entry(
            title=hostile,
            requester=hostile,
            deadline=None,
            link=f"https://approvals.example.com/inbox/approvals/ap_{number:016}",
            outcome=hostile if number % 3 == 0 else "",
        )
        for number in range(MOST)
    )
    message = Message(
        id="bundle:bn_1",
        kind=Kind.BUNDLE,
        card=blank("bn_1"),
        person="mara",
        name="",
        address=MARA_AT,
        at=NOON,
        headline="30 requests wait for your decision",
        text="Open a request.",
        entries=entries,
    )
    _, made = blocks.opening(message)
    shown = [one.to_dict() for one in made]
    assert faults_of(shown) == []
    text = json.dumps(shown)
    assert text.count("https://approvals") == MOST - MOST // 3
    assert '"mrkdwn"' not in text
