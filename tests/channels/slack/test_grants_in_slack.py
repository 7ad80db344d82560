"""Approving similar calls in Slack's modal."""

from __future__ import annotations

import pytest

from channels.slack.office import CLEO_AT, Office, click_on
from signoff.broker.grants import Grants
from signoff.core.approvals.approval import State
from signoff.core.policies.policy import GrantRules


@pytest.fixture
def granting(office: Office) -> Office:
    """Return an office whose policy lets Mara give grants of at most four hours."""
    rules = GrantRules.model_validate(
        {"who": ["mara"], "longest": "4h", "vary": ["amount"], "limit": "args.amount <= 5000"}
    )
    asked = ("mara", "cleo")
    office.policy = office.policy.model_copy(update={"grants": rules, "ask": asked})
    return office


def chosen(span: str) -> dict[str, object]:
    """Return Slack's payload for the modal's selection."""
    return {"span": {"selected_option": {"value": span}}, "reason": {"value": "the conference"}}


async def test_grant_from_the_modal_approves_the_next_call(granting: Office) -> None:
    """The time is limited; the person reads what was granted, and the reason is kept."""
    first = await granting.open()
    await granting.press("approve")
    assert (await granting.ledger.approval(first.id)).state is State.PENDING
    inputs = [one for one in granting.workspace.views[-1]["blocks"] if one["type"] == "input"]
    assert [one["block_id"] for one in inputs] == ["reason", "span"]
    options = [one["value"] for one in inputs[1]["element"]["options"]]
    assert options == ["30m", "1h", "4h"]
    assert "amount may differ" in inputs[1]["hint"]["text"]

    assert await granting.submit(chosen("1h")) is None
    (grant,) = await Grants(granting.decider.ledger).all()
    assert (grant.by, grant.channel, grant.reason) == ("mara", "slack", "the conference")
    await granting.deliver()
    assert "Granted until" in str(granting.workspace.whispers)
    second = await granting.open(args={"amount": 10, "purpose": "conference"})
    assert second.state is State.APPROVED


async def test_revoke_button_ends_the_grant(granting: Office) -> None:
    """The button is below the grant or its first use; a second press says that it has ended."""
    first = await granting.open()
    await granting.press("approve")
    await granting.submit(chosen("1h"))
    await granting.deliver()
    said = granting.workspace.whispers[-1] | {"ts": "1.1"}
    assert "Granted" in str(said["blocks"])
    early = click_on(said, "revoke")
    del early["message"]
    await granting.open(args={"amount": 10, "purpose": "conference"})
    used = granting.workspace.cards("D0MARA")[-1]
    assert "First use" in str(used["blocks"])
    late = click_on(used, "revoke")

    await granting.handler.handle(click_on(used, "revoke", user=CLEO_AT))
    (grant,) = await Grants(granting.decider.ledger).all()
    assert grant.revoked_by == ""
    await granting.handler.handle(late)
    (grant,) = await Grants(granting.decider.ledger).all()
    assert grant.revoked_by == "mara"
    await granting.handler.handle(early)
    await granting.deliver()
    told = str([one["blocks"] for one in granting.workspace.whispers])
    assert "Revoked: calls like" in told
    assert "granted nothing" in told
    assert "is revoked already" in str(granting.workspace.cards("D0MARA")) + told
    waits = await granting.open(args={"amount": 10, "purpose": "conference"})
    assert (waits.state, first.id != waits.id) == (State.PENDING, True)


async def test_person_without_grant_permission_approves_by_button(granting: Office) -> None:
    """A person without the permission approves by the button, as usual."""
    first = await granting.open()
    await granting.press("approve")
    assert await granting.submit({}) is None
    assert (await granting.ledger.approval(first.id)).state is State.APPROVED
    second = await granting.open()
    card = granting.workspace.cards(f"D{CLEO_AT[1:]}")[-1]
    await granting.press("approve", user=CLEO_AT, card=card)
    assert (await granting.ledger.approval(second.id)).state is State.APPROVED
    assert await Grants(granting.decider.ledger).all() == []


@pytest.mark.parametrize("span", ["8h", "1000d", "soon", ""])
async def test_a_choice_that_was_not_offered_is_refused(granting: Office, span: str) -> None:
    """The policy decides whatever is sent; the modal shows an error, and nothing is decided."""
    first = await granting.open()
    await granting.press("approve")
    ack = await granting.submit(chosen(span))
    assert list(ack["errors"]) == ["span"]
    assert (await granting.ledger.approval(first.id)).state is State.PENDING
