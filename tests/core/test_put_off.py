"""A no that is no no yet, and politeness beside a yes."""

from __future__ import annotations

import pytest

from signoff.core.command import Command, Verdict, read_command


@pytest.mark.parametrize(
    "text",
    [
        "I cannot approve this before I have talked to Tom.",
        "not approved yet",
        "reject until Tom agrees",
        "Nicht genehmigt bevor Tom zustimmt",
    ],
)
def test_a_no_that_is_put_off_is_asked_about(text: str):
    """Whoever wants to look first has not said no."""
    assert read_command(text).verdict is Verdict.UNCLEAR


@pytest.mark.parametrize("text", ["Freigegeben, danke!", "approve, merci", "ok, thank you!"])
def test_politeness_is_no_reason(text: str):
    """A thank-you beside a yes is not what the audit keeps as the reason."""
    assert read_command(text) == Command(verdict=Verdict.APPROVE, first_line=text)
