"""A limited lookup method rests exactly as long as Slack says, and nothing else waits."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest

from builders import MARA, make_approval
from channels.slack.office import CLEO_AT, MARA_AT
from channels.slack.workspace import Workspace, slack_channel
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.port import Delivered, Kind, Message, Result, Retry
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.web import SlackWeb
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory
from signoff.testing import VirtualClock

HISTORY, POST, OPEN = "conversations.history", "chat.postMessage", "conversations.open"


@pytest.fixture
def slack(web_api: SlackWeb, still_ledger: Ledger) -> SlackChannel:
    """Return the channel as processes have it."""
    return slack_channel(web_api, still_ledger)


@pytest.fixture
def sent(clock: VirtualClock, directory: Directory) -> Message:
    """Return a card for Mara."""
    return Message(
        id="card:1",
        kind=Kind.CARD,
        card=card(make_approval(), directory),
        person="mara",
        name="Mara",
        address=MARA_AT,
        at=clock.now(),
    )


async def one(slack: SlackChannel, message: Message) -> Result:
    """Deliver one message."""
    (result,) = await slack.deliver([message])
    return result


async def test_rate_limit_pauses_all_conversation_lookups(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, sent: Message
) -> None:
    """After a limit for one person, no other person's conversation is looked up in that time."""
    workspace.failures[OPEN] = [429]
    workspace.retry_after = "30"
    first = await one(slack, sent)
    assert first == Retry(30, getattr(first, "problem", ""), counted=False, unsure=False)
    other = dataclasses.replace(sent, id="card:2", person="cleo", address=CLEO_AT)
    second = await one(slack, other)
    assert isinstance(second, Retry)
    assert second.after >= 30
    assert len(workspace.called(OPEN)) == 1

    clock.advance(timedelta(seconds=30))
    assert isinstance(await one(slack, sent), Delivered)


async def test_rate_limited_history_does_not_delay_other_cards(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, sent: Message
) -> None:
    """Searching waits; other cards go into the same conversation without a search."""
    assert isinstance(await one(slack, sent), Delivered)
    clock.advance(timedelta(seconds=5))
    workspace.failures[HISTORY] = [429]
    workspace.retry_after = "30"
    unsure = dataclasses.replace(sent, id="card:2", level_key="0.1", attempt=2, unsure=True)
    first = await one(slack, unsure)
    assert first == Retry(30, getattr(first, "problem", ""), counted=False, unsure=True)

    posted = await one(slack, dataclasses.replace(sent, id="card:3", level_key="0.2"))
    assert isinstance(posted, Delivered)
    clock.advance(timedelta(seconds=5))
    second = await one(slack, dataclasses.replace(unsure, id="card:4", level_key="0.3"))
    assert isinstance(second, Retry)
    assert len(workspace.called(HISTORY)) == 1

    clock.advance(timedelta(seconds=30))
    assert isinstance(await one(slack, unsure), Delivered)


async def test_an_address_that_passes_to_another_person_is_looked_up_again(
    slack: SlackChannel, workspace: Workspace, still_ledger: Ledger, sent: Message
) -> None:
    """After the record has expired, a process that runs for days asks Slack again."""
    by_address = dataclasses.replace(sent, address=MARA.email)
    assert "D0MARA" in str(await one(slack, by_address))
    workspace.add(MARA_AT, "mara.lind@example.com")
    workspace.add("U0HEIR", MARA.email)
    (record,) = await still_ledger.store.keys("slack:conversation:", "string")
    await still_ledger.commit(Change().put_raw(record, "", was=1))
    result = await one(slack, dataclasses.replace(by_address, id="card:2"))
    assert "D0HEIR" in str(result)
