"""Claim, Release and Ask on a card in Slack."""

from __future__ import annotations

from typing import Any

import pytest

from builders import CLEO, MARA, RILEY, present
from channels.slack.office import CLEO_AT, RILEY_AT, Office
from signoff.broker.work import AskRequester
from signoff.core.approvals import moves
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory
from signoff.core.directory.queues import Queue
from signoff.core.policies.policy import Policy


def buttons(card: dict[str, Any]) -> list[str]:
    """Return the ids of the buttons of a card."""
    actions = next(one for one in card["blocks"] if one["type"] == "actions")
    return [one["action_id"].removeprefix("signoff.") for one in actions["elements"]]


@pytest.fixture
def queue(office: Office) -> Office:
    """Return the office, with the queue of Mara and Cleo as approvers."""
    people = [
        MARA.model_copy(update={"slack": "U0MARA"}),
        CLEO.model_copy(update={"slack": CLEO_AT}),
        RILEY,
    ]
    finance = Queue(name="finance", members=("mara", "cleo"))
    office.directory = Directory(people, queues=[finance])
    office.policy = Policy(name="expenses", ask=("queue:finance",), within="4h")
    return office


async def test_claim_updates_all_cards_and_blocks_other_approvers(queue: Office) -> None:
    """The button becomes Release, Cleo's approval is refused, and after the release it counts."""
    approval = await queue.open()
    assert buttons(queue.card()) == [
        *("approve", "reject", "details", "ask", "claim", "more"),
    ]
    await queue.press("claim")
    await queue.route()
    await queue.deliver()
    for user in ("U0MARA", CLEO_AT):
        assert "release" in buttons(queue.card(user))
        assert "Claimed by Mara Lind" in str(queue.card(user)["blocks"])
    await queue.press("approve", user=CLEO_AT, card=queue.card(CLEO_AT))
    assert (await queue.ledger.approval(approval.id)).state is State.PENDING
    await queue.press("release")
    await queue.route()
    await queue.deliver()
    assert "claim" in buttons(queue.card(CLEO_AT))
    await queue.press("approve", user=CLEO_AT, card=queue.card(CLEO_AT))
    after = await queue.ledger.approval(approval.id)
    assert (after.state, present(after.decision).by) == (State.APPROVED, "cleo")


async def test_a_question_is_asked_in_a_modal_and_the_answer_shows(office: Office) -> None:
    """The requester gets a mail, and their answer is on the card."""
    approval = await office.open()
    assert "claim" not in buttons(office.card())
    await office.press("ask")
    assert await office.submit({"reason": {"value": "Which <b>team</b>?"}}) is None
    await office.route()
    (item, *_) = (await office.ledger.claim("deliver.email")).items
    assert isinstance(item.work, AskRequester)
    assert item.work.person == "riley"
    await office.decider.made(approval.id, moves.AnswerBack(text="Sales"), RILEY)
    await office.route()
    await office.deliver()
    card = str(office.card()["blocks"])
    assert "Which <b>team</b>?" in card
    assert "Sales" in card
    assert "Riley Voss answered your question" in str(office.workspace.cards("D0MARA"))
    await office.press("approve")
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED


async def test_requester_click_on_ask_or_claim_only_audits_a_refusal(queue: Office) -> None:
    """A press by the requester only adds a refusal to the audit."""
    approval = await queue.open()
    for action in ("claim", "ask", "release"):
        button = "claim" if action == "release" else action
        await queue.press(button, user=RILEY_AT, card=queue.card())
    after = await queue.ledger.approval(approval.id)
    assert (after.claimed, after.comments, queue.workspace.views) == (None, (), [])
    whats = [one.what for one in await queue.ledger.history(approval.id)]
    assert What.REFUSED_ANSWER in whats


async def test_late_card_update_shows_the_decision_without_buttons(queue: Office) -> None:
    """The decision came before the update: the card says so and has no buttons."""
    await queue.open()
    await queue.press("claim")
    await queue.press("approve")
    await queue.route()
    await queue.deliver()
    for user in ("U0MARA", CLEO_AT):
        assert not [one for one in queue.card(user)["blocks"] if one["type"] == "actions"]
