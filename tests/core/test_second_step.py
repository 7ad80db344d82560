"""If a policy wants a second step, an approval by mail alone never decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, RILEY, ask, make_approval, make_call, people, present
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.parts import (
    FIRST,
    SECOND,
    mark_of,
)
from signoff.core.base.errors import (
    AlreadyDecided,
    ApprovalError,
    DecisionRefused,
    NotAnApprover,
    PayloadError,
    ReasonNeeded,
    SecondStepNeeded,
    StepChanged,
    TooLate,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Fallback, Policy, Terms
from signoff.core.routing.escalation import pass_on
from signoff.core.routing.selection import choose

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
DIRECTORY = Directory([MARA, CLEO, RILEY, DAN])
FACTS: dict[str, JsonValue] = {
    "app": "finance",
    "agent": "",
    "tool": "reimburse",
    "args": {"amount": 500},
    "user": "u",
}


def two_steps(**parts: Any) -> Approval:
    """Return an approval that asks Mara and Cleo and needs two steps."""
    return ask(make_approval(**parts), second_step=True)


def by_mail(approval: Approval, person: Person = MARA, **parts: Any) -> Approval:
    """Return the approval after an approval by mail."""
    return approval.approve(person, DIRECTORY, channel="email", now=NOON, **parts)[0]


def confirm(approval: Approval, person: Person = MARA, **parts: Any) -> Approval:
    """Return the approval after a person has confirmed their latest answer."""
    step = approval.step_of(person.id)
    usual: dict[str, Any] = {"channel": "inbox", "now": NOON, "mark": mark_of(step) if step else ""}
    return approval.confirm(person, DIRECTORY, **(usual | parts))[0]


def test_approval_by_mail_is_recorded_and_stays_pending() -> None:
    """It stays pending and open to others; the record and the audit keep the first step."""
    before = two_steps(template={"days": 0})
    after, (event,) = before.approve(
        MARA, DIRECTORY, channel="email", now=NOON, reason="fine", values={"days": 3}
    )
    assert (after.state, after.decision, after.handoff) == (State.PENDING, None, "none")
    step = after.step_of("mara")
    assert step is not None
    assert (step.by, step.reason, step.payload) == ("mara", "fine", {"days": 3})
    assert (event.what, event.by, event.why) == (What.FIRST_STEP, "mara", "fine")
    assert event.more["payload"] == {"days": 3}
    assert after.step_of("cleo") is None


def test_confirmation_decides_with_the_reason_and_values_of_the_mail() -> None:
    """The reason and the values come from the mail; the audit names both steps."""
    noted = by_mail(two_steps(template={"days": 0}), reason="fine", values={"days": 3})
    step = noted.step_of("mara")
    assert step is not None
    later = NOON + timedelta(minutes=5)
    after, (event,) = noted.confirm(MARA, DIRECTORY, channel="inbox", now=later, mark=mark_of(step))
    assert after.state is State.APPROVED
    decision = after.decision
    assert decision is not None
    assert (decision.reason, decision.payload, decision.at) == ("fine", {"days": 3}, later)
    assert (decision.channel, decision.first_step) == ("inbox", "email")
    assert event.more["first_step"] == "email"
    assert after.step_of("mara") is None


def test_a_proposal_waits_for_its_confirmation_too() -> None:
    """Other values are a rejection that proposes a call, so they need a second step too."""
    noted = by_mail(two_steps(), values={"amount": 900})
    assert noted.state is State.PENDING
    after = confirm(noted)
    assert after.state is State.REJECTED
    assert after.decision is not None
    assert after.decision.proposal == {"amount": 900, "purpose": "conference"}


def test_rejection_by_mail_counts_immediately() -> None:
    """A rejection by mail counts, before and after an approval by mail."""
    for before in (two_steps(), by_mail(two_steps())):
        after, _ = before.reject(MARA, DIRECTORY, channel="email", now=NOON, reason="no")
        assert after.state is State.REJECTED


def test_newer_first_step_replaces_the_older_one() -> None:
    """A person has one first step, the latest; confirming an earlier one is refused."""
    first = by_mail(two_steps(template={"days": 0}), values={"days": 3})
    shown = first.step_of("mara")
    assert shown is not None
    second = by_mail(first, values={"days": 30})
    assert [step.payload for step in second.steps] == [{"days": 30}]
    with pytest.raises(StepChanged):
        confirm(second, mark=mark_of(shown))


def test_page_alone_makes_no_first_step() -> None:
    """Without a mail there is no first step, and an approval on the page is not one."""
    with pytest.raises(SecondStepNeeded):
        confirm(two_steps())
    for channel in ("inbox", "cli", "api"):
        with pytest.raises(SecondStepNeeded):
            two_steps().approve(MARA, DIRECTORY, channel=channel, now=NOON)


@pytest.mark.parametrize("channel", sorted(FIRST | {"cli", "api", "inbox", "mattermost"}))
def test_each_step_has_its_channels(channel: str) -> None:
    """A mail neither confirms a mail, nor does a page take the first step."""
    if channel in FIRST:
        assert two_steps().approve(MARA, DIRECTORY, channel=channel, now=NOON)[0].steps
    else:
        with pytest.raises(SecondStepNeeded):
            two_steps().approve(MARA, DIRECTORY, channel=channel, now=NOON)
    if channel in SECOND:
        assert confirm(by_mail(two_steps()), channel=channel).state is State.APPROVED
    else:
        with pytest.raises(SecondStepNeeded):
            confirm(by_mail(two_steps()), channel=channel)


def test_only_the_same_approver_confirms_in_time() -> None:
    """Other approvers cannot confirm it, and nobody can after the deadline or the end."""
    noted = by_mail(two_steps())
    step = noted.step_of("mara")
    assert step is not None
    with pytest.raises(SecondStepNeeded):
        confirm(noted, CLEO, mark=mark_of(step))
    with pytest.raises(NotAnApprover):
        confirm(noted, DAN, mark=mark_of(step))
    with pytest.raises(TooLate):
        confirm(noted, now=NOON + timedelta(hours=4))
    ended = confirm(by_mail(noted, CLEO), CLEO)
    with pytest.raises(AlreadyDecided):
        confirm(ended, mark=mark_of(step))


def test_a_second_step_stays_needed() -> None:
    """If others are asked because nobody can be reached, they need two steps too."""
    again, _ = two_steps().ask(Terms(policy="default", ask=("cleo",)), (), now=NOON)
    assert again.in_two_steps


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["approve", "confirm", "confirm", "confirm", "reject"]),
        st.sampled_from((MARA, MARA, CLEO, RILEY, DAN)),
        st.sampled_from(["inbox"] * 4 + sorted(FIRST | set(SECOND) | {"cli", "api"})),
        st.sampled_from([0, 0, 0, 60]),
    ),
    min_size=4,
    max_size=12,
)


@given(STEPS, st.booleans())
def test_over_any_sequence_of_moves(
    steps: list[tuple[str, Person, str, int]],
    answered: bool,
) -> None:
    """In any order of moves, an approver has answered by mail and confirmed the answer."""
    approval, now = by_mail(two_steps()) if answered else two_steps(), NOON
    said = {"mara"} if answered else set[str]()
    for move, person, channel, minutes in steps:
        now += timedelta(minutes=minutes)
        before = approval
        try:
            match move:
                case "approve":
                    approval, _ = before.approve(person, DIRECTORY, channel=channel, now=now)
                    said.add(person.id)
                case "reject":
                    approval, _ = before.reject(person, DIRECTORY, channel=channel, now=now)
                case _:
                    approval = confirm(before, person, channel=channel, now=now)
        except ApprovalError:
            assert approval is before
            continue
        if before.state is not State.PENDING:
            assert approval == before
        if approval.state is State.APPROVED:
            assert move == "confirm"
            assert channel in SECOND
            assert person.id in said
            assert person.id in {"mara", "cleo"}


@pytest.mark.parametrize(
    ("second_step", "needed"),
    [
        ("", False),
        ("true", True),
        ("false", False),
        ("args.amount > 10000", False),
        ("args.amount > 100", True),
        ("args.missing > 100", True),
        ("has(args.missing) && args.missing > 100", False),
        ("args.amount > 'x'", True),
        ("args.amount", True),
    ],
)
def test_condition_on_the_call_decides_about_a_second_step(
    second_step: str, *, needed: bool
) -> None:
    """The call's arguments decide; an expression with an error needs a second step."""
    policy = Policy(name="p", ask=("mara",), second_step=second_step)
    choice = choose([policy], Fallback(), people(), FACTS, now=NOON)
    assert choice.terms.second_step is needed
    default = choose(
        [], Fallback(ask=("mara",), second_step=second_step), people(), FACTS, now=NOON
    )
    assert default.terms.second_step is needed


def test_default_requires_the_second_step_of_the_policy() -> None:
    """If nobody of the policy can be asked, or its condition has an error, it still applies."""
    fallback = Fallback(ask=("cleo",))
    nobody = Policy(name="p", ask=("gone",), second_step="true")
    assert choose([nobody], fallback, people(), FACTS, now=NOON).terms.second_step
    broken = Policy(name="p", when="args.amount > 'x'", ask=("mara",), second_step="true")
    assert choose([broken], fallback, people(), FACTS, now=NOON).terms.second_step
    other = Policy(name="p", when="tool == 'x'", ask=("mara",), second_step="true")
    assert not choose([other], fallback, people(), FACTS, now=NOON).terms.second_step


def test_second_step_refusals_name_the_next_action() -> None:
    """The messages are written for the person who answered."""
    with pytest.raises(DecisionRefused, match=r"answer the message .* confirm .* inbox page"):
        two_steps().approve(MARA, DIRECTORY, channel="cli", now=NOON)


def test_second_step_in_a_later_phase_is_checked_by_the_rules_of_that_phase() -> None:
    """A first step of an earlier phase gives no reason and no limit that the later one needs."""
    ada = Person(id="ada", email="ada@example.com", limits={"expenses": 100}, manager="cy")
    cy = Person(id="cy", email="cy@example.com", limits={"expenses": 9000})
    riley = Person(id="riley", email="riley@example.com", manager="ada")
    everybody = Directory([ada, cy, riley, DAN])

    def in_the_chain(*reasons: str, why: str = "") -> Approval:
        up = {"ask": ["requester.manager"], "until": "limit.expenses >= args.amount"}
        levels = [
            {"ask": ["ada", "dan"], "phase": "one"},
            {**up, "reasons": reasons, "phase": "up"},
        ]
        policy = Policy.model_validate({"name": "p", "second_step": "true", "levels": levels})
        approval = make_approval(template={"amount": 0}).model_copy(
            update={"call": make_call().model_copy(update={"args": {"amount": 50}})}
        )
        choice = choose((policy,), Fallback(), everybody, approval.facts, now=NOON)
        approval, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)
        for person in (ada, DAN):
            approval, _ = approval.approve(
                person,
                everybody,
                channel="email",
                now=NOON,
                values={"amount": 5000},
                reason=why,
            )
        went = pass_on(confirm(approval, DAN), everybody, now=NOON)
        assert went is not None
        assert went[0].approvers == {"ada"}
        return went[0]

    with pytest.raises(ReasonNeeded):
        confirm(in_the_chain("approve"), ada)
    after = confirm(in_the_chain("approve", why="for the fair"), ada)
    assert (after.state, after.passed) == (State.PENDING, True)
    went = pass_on(after, everybody, now=NOON)
    assert went is not None
    assert went[0].approvers == {"cy"}


def test_a_second_step_that_differs_from_another_one_reveals_no_hidden_value() -> None:
    """The error about different values names the field, and neither of the values."""
    approval = two_steps(template={"pin": "", "days": 0})
    terms = present(approval.terms).model_copy(update={"hide": ("pin",), "at_least": 2})
    approval = approval.model_copy(update={"terms": terms})
    approval = by_mail(approval, values={"pin": "1234secret", "days": 3})
    approval = by_mail(approval, CLEO, values={"pin": "9999other", "days": 3})
    approval = confirm(approval)
    with pytest.raises(PayloadError, match="pin: hidden by policy") as caught:
        confirm(approval, CLEO)
    assert "1234secret" not in str(caught.value)
    assert "9999other" not in str(caught.value)
