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


async def test_modal_keeps_the_values_of_a_template(office: Office) -> None:
    """Changed values come again in their fields, and the press that confirms approves them."""
    first = await office.open(template={"days": 0, "note": "", "paid": False})
    await office.press("approve")
    entered = {
        "field.0": {"value": "3"},
        "field.1": {"value": "by train"},
        "field.2": {"selected_option": {"value": "yes"}},
    }
    ack = await office.submit(REASON | entered)
    view: dict[str, Any] = ack["view"]
    assert (ack["response_action"], view["submit"]["text"]) == ("update", "Approve as it is")
    shown = {one["block_id"]: one["element"] for one in view["blocks"] if one["type"] == "input"}
    assert shown["field.0"]["initial_value"] == "3"
    assert shown["field.1"]["initial_value"] == "by train"
    assert shown["field.2"]["initial_option"]["value"] == "yes"
    assert (await office.ledger.approval(first.id)).state is State.PENDING

    wrong = await office.submit(REASON | entered | {"field.0": {"value": "3.5"}}, view=view)
    assert list(wrong["errors"]) == ["field.0"]
    assert await office.submit(REASON | entered, view=view) is None
    after = await office.ledger.approval(first.id)
    decided = present(after.decision)
    assert (decided.reason, decided.payload) == (
        LIMIT,
        {"days": 3, "note": "by train", "paid": True},
    )
    assert (await office.ledger.history(first.id))[-1].more["as_it_is"] is True
