"""A reason that reads like a condition, beside an approval in Slack's modal."""

from __future__ import annotations

from typing import Any

import pytest

from builders import present
from channels.slack.office import Office
from signoff.core.approvals.approval import State
from signoff.core.policies.policy import GrantRules

LIMIT = "only up to 500"
REASON = {"reason": {"value": LIMIT}}


@pytest.fixture
def granting(office: Office) -> Office:
    """Return an office whose approvals open a modal, because they may give a grant."""
    rules = GrantRules.model_validate({"who": ["mara"], "longest": "4h"})
    office.policy = office.policy.model_copy(update={"grants": rules, "ask": ("mara", "cleo")})
    return office


async def test_modal_comes_again_and_one_press_confirms(granting: Office) -> None:
    """It keeps what was entered, decides nothing, and its button confirms exactly this reason."""
    first = await granting.open()
    await granting.press("approve")
    span = {"span": {"selected_option": {"value": "1h"}}}
    ack = await granting.submit(REASON | span)
    view: dict[str, Any] = ack["view"]
    assert (ack["response_action"], view["submit"]["text"]) == ("update", "Approve as it is")
    inputs = {one["block_id"]: one for one in view["blocks"] if one["type"] == "input"}
    assert inputs["reason"]["element"]["initial_value"] == LIMIT
    assert inputs["span"]["element"]["initial_option"]["value"] == "1h"
    assert LIMIT in view["blocks"][0]["text"]["text"]
    assert (await granting.ledger.approval(first.id)).state is State.PENDING

    other = await granting.submit({"reason": {"value": "only up to 300"}}, view=view)
    assert other["response_action"] == "update"
    assert await granting.submit(REASON, view=view) is None
    after = await granting.ledger.approval(first.id)
    assert after.state is State.APPROVED
    assert present(after.decision).reason == LIMIT
