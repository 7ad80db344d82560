"""The Slack channel, compared with a third-party emulator of Slack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from builders import MARA, make_approval, people, present
from channels.conftest import Channels, SinkFactory
from channels.slack.emulator import BOT, OWNER, PEOPLE, POOR, Emulator, emulator
from channels.slack.workspace import fast_channel, slack_channel
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused
from signoff.channels.pipeline.route import Router
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.references import Receipt, read_receipt
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.core.cards.card import card
from signoff.core.policies.policy import Policy
from signoff.testing import VirtualClock


@pytest.fixture
async def slack(tmp_path: Path) -> AsyncIterator[Emulator]:
    """Return an emulated workspace."""
    async with emulator(tmp_path) as made:
        yield made


def connected(slack: Emulator, token: str = BOT) -> SlackWeb:
    """Return the workspace's Web API."""
    return SlackWeb(
        SlackSettings(bot_token=token, signing_secret="x", base_url=f"{slack.url}/api/")
    )


def message(clock: VirtualClock, **changes: Any) -> Message:
    """Return the card of an approval to Mara by her address."""
    shown = Message(
        id="card:1",
        kind=Kind.CARD,
        card=card(make_approval(), people()),
        person="mara",
        name="Mara",
        address=PEOPLE["mara"],
        at=datetime.now(UTC),  # the emulator has a clock of its own
    )
    return replace(shown, **changes)


async def delivered(channel: SlackChannel, one: Message) -> Receipt:
    """Deliver a message, and return its place."""
    (result,) = await channel.deliver([one])
    assert isinstance(result, Delivered), result
    receipt = read_receipt(result.receipt)
    assert receipt is not None
    return receipt


async def test_the_whole_port(slack: Emulator, clock: VirtualClock, still_ledger: Ledger) -> None:
    """A card by mail address, its end, a reply in its thread and a private message."""
    web = connected(slack)
    channel = fast_channel(web, still_ledger)
    try:
        first = message(clock)
        card_at = await delivered(channel, first)
        (posted,) = await slack.messages(card_at.channel)
        assert posted["metadata"]["event_payload"] == {
            "approval": first.card.approval,
            "to": "mara",
        }
        assert "actions" in {block["type"] for block in posted["blocks"]}

        again = await delivered(channel, replace(first, attempt=2, unsure=True))
        assert again == card_at  # found by its metadata, so not posted again

        over = {"thread": str(card_at), "headline": "Approved by Mara.", "good": True}
        await delivered(channel, message(clock, kind=Kind.OUTCOME, **over))
        await delivered(channel, message(clock, kind=Kind.END, thread=str(card_at), headline="x"))
        (rewritten,) = await slack.messages(card_at.channel)
        assert rewritten["text"] == "Approved by Mara."
        assert all(block["type"] != "actions" for block in rewritten["blocks"])
        assert rewritten["metadata"] == posted["metadata"]
        assert rewritten["reply_count"] == 1

        mara = await slack.user("mara")
        place = f"{card_at.channel}/{mara}"
        told = message(clock, kind=Kind.NOTICE, address=place, headline="You were too late.")
        assert (await delivered(channel, told)).channel == card_at.channel
        assert len(await slack.messages(card_at.channel)) == 1
    finally:
        await web.close()


async def test_channel_gets_one_card_and_non_members_get_direct_messages(
    slack: Emulator, clock: VirtualClock, still_ledger: Ledger
) -> None:
    """A channel has one card; other people get direct messages."""
    web = connected(slack)
    channel, ops = fast_channel(web, still_ledger), await slack.channel("ops")
    try:
        card_at = await delivered(channel, message(clock, address=ops, person=""))
        assert card_at.channel == ops
        cleo = await slack.user("cleo")
        kicked = await slack.call("conversations.kick", OWNER, channel=ops, user=cleo)
        assert kicked["ok"], kicked
        told = message(clock, kind=Kind.NOTICE, address=f"{ops}/{cleo}", headline="Not yours.")
        direct = await delivered(channel, told)
        assert direct.channel != ops
        assert (await slack.messages(direct.channel))[0]["text"] == "Not yours."
    finally:
        await web.close()


async def test_unknown_recipient_is_refused_and_deleted_card_is_lost(
    slack: Emulator, clock: VirtualClock, still_ledger: Ledger
) -> None:
    """An unknown address or channel is refused; a deleted card is lost."""
    web = connected(slack)
    channel = fast_channel(web, still_ledger)
    try:
        nobody = message(clock, address="nobody@example.com")
        nowhere = message(clock, address="C0NOWHERE")
        results = await channel.deliver([nobody, nowhere])
        assert all(isinstance(result, Refused) for result in results)
        assert "users_not_found" in str(results[0])
        assert "channel_not_found" in str(results[1])

        card_at = await delivered(channel, message(clock))
        await slack.call("chat.delete", channel=card_at.channel, ts=card_at.ts)
        over = message(clock, kind=Kind.OUTCOME, thread=str(card_at), headline="Expired.")
        (lost,) = await channel.deliver([over])
        assert isinstance(lost, Delivered)
        assert lost.copy == "lost"
    finally:
        await web.close()


async def test_the_scopes_are_enough_and_each_is_asked_for(
    slack: Emulator, clock: VirtualClock, still_ledger: Ledger
) -> None:
    """The manifest's scopes suffice; a missing one is reported, and the card still posted."""
    poor = connected(slack, POOR)
    channel = fast_channel(poor, still_ledger)
    try:
        first = await delivered(channel, message(clock))
        # It cannot check for an existing card: a second card is better than none.
        second = await delivered(channel, message(clock, attempt=2, unsure=True))
        assert first != second
    finally:
        await poor.close()


async def test_a_limited_slack_and_mail_ask_together_and_are_both_closed(
    slack: Emulator, still_channels: Channels, start_sink: SinkFactory
) -> None:
    """Slack answers 429 for a while; the person decides by mail, and both cards are closed."""
    channels, sink, web = still_channels, await start_sink(), connected(slack)
    channels.policies = (Policy(name="expenses", ask=("mara",), channels=("slack",), within="40m"),)
    ways = (slack_channel(web, channels.ledger), EmailChannel(sink.settings()))

    async def once() -> None:
        await Router(
            channels.ledger,
            policies=channels.policies,
            fallback=channels.fallback,
            directory=channels.directory,
            channels=("email", "slack"),
        ).drain()
        for way in ways:
            await Delivery(channels.ledger, way, directory=channels.directory).drain()

    try:
        slack.limited.add("chat.postMessage")
        approval = await channels.open()
        for _ in range(14):
            await once()
            channels.clock.advance(timedelta(minutes=1))
        (mailed,) = sink.envelopes
        assert mailed.rcpt_tos == [MARA.email]
        slack.limited.clear()
        await once()
        asked = (await channels.ledger.approval(approval.id)).asked
        receipts = {one.channel: read_receipt(one.receipt) for one in asked}
        there = present(receipts["slack"]).channel
        (card,) = await slack.messages(there)
        assert "actions" in {block["type"] for block in card["blocks"]}
        await channels.decider.approve(approval.id, MARA, channel="email")
        await once()
        (card,) = await slack.messages(there)
        assert "actions" not in {block["type"] for block in card["blocks"]}
        assert [one.rcpt_tos for one in sink.envelopes].count([MARA.email]) == 2
    finally:
        await web.close()
