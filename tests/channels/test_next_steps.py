"""The next steps of an approval that nobody answers, in sentences."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from builders import CLEO, MARA, NOON, ask, make_approval
from signoff.channels.words.next_steps import next_change, next_steps
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level, Seat
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
    assert next_steps(approval, CROWD, now=NOON)[-1] == (NOON + timedelta(hours=1), end)


def test_an_escalation_names_the_level_the_people_and_the_quorum() -> None:
    """Two people of one name are both named, and the level's name stays on one line."""
    other = Person(id="other", name=CLEO.name, email="other@example.com")
    approval = ask(make_approval(), MARA, within=timedelta(hours=1))
    assert approval.terms is not None
    board = Level(name="the\nboard", ask=("cleo", "other"), within="1h", quorum=2)
    levels = (Level(ask=("mara",), within="1h"), board)
    terms = approval.terms.model_copy(update={"ask": (), "levels": levels})
    first, *_ = next_steps(
        approval.model_copy(update={"terms": terms}), Directory([MARA, CLEO, other]), now=NOON
    )
    assert first.what == "Escalates to the board: Cleo Park, Cleo Park, 2 approvals needed"


def test_an_absence_that_is_over_is_no_next_step() -> None:
    """Mara was away for a day while the request waited, and is back: only the end follows."""
    day = NOON.date() + timedelta(days=1)
    mara = MARA.model_copy(update={"away": (Absence(start=day, end=day),)})
    approval = ask(make_approval(), MARA, within=timedelta(days=3))
    now = NOON + timedelta(days=2)
    end = "Rejected, because it was not decided in time"
    (only,) = next_steps(approval, Directory([mara, CLEO]), now=now)
    assert only == (NOON + timedelta(days=3), end)
    change = next_change(approval, Directory([mara, CLEO]), now=now)
    assert change is not None
    assert (change[0].at, change[1]) == only


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York"])
def test_an_absence_since_the_beginning_of_the_calendar_is_no_next_step(zone: str) -> None:
    """Its first midnight is before every moment in zones east of Greenwich."""
    away = (Absence(start=date.min, end=date(2000, 1, 1)), Absence(start=date.max, end=date.max))
    mara = MARA.model_copy(update={"time_zone": zone, "away": away})
    approval = ask(make_approval(), MARA, within=timedelta(hours=1))
    (only,) = next_steps(approval, Directory([mara, CLEO]), now=NOON)
    assert only.at == NOON + timedelta(hours=1)


def test_the_next_change_passes_over_reminders() -> None:
    """It is the departure of an approver; one that stays open without a deadline has none."""
    day = NOON.date() + timedelta(days=1)
    mara = MARA.model_copy(update={"away": (Absence(start=day, end=day, delegate="cleo"),)})
    directory = Directory([mara, CLEO])
    routed = ask(make_approval(), MARA, within=timedelta(days=3))
    update = {"reminders": (NOON + timedelta(hours=2),), "seats": (Seat(person="mara"),)}
    approval = routed.model_copy(update=update)
    change = next_change(approval, directory, now=NOON)
    assert change is not None
    assert change[0].at == datetime(2026, 3, 3, tzinfo=UTC)
    assert change[1] == "Mara Lind is away until 2026-03-03; Cleo Park stands in"
    reminder, *_ = next_steps(approval, directory, now=NOON)
    assert reminder.what == "Reminder to Mara Lind"
    open_still = routed.model_copy(update={"deadline": None})
    assert next_change(open_still, Directory([MARA, CLEO]), now=NOON) is None


def test_an_absence_that_leaves_too_few_people_says_that_the_default_is_asked() -> None:
    """Whom it names is not known here, so nothing is said about what follows then."""
    day = NOON.date() + timedelta(days=1)
    mara = MARA.model_copy(update={"away": (Absence(start=day, end=day),)})
    approval = ask(make_approval(), MARA, within=timedelta(days=3))
    steps = next_steps(approval, Directory([mara, CLEO]), now=NOON)
    assert [one.what for one in steps] == [
        "Mara Lind is away until 2026-03-03",
        "Too few can still answer, and the default is asked, if it names anybody else",
    ]
