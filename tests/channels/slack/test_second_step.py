"""If a policy needs a second step, a button is the first step."""

from __future__ import annotations

import pytest

from builders import MARA, present
from channels.slack.office import Office
from signoff.channels.inbox.settings import InboxSettings
from signoff.core.approvals.approval import State
from signoff.core.approvals.parts import mark_of

INBOX = InboxSettings(url="https://approvals.example.com", secret_key="k" * 32)


@pytest.mark.parametrize(
    "office",
    [
        {"second_step": "true"},
        {"second_step": "true", "ask": ("mara", "cleo"), "slack_channel": "C0OPS"},
    ],
    indirect=True,
)
async def test_click_records_the_answer_and_links_to_the_confirmation_page(office: Office) -> None:
    """The card says so, the person gets a link, and the page decides."""
    office.inbox = INBOX
    office.workspace.joined.add("C0OPS")
    approval = await office.open()
    link = INBOX.link_to(approval.id)
    card = office.workspace.cards("C0OPS" if len(office.policy.ask) > 1 else "D0MARA")[0]
    assert "An approval counts only after you confirm it on its page" in str(card["blocks"])
    assert link in str(card["blocks"])

    await office.handler.handle(office.click("approve", card=card))
    await office.deliver()

    noted = await office.ledger.approval(approval.id)
    step = present(noted.step_of("mara"))
    assert (noted.state, step.channel) == (State.PENDING, "slack")
    (told,) = office.workspace.whispers
    assert "One more step: confirm your yes to reimburse" in str(told["blocks"])
    assert link in str(told["blocks"])

    await office.decider.confirm(approval.id, MARA, channel="inbox", mark=mark_of(step))
    assert (await office.ledger.approval(approval.id)).state is State.APPROVED
