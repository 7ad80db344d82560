"""A card's menu in Slack: comment, reassign, extend, remind, withdraw."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, RILEY, present
from channels.slack.office import CLEO_AT, MARA_AT, RILEY_AT, Office, choice_in
from signoff.broker.freezes import Freezes
from signoff.core.approvals.approval import State
from signoff.core.approvals.events import What
from signoff.core.base.errors import SlackPayloadUnreadable
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Policy

TOM = Person(id="tom", name="Tom Weber", email="tom@example.com", slack="U0TOM")


@pytest.fixture
def office(office: Office) -> Office:
    """Return the office with Tom, who is not asked yet."""
    office.workspace.add("U0TOM", TOM.email)
    office.staff(
        MARA.model_copy(update={"slack": MARA_AT}),
        CLEO.model_copy(update={"slack": CLEO_AT}),
        RILEY.model_copy(update={"slack": RILEY_AT}),
        TOM,
    )
    office.policy = Policy(name="expenses", ask=("mara",), within="4h")
    return office


def menu(card: dict[str, Any]) -> list[str]:
    """Return the entries of a card's menu."""
    elements = next(one for one in card["blocks"] if one["type"] == "actions")["elements"]
    return [one["text"]["text"] for one in elements[-1]["options"]]


def whispered(office: Office) -> str:
    """Return all private messages."""
    return str([one["blocks"] for one in office.workspace.whispers])


async def test_comment_appears_on_the_card_and_does_not_decide(office: Office) -> None:
    """The text of the modal is on the card; it does not decide."""
    approval = await office.open()
    assert menu(office.card()) == ["Comment…", "Reassign…", "Extend…"]
    await office.choose("Comment…")
    assert await office.submit({"reason": {"value": "as in the <b>offer</b>"}}) is None
    await office.route()
    await office.deliver()
    assert "as in the <b>offer</b>" in str(office.card()["blocks"])
    assert "is on the card" in whispered(office)
    assert (await office.ledger.approval(approval.id)).state is State.PENDING
    empty = await office.submit({"reason": {"value": " "}}, view=office.workspace.views[-1])
    assert empty is None or list(empty["errors"]) == ["reason"]


async def test_a_place_is_handed_on_to_a_user_of_slack(office: Office) -> None:
    """Tom gets the card and decides; Mara cannot any more, and gets a message."""
    approval = await office.open()
    await office.choose("Reassign…")
    why = {"value": "he knows the vendor"}
    sent = {"to": {"selected_user": "U0TOM"}, "reason": why}
    assert await office.submit(sent) is None
    await office.route()
    await office.deliver()
    assert "Tom Weber decides reimburse now" in whispered(office)
    assert "he knows the vendor" in str(office.card("U0TOM")["blocks"])
    await office.press("approve", user="U0TOM", card=office.card("U0TOM"))
    after = await office.ledger.approval(approval.id)
    assert after.decision is not None
    assert (after.state, after.decision.by) == (State.APPROVED, "tom")


@pytest.mark.parametrize(
    ("user", "words"),
    [("U0NOBODY", "does not know"), (RILEY_AT, "can never decide"), (MARA_AT, "asked about")],
)
async def test_invalid_delegate_is_an_error_at_the_field(
    office: Office, user: str, words: str
) -> None:
    """A stranger, the requester or a person already asked is an error at the field."""
    approval = await office.open()
    office.workspace.add("U0NOBODY", "nobody@elsewhere.example")
    await office.choose("Reassign…")
    sent = {"to": {"selected_user": user}, "reason": {"value": "why not"}}
    ack = await office.submit(sent)
    assert list(ack["errors"]) == ["to"]
    assert words in ack["errors"]["to"]
    assert (await office.ledger.approval(approval.id)).handovers == ()


async def test_deadline_extension_is_limited_by_the_policy(office: Office) -> None:
    """An invalid or excessive time is an error with the limit; four hours are accepted."""
    approval = await office.open()
    await office.choose("Extend…")
    assert "4h at most" in str(office.workspace.views[-1])
    why = {"value": "waiting for the vendor"}
    for text, said in (("soon", "30m"), ("5h", "4h is the most"), ("0h", "30m")):
        ack = await office.submit({"length": {"value": text}, "reason": why})
        assert list(ack["errors"]) == ["length"]
        assert said in ack["errors"]["length"]
    assert await office.submit({"length": {"value": "4h"}, "reason": why}) is None
    after = await office.ledger.approval(approval.id)
    assert after.deadline == present(approval.deadline) + timedelta(hours=4)
    await office.choose("Extend…")
    await office.deliver()
    assert "prolonged enough" in whispered(office)


async def test_unauthorized_modal_is_refused_on_click_and_on_submission(office: Office) -> None:
    """Cleo is not asked and gets no modal; Mara's submission after the end changes nothing."""
    approval = await office.open()
    card = office.card()
    for text in menu(card):
        await office.choose(text, user=CLEO_AT, card=card)
    assert office.workspace.views == []
    await office.choose("Reassign…")
    await office.decider.reject(approval.id, present(office.directory.get("mara")), channel="cli")
    sent = {"to": {"selected_user": "U0TOM"}, "reason": {"value": "x"}}
    ack = await office.submit(sent)
    assert ack["response_action"] == "update"
    assert "already" in str(ack["view"]).lower()
    whats = [one.what for one in await office.ledger.history(approval.id)]
    assert whats.count(What.REFUSED_ANSWER) == len(menu(card)) + 1
    assert (await office.ledger.approval(approval.id)).handovers == ()


async def test_repeated_submission_counts_once(office: Office) -> None:
    """Slack repeats what was not acknowledged in time; there is one comment."""
    approval = await office.open()
    await office.choose("Comment…")
    view = office.workspace.views[-1] | {"id": "V0TWICE"}
    for _ in range(2):
        assert await office.submit({"reason": {"value": "once"}}, view=view) is None
    assert len((await office.ledger.approval(approval.id)).comments) == 1


async def test_in_a_channel_the_requester_reminds_and_withdraws(office: Office) -> None:
    """Riley sees the card: Remind notifies the approvers, and Withdraw ends the request."""
    office.workspace.joined.add("C0FIN")
    office.policy = Policy(name="expenses", ask=("mara", "cleo"), slack_channel="C0FIN")
    approval = await office.open()
    card = office.card("C0FIN")
    assert menu(card) == ["Comment…", "Reassign…", "Extend…", "Remind", "Withdraw…"]
    await office.choose("Remind", user=RILEY_AT, card=card)
    await office.choose("Remind", user=RILEY_AT, card=card)
    await office.route()
    await office.deliver()
    assert "A reminder about reimburse was sent" in whispered(office)
    assert "It goes to Mara Lind, Cleo Park" in whispered(office)
    assert "an hour later" in whispered(office)
    reminders = [one for one in office.workspace.cards("C0FIN") if "A reminder:" in str(one)]
    assert len(reminders) == 1
    await office.choose("Withdraw…", user=MARA_AT, card=card)
    assert office.workspace.views == []
    await office.choose("Withdraw…", user=RILEY_AT, card=card)
    assert await office.submit({"reason": {"value": "a mistake"}}, user=RILEY_AT) is None
    after = await office.ledger.approval(approval.id)
    assert after.decision is not None
    assert (after.state, after.decision.reason) == (State.WITHDRAWN, "a mistake")


async def test_a_choice_that_is_not_ours_is_refused(office: Office) -> None:
    """A foreign value, another approval's value or none does nothing."""
    approval = await office.open()
    sent = choice_in(office.card(), "Comment…")
    (action,) = sent["actions"]
    for value in ("", "x", "signoff.approve ap_x y", f"signoff.comment {approval.id}", "a b c d"):
        action["selected_option"] = {"value": value}
        with pytest.raises(SlackPayloadUnreadable):
            await office.handler.handle(sent)
    digest = approval.digest.removeprefix("sha256:")[:16]
    action["selected_option"] = {"value": f"signoff.comment ap_other {digest}"}
    with pytest.raises(SlackPayloadUnreadable):
        await office.handler.handle(sent)
    action["selected_option"] = {"value": f"signoff.comment {approval.id} {'0' * 16}"}
    with pytest.raises(SlackPayloadUnreadable):
        await office.handler.handle(sent)
    assert office.workspace.views == []


async def test_delegation_needs_the_second_factor_that_the_request_needs(
    office: Office,
) -> None:
    """It is refused at the click and in a form that was open before."""
    office.policy = Policy(name="expenses", ask=("mara",), within="4h")
    await office.open()
    await office.choose("Reassign…")
    open_form = office.workspace.views[-1]
    one_step = office.card()

    office.policy = Policy(name="expenses", ask=("mara",), within="4h", second_step="true")
    approval = await office.open()
    card = office.workspace.cards("D0MARA")[-1]
    assert card["ts"] != one_step["ts"]
    await office.choose("Reassign…", card=card)
    await office.deliver()
    assert office.workspace.views[-1] == open_form
    assert "on the inbox page" in whispered(office)

    forged = open_form | {
        "private_metadata": open_form["private_metadata"].replace(
            json.loads(open_form["private_metadata"])["approval"], approval.id
        )
    }
    values = {
        "to": {"type": "users_select", "selected_user": "U0TOM"},
        "reason": {"value": "he knows the vendor"},
    }
    await office.submit(values, view=forged)
    assert (await office.ledger.approval(approval.id)).approvers == {"mara"}


async def test_modal_shows_a_freeze_that_began_later(office: Office) -> None:
    """This also holds in a process that showed cards before the freeze."""
    await office.open()
    await office.press("details")
    assert "frozen" not in str(office.workspace.views[-1])
    freezes = Freezes(office.ledger)
    await freezes.freeze(tool="reimburse", by="ops", why="an incident")
    await office.press("details", at="2")
    assert "is frozen by ops: an incident" in str(office.workspace.views[-1])
    await freezes.thaw(tool="reimburse", by="ops")
    await office.press("details", at="3")
    assert "frozen" not in str(office.workspace.views[-1])
