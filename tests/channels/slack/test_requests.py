"""Own requests in Slack: a shortcut lists waiting ones, to remind or to withdraw."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from builders import CLEO, MARA, RILEY, make_approval, people
from channels.slack.office import CLEO_AT, MARA_AT, RILEY_AT, Office, block_actions
from channels.slack.test_away import shortcut
from signoff.channels.slack.outbound.views import requests_view
from signoff.channels.slack.references import REQUESTS
from signoff.core.approvals.approval import State
from signoff.core.cards.card import card

Json = dict[str, Any]


@pytest.fixture
def office(office: Office) -> Office:
    """Return the office with a Slack id for Riley."""
    office.staff(
        MARA.model_copy(update={"slack": MARA_AT}),
        CLEO.model_copy(update={"slack": CLEO_AT}),
        RILEY.model_copy(update={"slack": RILEY_AT}),
    )
    return office


def pressed(view: Json, action: str, *, user: str = RILEY_AT, nth: int = 0) -> Json:
    """Return Slack's payload for a button in a modal: no message, no channel."""
    rows = [one for one in view["blocks"] if one["type"] == "actions"]
    button = next(one for one in rows[nth]["elements"] if one["action_id"].endswith(action))
    sent = block_actions(button, {"ts": "1.1", "channel": "D", "blocks": []}, user=user)
    del sent["message"], sent["channel"]
    return sent | {
        "container": {"type": "view", "view_id": "V0MODAL"},
        "view": {"id": "V0MODAL", "type": "modal", "callback_id": view["callback_id"]},
    }


async def shown(office: Office, user: str = RILEY_AT) -> Json:
    """Use the shortcut, and return the modal."""
    await office.handler.handle(shortcut(user, callback=REQUESTS))
    view: Json = office.workspace.views[-1]
    return view


async def test_requester_sees_pending_requests_and_their_approvers(office: Office) -> None:
    """Riley sees the two waiting ones, the latest first, and no decided ones; Mara sees none."""
    done = await office.open(args={"amount": 1})
    await office.decider.approve(done.id, MARA, channel="cli")
    await office.open(tool="refund")
    office.clock.advance(timedelta(minutes=1))
    await office.open(tool="reimburse")
    view = await shown(office)
    titles = [one["text"]["text"] for one in view["blocks"] if one["type"] == "section"]
    calls = [one.partition(" to run ")[2].partition(":")[0] for one in titles]
    assert calls == ["reimburse", "refund"]
    assert "Waits for Mara Lind" in str(view)
    nothing = await shown(office, MARA_AT)
    assert "You have no pending requests" in str(nothing)


async def test_a_reminder_and_a_withdrawal_by_its_buttons(office: Office) -> None:
    """Mara is reminded; the reason's form opens on top, and her card shows the withdrawal."""
    approval = await office.open()
    view = await shown(office)
    await office.handler.handle(pressed(view, "remind"))
    await office.route()
    await office.deliver()
    assert "A reminder: reimburse waits" in str(office.workspace.cards("D0MARA"))
    assert "A reminder about reimburse was sent" in str(office.workspace.cards("D0RILEY"))

    await office.handler.handle(pressed(view, "withdraw"))
    assert len(office.workspace.called("views.push")) == 1
    assert await office.submit({"reason": {"value": "a mistake"}}, user=RILEY_AT) is None
    after = await office.ledger.approval(approval.id)
    assert after.decision is not None
    assert (after.state, after.decision.reason) == (State.WITHDRAWN, "a mistake")
    await office.deliver()
    assert "signoff.approve" not in str(office.card()["blocks"])


async def test_forged_modal_cannot_remind_or_withdraw(office: Office) -> None:
    """If Cleo sends the data of Riley's modal, nobody is reminded and nothing is withdrawn."""
    approval = await office.open()
    view = await shown(office)
    opened = len(office.workspace.views)
    for action in ("remind", "withdraw"):
        await office.handler.handle(pressed(view, action, user=CLEO_AT))
    await office.route()
    await office.deliver()
    assert len(office.workspace.views) == opened
    assert "A reminder:" not in str(office.workspace.cards("D0MARA"))
    assert (await office.ledger.approval(approval.id)).state is State.PENDING


async def test_unknown_user_sees_no_requests(office: Office) -> None:
    """A person who is not in the directory sees no requests."""
    await office.open()
    office.workspace.add("U0ELSE", "else@example.com")
    view = await shown(office, "U0ELSE")
    assert "Signoff does not know you" in str(view)
    assert "reimburse" not in str(view)


def test_a_request_that_nobody_can_answer_yet_says_so() -> None:
    """Before it is routed, there is nobody to wait for."""
    view = requests_view([(card(make_approval(), people()), "")])
    assert "Nobody can be asked yet" in str(view.to_dict())
    assert "Waits for" not in str(view.to_dict())
