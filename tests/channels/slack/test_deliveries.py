"""The delivery of cards and notices to Slack, and its failures."""

from __future__ import annotations

from datetime import timedelta

import pytest
from structlog.testing import LogCapture

from builders import MARA, make_approval, present
from channels.slack.office import CLEO_AT, MARA_AT, Office
from channels.slack.workspace import Workspace, fast_channel
from signoff.broker.ledger.change import Change
from signoff.broker.work import ReportResult
from signoff.channels.pipeline.port import Delivered, Kind, Message
from signoff.channels.slack.web import SCOPES, SlackWeb
from signoff.core.approvals.approval import Asked, State
from signoff.core.base.errors import SlackDeferred, SlackRefused
from signoff.core.cards.card import card
from signoff.core.directory.people import Directory


async def asked(office: Office, approval: str) -> Asked:
    """Return the first delivery of an approval."""
    return (await office.ledger.approval(approval)).asked[0]


async def test_a_limit_reschedules(office: Office) -> None:
    """429 postpones the card for at least Slack's time; no process sleeps."""
    office.workspace.failures["chat.postMessage"] = [429]
    office.workspace.retry_after = "90"
    approval = await office.open()
    office.clock.advance(timedelta(seconds=89))
    assert not await office.deliver()
    office.clock.advance(timedelta(seconds=2))
    assert await office.deliver()
    assert (await asked(office, approval.id)).receipt


@pytest.mark.parametrize("odd", ["nan", "inf", "-5", "soon", ""])
async def test_a_limit_without_a_time_loses_no_card(office: Office, odd: str) -> None:
    """A 429 without a valid Retry-After is retried within a day."""
    office.workspace.failures["chat.postMessage"] = [429]
    office.workspace.retry_after = odd
    approval = await office.open()
    office.clock.advance(timedelta(days=1))
    assert await office.deliver()
    assert (await asked(office, approval.id)).receipt


@pytest.mark.parametrize("failure", [500, 503, "internal_error", "dropped"])
async def test_an_outage_is_tried_again(office: Office, failure: str | int) -> None:
    """A temporary failure is retried, and in the end there is one card."""
    office.workspace.failures["chat.postMessage"] = [failure]
    approval = await office.open()
    await again(office)
    assert (await asked(office, approval.id)).receipt
    assert len(office.workspace.cards("D0MARA")) == 1


@pytest.mark.parametrize("failure", ["lost", "cut", "failed"])
async def test_post_without_an_answer_is_found_and_not_repeated(
    office: Office, failure: str
) -> None:
    """A post without a whole answer is found again by its metadata, and not repeated."""
    office.workspace.failures["chat.postMessage"] = [failure]
    approval = await office.open()
    await again(office)
    assert len(office.workspace.cards("D0MARA")) == 1
    assert (await asked(office, approval.id)).copy_state == "reconciled"


@pytest.mark.parametrize("posted", [True, False])
async def test_card_whose_receipt_was_lost_is_closed_if_the_request_ends(
    office: Office, *, posted: bool
) -> None:
    """It is searched for instead of posted again, and loses its buttons if it is found."""
    office.workspace.failures["chat.postMessage"] = ["lost" if posted else "dropped"]
    approval = await office.open()
    await office.decider.withdraw(approval.id, by="riley", reason="no")
    for _ in range(8):
        office.clock.advance(timedelta(minutes=1))
        await office.route()
        await office.deliver()
    cards = office.workspace.cards("D0MARA")
    assert len(cards) == posted
    assert not [block for card in cards for block in card["blocks"] if block["type"] == "actions"]
    recorded = await asked(office, approval.id)
    assert (bool(recorded.receipt), recorded.copy_state) == (
        (True, "updated") if posted else (False, "")
    )
    assert not await office.ledger.store.client.zcard("{signoff}:outbox:deliver.slack")


async def test_duplicate_card_is_updated_after_a_click_on_it(office: Office) -> None:
    """Without access to the history, a second card may be posted; both are updated."""
    office.workspace.failures["chat.postMessage"] = ["lost"]
    office.workspace.failures["conversations.history"] = ["missing_scope"]
    approval = await office.open()
    await again(office)
    first, second = office.workspace.cards("D0MARA")
    receipt = (await asked(office, approval.id)).receipt
    other = first if receipt.endswith(second["ts"]) else second
    await office.press("approve", card=other)
    await office.deliver()
    assert [card["edits"] for card in (first, second)] == [1, 1]


@pytest.mark.parametrize("code", ["token_revoked", "channel_not_found", "user_not_found"])
async def test_card_refused_by_slack_is_sent_by_mail(office: Office, code: str) -> None:
    """A card that Slack refuses goes to the same person by mail immediately."""
    office.workspace.failures["chat.postMessage"] = [code]
    approval = await office.open()
    await office.route()
    ways = [(one.person, one.channel) for one in (await office.ledger.approval(approval.id)).asked]
    assert ways == [("mara", "slack"), ("mara", "email")]
    assert code in (await asked(office, approval.id)).problem


async def test_card_given_up_in_slack_is_not_tried_beside_the_mail(office: Office) -> None:
    """After an hour without Slack the person is asked by mail, and gets no second card."""
    office.workspace.failures["chat.postMessage"] = ["dropped"] * 1_000
    approval = await office.open()
    for _ in range(36):
        office.clock.advance(timedelta(minutes=5))
        await office.route()
        await office.deliver()
    ways = [(one.person, one.channel) for one in (await office.ledger.approval(approval.id)).asked]
    assert ways == [("mara", "slack"), ("mara", "email")]
    assert not await office.ledger.store.client.zcard("{signoff}:outbox:deliver.slack")


@pytest.mark.parametrize("code", ["token_revoked", "missing_scope"])
async def test_cards_are_closed_when_the_app_works_again(
    office: Office, code: str, log_output: LogCapture
) -> None:
    """A new card goes out by mail at once; what only Slack can do is tried again, with an alarm."""
    approval = await office.open()
    click = office.click("approve")
    office.workspace.failures["chat.update"] = [code] * 3
    await office.handler.handle(click)
    for _ in range(3):
        await office.deliver()
        assert len([one for one in office.card()["blocks"] if one["type"] == "actions"]) == 1
        office.clock.advance(timedelta(minutes=1))
    await office.deliver()
    assert not [one for one in office.card()["blocks"] if one["type"] == "actions"]
    assert (await asked(office, approval.id)).copy_state == "updated"
    alarms = [one for one in log_output.entries if one["event"] == "slack.unusable"]
    assert len(alarms) == 3
    assert all(one["log_level"] == "error" and "install" in one["error"] for one in alarms)


async def test_card_is_closed_after_an_outage_of_hours(office: Office) -> None:
    """A card would keep its buttons forever if its end were given up after an hour."""
    approval = await office.open()
    office.workspace.failures["chat.update"] = [503] * 1_000
    await office.press("approve")
    for _ in range(60):
        await office.deliver()
        office.clock.advance(timedelta(minutes=10))
    del office.workspace.failures["chat.update"]
    office.clock.advance(timedelta(minutes=13))
    await office.deliver()
    assert not [one for one in office.card()["blocks"] if one["type"] == "actions"]
    assert (await asked(office, approval.id)).copy_state == "updated"


@pytest.mark.parametrize("code", ["msg_blocks_too_long", "msg_too_long", "invalid_blocks"])
async def test_card_whose_end_is_too_long_for_slack_is_closed(office: Office, code: str) -> None:
    """Slack does not document how it counts; a card with its headline alone is closed, too."""
    approval = await office.open()
    office.workspace.failures["chat.update"] = [code]
    await office.press("approve")
    await office.deliver()
    card = office.card()
    assert not [one for one in card["blocks"] if one["type"] == "actions"]
    assert "approved" in str(card["blocks"]).lower()
    assert (await asked(office, approval.id)).copy_state == "updated"


async def test_deleted_card_does_not_affect_the_decision(office: Office) -> None:
    """A message that a person deleted cannot be updated; nothing else happens."""
    approval = await office.open()
    click = office.click("approve")
    office.workspace.messages["D0MARA"].clear()
    await office.handler.handle(click)
    await office.deliver()
    decided = await office.ledger.approval(approval.id)
    assert decided.state is State.APPROVED
    assert decided.asked[0].copy_state == "lost"


@pytest.mark.parametrize(
    "office", [{"ask": ("mara", "cleo"), "slack_channel": "C0OPS"}], indirect=True
)
async def test_channel_card_lets_any_approver_and_no_other_member_decide(office: Office) -> None:
    """All approvers see one card and any of them decides; other members cannot."""
    office.workspace.joined.add("C0OPS")
    approval = await office.open()
    (card,) = office.workspace.cards()
    assert card["channel"] == "C0OPS"
    office.workspace.add("U0ELSE", "else@example.com")
    await office.press("approve", user="U0ELSE", card=card)
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    await office.press("approve", user=CLEO_AT, card=card)
    decided = await office.ledger.approval(approval.id)
    assert present(decided.decision).by == "cleo"
    await office.deliver()
    assert "Cleo Park approved reimburse" in str(card["blocks"])


@pytest.mark.parametrize("office", [{"slack_channel": "C0OPS"}], indirect=True)
async def test_a_channel_without_the_bot_is_refused(office: Office) -> None:
    """If the bot is not in the channel, the people are asked by mail."""
    approval = await office.open()
    await office.route()
    ways = [(one.key, one.channel) for one in (await office.ledger.approval(approval.id)).asked]
    assert ways == [("#C0OPS", "slack"), ("mara", "email")]


async def test_person_without_a_slack_id_is_found_by_email_address(office: Office) -> None:
    """Without a Slack id, a person is found by email address, when sending and clicking."""
    others = [one for one in office.directory if one.id != "mara"]
    office.directory.become(Directory([MARA, *others]))
    office.policy = office.policy.model_copy(update={"channels": ("slack",)})
    approval = await office.open()
    await office.press("approve")
    assert present((await office.ledger.approval(approval.id)).decision).by == "mara"


async def test_doctor_reports_scopes_and_channel_membership(
    workspace: Workspace, web_api: SlackWeb
) -> None:
    """The doctor gets each of its answers."""
    workspace.joined.add("C1")
    assert await web_api.scopes() < frozenset(SCOPES)
    assert await web_api.is_member("C1")
    with pytest.raises(SlackRefused, match="invite"):
        await web_api.is_member("C2")


@pytest.mark.parametrize(
    ("failure", "error"),
    [
        (429, SlackDeferred),
        (502, SlackDeferred),
        ("dropped", SlackDeferred),
        ("service_unavailable", SlackDeferred),
        ("token_revoked", SlackRefused),
        ("something_new", SlackRefused),
        (404, SlackRefused),
    ],
)
async def test_errors_are_translated(
    workspace: Workspace, web_api: SlackWeb, failure: str | int, error: type[Exception]
) -> None:
    """Any error of Slack, the network or the SDK becomes one of two errors."""
    workspace.failures["auth.test"] = [failure]
    with pytest.raises(error):
        await web_api.whoami()


async def again(office: Office) -> None:
    """Wait until the delivery is due again, and run it."""
    assert not await office.deliver()
    office.clock.advance(timedelta(minutes=1))
    assert await office.deliver()


async def test_run_result_is_posted_once_in_the_card_thread(office: Office) -> None:
    """After the run continues, its end is posted once below the card."""
    approval = await office.open()
    await office.press("approve")
    await office.deliver()
    decided = await office.ledger.approval(approval.id)
    work = ReportResult(channel="slack", approval=approval.id, person="mara", remarks="Paid.")
    await office.ledger.commit(Change().send(work))
    await office.deliver()
    card, reply = office.workspace.cards("D0MARA")
    assert reply["thread_ts"] == card["ts"]
    assert "Paid." in str(reply["blocks"])
    assert decided.asked[0].copy_state == "updated"


@pytest.mark.parametrize("code", ["thread_not_found", "cannot_reply_to_message"])
async def test_run_result_is_posted_without_a_thread_if_the_card_is_gone(
    office: Office, code: str
) -> None:
    """Somebody has deleted the card, and the decider still reads what the agent did."""
    approval = await office.open()
    await office.press("approve")
    await office.deliver()
    office.workspace.failures["chat.postMessage"] = [code]
    work = ReportResult(channel="slack", approval=approval.id, person="mara", remarks="Paid.")
    await office.ledger.commit(Change().send(work))
    await office.deliver()
    _, result = office.workspace.cards("D0MARA")
    assert "thread_ts" not in result
    assert "Paid." in str(result["blocks"])


async def test_former_channel_member_gets_a_direct_message(office: Office) -> None:
    """A private message needs a member of the channel; other people get a direct message."""
    office.workspace.joined.add("C0OPS")
    office.workspace.left.add(CLEO_AT)
    office.policy = office.policy.model_copy(update={"slack_channel": "C0OPS"})
    await office.open()
    await office.press("approve", user=CLEO_AT, card=office.card("C0OPS"))
    await office.deliver()
    (told,) = office.workspace.cards(f"D{CLEO_AT[1:]}")
    assert "thread_ts" not in told
    assert not office.workspace.whispers


async def test_configured_external_user_gets_a_direct_message(office: Office) -> None:
    """A person id with its team is not the id of a conversation."""
    message = Message(
        id="notice:1",
        kind=Kind.NOTICE,
        card=card(make_approval(), office.directory),
        person="mara",
        name="Mara",
        address=f"T0OTHER/{MARA_AT}",
        at=await office.ledger.now(),
        headline="Still waiting.",
    )
    (result,) = await fast_channel(office.web, office.ledger).deliver([message])
    assert isinstance(result, Delivered)
    assert office.card()["text"] == "Still waiting."
