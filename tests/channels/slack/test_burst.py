"""Many cards together: sent as fast as Slack allows, with no repeated lookups."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from builders import make_approval, present
from channels.slack.limits import faults_of
from channels.slack.office import MARA_AT, Office
from channels.slack.workspace import Workspace, slack_channel
from signoff.broker import stages
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.pipeline.outbox import LEASE
from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.slack.outbound import blocks
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.outbound.views import notice_view
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
def later(web_api: SlackWeb, still_ledger: Ledger) -> SlackChannel:
    """Return the channel of another process."""
    return slack_channel(web_api, still_ledger)


def message(clock: VirtualClock, directory: Directory, name: str = "1", **changes: Any) -> Message:
    """Return a card with a deadline in `hours`."""
    hours = changes.pop("hours", 1)
    shown = card(make_approval(), directory)
    shown = shown.model_copy(update={"deadline": clock.now() + timedelta(hours=hours)})
    made = Message(
        id=f"card:{name}",
        kind=Kind.CARD,
        card=shown,
        person="mara",
        name="Mara",
        address=MARA_AT,
        at=clock.now(),
    )
    return dataclasses.replace(made, **changes)


async def one(slack: SlackChannel, sent: Message) -> Result:
    """Deliver one message."""
    (result,) = await slack.deliver([sent])
    return result


async def test_many_cards_are_posted_at_the_rate_of_the_channel(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, directory: Directory
) -> None:
    """A channel takes one card a second; waiting is not an attempt and needs one more call."""
    workspace.joined.add("C0OPS")
    waiting = {
        f"{at:03}": message(clock, directory, f"{at:03}", address="C0OPS") for at in range(60)
    }
    due, asked, began = dict.fromkeys(waiting, clock.now()), 0, clock.now()
    while waiting:
        now = clock.now()
        batch = [name for name in waiting if due[name] <= now]
        asked += len(batch)
        results = await slack.deliver([waiting[name] for name in batch])
        for name, result in zip(batch, results, strict=True):
            if isinstance(result, Delivered):
                del waiting[name]
            else:
                assert isinstance(result, Retry)
                assert not result.counted
                due[name] = now + timedelta(seconds=result.after)
        if waiting:
            clock.advance(max(min(due[name] for name in waiting) - now, timedelta(0)))
    assert clock.now() - began == timedelta(seconds=58)  # two at the beginning
    assert asked <= 2 * 60
    assert len(workspace.called(POST)) == 60
    assert not workspace.called(HISTORY)


async def test_a_busy_channel_does_not_delay_direct_messages(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, directory: Directory
) -> None:
    """Each channel has its own slots."""
    workspace.joined.add("C0OPS")
    crowd = [message(clock, directory, str(at), address="C0OPS") for at in range(100)]
    await slack.deliver(crowd)
    assert isinstance(await one(slack, message(clock, directory, "mara")), Delivered)


async def test_the_earliest_deadline_is_posted_first(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, directory: Directory
) -> None:
    """An urgent card goes before earlier ones, in a batch and in the queue."""
    workspace.joined.add("C0OPS")
    hours = [5, 4, 3, 2, 1]
    batch = [
        message(clock, directory, f"{at}", address="C0OPS", hours=at, person=f"p{at}")
        for at in hours
    ]
    await slack.deliver(batch)
    urgent = message(clock, directory, "u", address="C0OPS", hours=0.5, person="urgent")
    result = await one(slack, urgent)
    assert isinstance(result, Retry)
    clock.advance(timedelta(seconds=result.after))
    await slack.deliver([*batch[:3], urgent])
    posted = [one["metadata"]["event_payload"]["to"] for one in workspace.cards("C0OPS")]
    assert posted[:3] in (["p1", "p2", "urgent"], ["p2", "p1", "urgent"])


async def test_a_limit_waits_exactly_and_for_all(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, directory: Directory
) -> None:
    """After a 429, no process posts there for exactly the time that Slack says."""
    workspace.failures[POST] = [429]
    workspace.retry_after = "30"
    first = await one(slack, message(clock, directory, "1"))
    assert isinstance(first, Retry)
    assert first == Retry(30, first.problem, counted=False, unsure=False)
    second = await one(slack, message(clock, directory, "2"))
    assert isinstance(second, Retry)
    assert second.after >= 30
    assert len(workspace.called(POST)) == 1
    clock.advance(timedelta(seconds=30))
    assert isinstance(await one(slack, message(clock, directory, "1")), Delivered)


async def test_a_rate_limit_is_not_counted_as_an_attempt(office: Office) -> None:
    """However often Slack limits us, the card is posted without an earlier search."""
    office.workspace.failures[POST] = [429] * 30
    office.workspace.retry_after = "20"
    approval = await office.open()
    for _ in range(30):
        office.clock.advance(timedelta(seconds=20))
        await office.deliver()
    assert (await office.ledger.approval(approval.id)).asked[0].receipt
    assert not office.workspace.called(HISTORY)


@pytest.mark.parametrize(
    ("failure", "looks"),
    [
        ("service_unavailable", False),
        ("lost", True),
        ("dropped", True),
        ("html", True),
        ("internal_error", True),
        (500, True),
    ],
)
async def test_a_retry_searches_only_for_a_card_that_may_exist(
    office: Office, failure: str | int, looks: bool
) -> None:
    """It does not search for a card that Slack certainly has not posted."""
    office.workspace.failures[POST] = [failure]
    await office.open()
    office.clock.advance(timedelta(minutes=1))
    await office.deliver()
    assert len(office.workspace.cards("D0MARA")) == 1
    assert bool(office.workspace.called(HISTORY)) == looks


async def test_a_limit_after_a_lost_answer_still_looks_back(office: Office) -> None:
    """A later 429 does not cancel the search."""
    office.workspace.failures[POST] = ["lost"]
    office.workspace.failures[HISTORY] = [429]
    await office.open()
    for _ in range(3):
        office.clock.advance(timedelta(minutes=1))
        await office.deliver()
    assert len(office.workspace.cards("D0MARA")) == 1


async def test_a_process_that_died_may_have_posted(office: Office) -> None:
    """The leased item was not put back, so the next process searches first."""
    office.workspace.failures[POST] = ["service_unavailable"]
    await office.open()
    office.clock.advance(timedelta(minutes=1))
    claim = await office.ledger.claim(stages.deliver("slack"), lease=LEASE)
    assert claim.items  # and its holder is not heard of again
    office.clock.advance(timedelta(minutes=1))
    await office.deliver()
    assert office.workspace.called(HISTORY)


async def test_a_card_is_found_behind_many_later_messages(
    slack: SlackChannel, workspace: Workspace, clock: VirtualClock, directory: Directory
) -> None:
    """A channel with hundreds of later messages is searched, the newest first."""
    workspace.joined.add("C0OPS")
    sent = message(clock, directory, "1", address="C0OPS")
    first = await one(slack, sent)
    other = {"event_type": "other", "event_payload": {}}
    for at in range(450):
        workspace.post("C0OPS", metadata=other, text=str(at))
    again = await one(slack, dataclasses.replace(sent, unsure=True))
    assert isinstance(first, Delivered)
    assert isinstance(again, Delivered)
    assert again.receipt == first.receipt
    (_, _, third) = workspace.called(HISTORY)
    assert float(third["latest"]) > float(third["oldest"])


async def test_a_conversation_is_looked_up_once(
    slack: SlackChannel,
    later: SlackChannel,
    workspace: Workspace,
    clock: VirtualClock,
    directory: Directory,
) -> None:
    """Many cards for a person, also from other processes, need one lookup."""
    batch = [message(clock, directory, str(at), address="mara@example.com") for at in range(20)]
    await slack.deliver(batch)
    clock.advance(timedelta(minutes=1))
    assert isinstance(await one(later, batch[-1]), Delivered)
    assert len(workspace.called("users.lookupByEmail")) == len(workspace.called(OPEN)) == 1


async def test_a_missing_conversation_is_looked_up_again_once(
    slack: SlackChannel,
    later: SlackChannel,
    workspace: Workspace,
    clock: VirtualClock,
    directory: Directory,
) -> None:
    """An unknown conversation is looked up once more, and then refused."""
    await one(slack, message(clock, directory, "1"))
    workspace.failures[POST] = ["channel_not_found", "channel_not_found"]
    sent = message(clock, directory, "2")
    assert isinstance(await one(later, sent), Retry)
    clock.advance(timedelta(minutes=1))
    assert isinstance(await one(later, sent), Refused)
    assert len(workspace.called(OPEN)) == 2


@pytest.mark.parametrize("kind", [Kind.OUTCOME, Kind.NOTICE, Kind.END])
def test_a_long_final_message_uses_few_blocks(
    kind: Kind, clock: VirtualClock, directory: Directory
) -> None:
    """Slack accepts sixty paragraphs in one message, with all of them."""
    text = "\n\n".join(f"Paragraph {at}." for at in range(60))
    sent = message(clock, directory, kind=kind, headline="Done", text=text)
    shown = blocks.outcome_blocks(sent) if kind is Kind.OUTCOME else blocks.notice_blocks(sent)
    made = [block.to_dict() for block in shown]
    assert not faults_of(made)
    assert all(f"Paragraph {at}." in str(made) for at in range(60))
    assert not faults_of([one.to_dict() for one in notice_view("x", text).blocks], modal=True)


@pytest.mark.parametrize("failure", ["invalid_arguments", "html", 502])
async def test_a_view_that_fails_is_tried_again(office: Office, failure: str | int) -> None:
    """It is retried while the trigger is valid; the person only sees the form."""
    await office.open()
    office.workspace.failures["views.open"] = [failure]
    await office.press("reject")
    await office.deliver()
    assert len(office.workspace.views) == 1
    assert not office.workspace.whispers


@pytest.mark.parametrize("failure", ["invalid_arguments", "html", 502, "expired_trigger_id"])
async def test_a_refused_view_is_reported_to_the_person(office: Office, failure: str | int) -> None:
    """A person who presses a button and gets no form gets a message at that place."""
    approval = await office.open()
    office.workspace.failures["views.open"] = [failure, failure]
    await office.press("reject")
    await office.deliver()
    (told,) = office.workspace.whispers
    assert "did not open the form" in told["text"]
    assert told["user"] == MARA_AT
    assert (await office.ledger.approval(approval.id)).decision is None


async def test_a_proxy_error_page_does_not_make_a_person_unknown(office: Office) -> None:
    """A proxy's page instead of Slack's answer does not make the person a stranger."""
    approval = await office.open()
    office.workspace.failures["auth.test"] = ["html"]
    with pytest.raises(Exception, match="no JSON"):
        await office.press("approve")
    await office.press("approve")
    assert present((await office.ledger.approval(approval.id)).decision).by == "mara"
