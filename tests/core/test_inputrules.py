"""The value of a bare yes or no for an agent that asks for input without a schema."""

from __future__ import annotations

import pytest

from signoff.core.approvals.input.rules import (
    InputRule,
    answer_of,
    check,
    rule_for,
)
from signoff.core.base.errors import ConditionError

JSON = InputRule(
    app="shop",
    when="message.startsWith('Reply with')",
    yes={"approved": True},
    no={"approved": False, "reason": ""},
)


def test_first_matching_rule_sets_the_agents_value() -> None:
    """Rules match by app and by a condition on the question."""
    args = {"message": 'Reply with {"approved": true}', "payload": None}
    assert rule_for([JSON, InputRule()], app="shop", agent="a", args=args) is JSON
    assert rule_for([JSON], app="other", agent="a", args=args) is None
    assert rule_for([JSON], app="shop", agent="a", args={"message": "Which one?"}) is None


def test_rejection_value_includes_the_reason() -> None:
    """The reason goes into its own field, or after the word."""
    assert answer_of(JSON, yes=False, reason="late") == {"approved": False, "reason": "late"}
    assert answer_of(JSON, yes=True, reason="") == {"approved": True}
    assert answer_of(None, yes=False, reason="late") == "reject: late"
    assert answer_of(None, yes=True, reason="") == "approve"


def test_impossible_condition_is_refused_when_settings_load() -> None:
    """It is refused when the settings are read, before anybody answers."""
    with pytest.raises(ConditionError):
        check(InputRule(when="mesage == 'x'"))
