"""Questions to the requester in Slack: a message with buttons, in addition to the mail."""

from __future__ import annotations

import pytest

from builders import MARA, RILEY
from channels.slack.office import MARA_AT, RILEY_AT, Office, click_on
from signoff.broker.work import AskRequester
from signoff.core.approvals.approval import State

Json = dict[str, object]
HERE = "D0RILEY"


@pytest.fixture
def office(office: Office) -> Office:
    """Return the office with a Slack id for Riley."""
    office.staff(
        MARA.model_copy(update={"slack": MARA_AT}),
        RILEY.model_copy(update={"slack": RILEY_AT}),
    )
    return office


async def asked_back(office: Office, *, question: str = "Which <b>team</b>?") -> str:
    """Let Mara ask Riley a question, and return the id of the approval."""
    approval = await office.open()
    await office.press("ask")
    assert await office.submit({"reason": {"value": question}}) is None
    await office.route()
    await office.deliver()
    return approval.id


async def press(office: Office, action: str, *, user: str = RILEY_AT) -> None:
    """Press a button of Riley's question."""
    await office.handler.handle(click_on(office.card(HERE), action, user=user))


async def test_the_requester_answers_by_a_button(office: Office) -> None:
    """Riley's text from the modal is on Mara's card; Mara gets a notice; nothing is decided."""
    about = await asked_back(office)
    message = str(office.card(HERE)["blocks"])
    assert "Mara Lind has a question about your request" in message
    assert "Which <b>team</b>?" in message
    mails = (await office.ledger.claim("deliver.email")).items
    assert [one.body["person"] for one in mails] == ["riley"]

    await press(office, "answer")
    assert "Which <b>team</b>?" in str(office.workspace.views[-1])
    assert await office.submit({"reason": {"value": "Sales"}}, user=RILEY_AT) is None
    await office.route()
    await office.deliver()

    assert "Sales" in str(office.card()["blocks"])
    assert "Riley Voss answered your question" in str(office.workspace.cards("D0MARA"))
    assert "was passed on" in str(office.workspace.whispers)
    after = await office.ledger.approval(about)
    assert (after.state, after.open_question) == (State.PENDING, None)


async def test_a_decision_word_in_a_comment_decides_nothing(office: Office) -> None:
    """The modal's text is a comment, whatever it says."""
    about = await asked_back(office)
    await press(office, "answer")
    assert await office.submit({"reason": {"value": "approve"}}, user=RILEY_AT) is None
    after = await office.ledger.approval(about)
    assert (after.state, after.comments[-1].text) == (State.PENDING, "approve")


async def test_only_the_requester_can_answer_a_question(office: Office) -> None:
    """If Mara or a stranger presses Riley's button, no modal opens."""
    await asked_back(office)
    office.workspace.add("U0ELSE", "else@example.com")
    opened = len(office.workspace.views)
    for user in (MARA_AT, "U0ELSE"):
        await press(office, "answer", user=user)
        await press(office, "withdraw", user=user)
    assert len(office.workspace.views) == opened
    await office.deliver()
    assert "has not asked for approval" in str(office.workspace.whispers)


async def test_the_requester_reminds_and_withdraws_below_the_question(office: Office) -> None:
    """Mara is reminded once; then Riley withdraws the request, and her card says so."""
    about = await asked_back(office)
    await press(office, "remind")
    await office.route()
    await office.deliver()
    assert "A reminder: reimburse waits" in str(office.workspace.cards("D0MARA"))
    assert "A reminder about reimburse was sent" in str(office.workspace.whispers)
    await press(office, "withdraw")
    assert await office.submit({"reason": {"value": "a mistake"}}, user=RILEY_AT) is None
    await office.deliver()
    after = await office.ledger.approval(about)
    assert after.state is State.WITHDRAWN
    assert "signoff.approve" not in str(office.card()["blocks"])


async def test_an_answer_after_the_decision_changes_nothing(office: Office) -> None:
    """After the decision, the button opens no modal, and an open one changes nothing."""
    about = await asked_back(office)
    await press(office, "answer")
    view = office.workspace.views[-1]
    await office.decider.approve(about, MARA, channel="cli")
    opened = len(office.workspace.views)
    await press(office, "answer")
    ack = await office.submit({"reason": {"value": "Sales"}}, user=RILEY_AT, view=view)
    assert ack["response_action"] == "update"
    assert len(office.workspace.views) == opened
    after = await office.ledger.approval(about)
    assert [one.text for one in after.comments] == ["Which <b>team</b>?"]


async def test_a_requester_without_slack_is_asked_by_mail(office: Office) -> None:
    """Without a Slack id there is no message to Riley, and the mail stays the same."""
    office.staff(MARA.model_copy(update={"slack": MARA_AT}), RILEY)
    await asked_back(office)
    assert office.workspace.cards(HERE) == []
    (item,) = (await office.ledger.claim("deliver.email")).items
    assert isinstance(item.work, AskRequester)
    assert item.work.person == "riley"
