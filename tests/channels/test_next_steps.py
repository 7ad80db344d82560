"""The next steps of an approval that nobody answers, in sentences."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, NOON, ask, make_approval
from signoff.channels.words.next_steps import next_steps
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import OnTimeout

CROWD = Directory([MARA, CLEO])


@pytest.mark.parametrize(
    ("on_timeout", "end"),
    [
        (OnTimeout.REJECT, "Rejected, because it was not decided in time"),
        (OnTimeout.STAY, "Overdue; stays open"),
    ],
)
def test_the_last_step_says_how_it_ends(on_timeout: OnTimeout, end: str) -> None:
    """The end has a sentence and the time of the deadline (UTC)."""
    approval = ask(make_approval(), MARA, on_timeout=on_timeout, within=timedelta(hours=1))
    assert next_steps(approval, CROWD)[-1] == (NOON + timedelta(hours=1), end)


def test_an_escalation_names_the_level_the_people_and_the_quorum() -> None:
    """Two people of one name are both named, and the level's name stays on one line."""
    other = Person(id="other", name=CLEO.name, email="other@example.com")
    approval = ask(make_approval(), MARA, within=timedelta(hours=1))
    assert approval.terms is not None
    board = Level(name="the\nboard", ask=("cleo", "other"), within="1h", quorum=2)
    levels = (Level(ask=("mara",), within="1h"), board)
    terms = approval.terms.model_copy(update={"ask": (), "levels": levels})
    first, *_ = next_steps(
        approval.model_copy(update={"terms": terms}), Directory([MARA, CLEO, other])
    )
    assert first.what == "Escalates to the board: Cleo Park, Cleo Park, 2 approvals needed"
