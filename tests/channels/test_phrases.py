"""Messages to people, for each way in which a request can end."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import JsonValue

from answered import Verdict, verdict_of
from builders import CLEO, MARA, NOON, asked_approval, make_call, people, present
from signoff.channels.words import phrases
from signoff.channels.words.messages import harmless
from signoff.core.approvals.approval import Approval, State
from signoff.core.directory.people import Person


def ended(
    state: State,
    *,
    by: Person = MARA,
    reason: str = "",
    values: Mapping[str, JsonValue] | None = None,
    **parts: Any,
) -> Approval:
    """Return an approval that has ended in a state."""
    approval = asked_approval(**parts)
    match state:
        case State.APPROVED:
            return approval.approve(
                by, people(), channel="email", now=NOON, reason=reason, values=values
            )[0]
        case State.REJECTED:
            return approval.reject(by, people(), channel="email", now=NOON, reason=reason)[0]
        case State.TIMED_OUT:
            return approval.time_out(now=present(approval.deadline))[0]
        case State.WITHDRAWN:
            return approval.withdraw(by="riley", reason=reason, now=NOON)[0]
        case _:
            return approval.model_copy(update={"state": state})


ENDS = [state for state in State if state is not State.PENDING]


@pytest.mark.parametrize("state", ENDS)
@pytest.mark.parametrize("person", ["mara", "cleo"])
def test_each_outcome_has_a_message_for_each_recipient(state: State, person: str) -> None:
    """Each person reads the tool and the end; no mail is empty."""
    words = phrases.outcome(ended(state), person, people())
    assert "reimburse" in words.headline
    assert words.text
    decided = state in {State.APPROVED, State.REJECTED} and person == "mara"
    assert ("you" in words.headline.split()) is decided


@pytest.mark.parametrize("state", ENDS)
@pytest.mark.parametrize("person", [MARA, CLEO])
def test_each_outcome_has_a_message_for_late_answers(state: State, person: Person) -> None:
    """The reply to a late answer says that it changed nothing."""
    words = phrases.already_decided(ended(state), person.id, people())
    assert "reimburse" in words.headline
    assert words.text


def test_the_values_are_repeated() -> None:
    """The approvers read the values that the tool gets."""
    approval = ended(State.APPROVED, template={"approved_days": 0}, values={"approved_days": 3})
    assert "With approved_days = 3." in phrases.outcome(approval, "mara", people()).text
    lone = ended(State.APPROVED, template=0, values={"value": 7})
    assert "With value = 7." in phrases.outcome(lone, "cleo", people()).text


@pytest.mark.parametrize("bad", ["approve\nit", "yes", "\u202egnp", "x" * 5000, "\ud800"])
def test_reason_stays_on_one_line_of_limited_length(bad: str) -> None:
    """Foreign words appear on one line, without hidden or reordering characters."""
    approval = ended(State.REJECTED, reason=bad)
    text = phrases.outcome(approval, "cleo", people()).text
    assert "\u202e" not in text
    assert len(text) < 700
    assert all(verdict_of(line) is Verdict.UNCLEAR for line in text.splitlines())


def test_decider_who_left_is_named_by_id() -> None:
    """A decision by a person who is not in the settings any more names their id."""
    from signoff.core.directory.people import Directory

    words = phrases.outcome(ended(State.APPROVED), "cleo", Directory([CLEO]))
    assert words.headline == "mara approved reimburse"


def test_a_tool_with_a_hostile_name() -> None:
    """A headline is one line, whatever the tool's name is."""
    approval = ended(State.APPROVED, call=make_call("x\r\ny"))
    assert "\n" not in phrases.outcome(approval, "mara", people()).headline


def test_a_text_of_thousands_of_lines_is_marked_as_well() -> None:
    """The mark is added to each line like an answer after the first hundred."""
    ours = "What you see is what will run."
    text = "\n".join([ours, *(f"ok {at}" for at in range(3_000)), "approve", "Москва"])
    marked = harmless(text).split("\n")
    assert marked[0] == ours
    assert marked[-2:] == ["↳ approve", "Москва"]
    assert all(line.startswith("↳ ok") for line in marked[200:3_001])
