"""Each rule of a level on its own."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from builders import NOON, make_approval, make_origin
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.approvals.milestones import Milestone, milestone_of
from signoff.core.approvals.parts import mark_of
from signoff.core.base.durations import Span, parse_span
from signoff.core.base.errors import (
    AlreadyDecided,
    Escalated,
    NotAnApprover,
    NotYourTurn,
    OwnRequest,
    PayloadError,
    ReasonNeeded,
    TooLate,
)
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level, Seat, level_key_of, level_of
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.escalation import advance, move_on
from signoff.core.routing.selection import choose, choose_default

ADA, BO, CY, DEE = (
    Person(id=one, name=one.title(), email=f"{one}@example.com", aliases=(f"{one}@old.example",))
    for one in ("ada", "bo", "cy", "dee")
)
PEOPLE = Directory([ADA, BO, CY, DEE])
HOUR = timedelta(hours=1)


def level(*ask: str, **rules: Any) -> Level:
    """Return a level of an hour."""
    return Level(ask=ask, within="1h", **rules)


def asked(*levels: Level, template: JsonValue = None, **rules: Any) -> Approval:
    """Return an approval of a stranger whose first level begins at noon."""
    policy = Policy(name="p", levels=levels, **rules)
    origin = make_origin(user="stranger")
    opened = make_approval(origin=origin, template=template)
    choice = choose([policy], Fallback(), PEOPLE, opened.facts, now=NOON)
    assert choice.start is not None
    return opened.ask(choice.terms, (), now=NOON, start=choice.start)[0]


def yes(approval: Approval, person: Person, **parts: Any) -> Approval:
    """Return the approval after an approval by mail, some minutes after noon."""
    parts = {"now": NOON + timedelta(minutes=5), "channel": "email", **parts}
    return approval.approve(person, PEOPLE, **parts)[0]


def no(approval: Approval, person: Person, **parts: Any) -> Approval:
    """Return the approval after a rejection by mail, some minutes after noon."""
    parts = {"now": NOON + timedelta(minutes=5), "channel": "email", **parts}
    return approval.reject(person, PEOPLE, **parts)[0]


def test_two_of_three() -> None:
    """The first approval is a vote, the second decides, and both approvers are recorded."""
    approval, (event,) = asked(level("ada", "bo", "cy", quorum=2)).approve(
        ADA, PEOPLE, channel="slack", now=NOON
    )
    assert approval.state is State.PENDING
    assert (event.what, event.more["yes"], event.more["of"]) == (What.VOTED, 1, 2)
    again = yes(approval, ADA, channel="email")
    assert (again.state, len(again.votes)) == (State.PENDING, 1)
    done = yes(again, CY)
    assert done.state is State.APPROVED
    assert done.outcome(PEOPLE) == "approved by Ada and Cy"


def test_quorum_of_one_records_no_vote_count() -> None:
    """A quorum of one needs no vote count."""
    approval, (event,) = asked(level("ada", "bo")).approve(ADA, PEOPLE, channel="cli", now=NOON)
    assert (approval.state, approval.votes, event.what) == (State.APPROVED, (), What.APPROVED)


@pytest.mark.parametrize(("quorum", "need"), [("all", 3), ("majority", 2), (7, 7)])
def test_quorum_all_and_majority_count_the_approvers(quorum: int | str, need: int) -> None:
    """The values "all" and "majority" count the people who are asked; a number stays as it is."""
    assert asked(level("ada", "bo", "cy", quorum=quorum)).ballot.need == need


def test_person_with_several_seats_counts_once_in_the_quorum() -> None:
    """An approver in two seats counts once, so a quorum of two needs another person."""
    approval = asked(level("ada", "bo", quorum=2))
    seats = (*approval.seats, Seat(person="ada", instead_of="cy"))
    voted = yes(approval.model_copy(update={"seats": seats}), ADA)
    assert (voted.state, voted.votes[0].stands_for) == (State.PENDING, "ada")
    assert yes(voted, BO).state is State.APPROVED


def test_one_rejection_ends_the_request_whatever_the_votes() -> None:
    """One rejection ends the request, whatever the votes before."""
    voted = yes(asked(level("ada", "bo", quorum="all")), ADA)
    assert no(voted, BO, reason="too much").state is State.REJECTED


def test_without_a_veto_a_no_only_counts_against() -> None:
    """The request is rejected as soon as the quorum is out of reach, and not before."""
    approval = no(asked(level("ada", "bo", "cy", quorum=2, veto=False)), ADA)
    assert approval.state is State.PENDING
    assert yes(yes(approval, BO), CY).state is State.APPROVED
    assert no(yes(approval, BO), CY).state is State.REJECTED
    assert yes(yes(approval, ADA), BO).state is State.APPROVED


def test_approvers_in_sequence_answer_in_their_turn_only() -> None:
    """Nobody may answer before their turn, and each person may change their own answer."""
    approval = asked(level("ada", "bo", quorum="all", order="sequence"))
    with pytest.raises(NotYourTurn, match=r"Ada is asked about approval .* before Bo"):
        yes(approval, BO)
    assert approval.approvers == {"ada"}
    voted = yes(approval, ADA)
    assert voted.approvers == {"ada", "bo"}
    assert no(voted, ADA).state is State.REJECTED
    assert yes(voted, BO).state is State.APPROVED


def test_error_for_a_missing_reason_shows_a_valid_answer() -> None:
    """The error shows an answer that would have worked."""
    approval = asked(level("ada", reasons=("reject",)))
    with pytest.raises(ReasonNeeded, match="needs a reason") as caught:
        no(approval, ADA, reason="  ")
    assert caught.value.example == "reject: because …"
    assert no(approval, ADA, reason="too much").state is State.REJECTED
    assert yes(approval, ADA).state is State.APPROVED


def test_approval_with_values_that_differ_from_an_earlier_one_is_refused() -> None:
    """Values that differ from an earlier approval are refused; the error names its approver."""
    approval = asked(level("ada", "bo", quorum=2), template={"days": 0})
    voted = yes(approval, ADA, values={"days": 3})
    with pytest.raises(PayloadError, match="Ada has approved this with days: 3, and you say days:"):
        yes(voted, BO, values={"days": 4})
    done = yes(voted, BO, values={"days": 3})
    assert done.decision is not None
    assert done.decision.payload == {"days": 3}
    assert yes(voted, ADA, values={"days": 5}).votes[0].decision.payload == {"days": 5}


def test_approver_of_an_escalated_level_learns_the_new_approvers() -> None:
    """They learn it from the deadline on, before and after the escalation is recorded."""
    approval = asked(level("ada"), level("bo", name="finance"))
    with pytest.raises(Escalated, match="went on to finance on Mon 2 Mar 2026, 13:00 UTC"):
        yes(approval, ADA, now=NOON + HOUR)
    later, (event,) = advance(approval, PEOPLE, now=NOON + 2 * HOUR)
    assert (event.what, event.more) == (What.ESCALATED, {"level": "finance", "people": ["bo"]})
    assert later.deadline == NOON + 3 * HOUR
    with pytest.raises(Escalated, match="went on to finance on Mon 2 Mar 2026, 14:00 UTC"):
        yes(later, ADA, now=NOON + 2 * HOUR)
    with pytest.raises(TooLate):
        yes(later, BO, now=NOON + 3 * HOUR)
    with pytest.raises(NotAnApprover):
        yes(later, CY, now=NOON + 2 * HOUR)
    done = yes(later, BO, now=NOON + 2 * HOUR)
    with pytest.raises(AlreadyDecided):
        yes(done, ADA, now=NOON + 2 * HOUR)


def test_approver_of_a_level_that_stays_open_may_still_answer() -> None:
    """Their earlier votes keep counting."""
    both = level("bo", "cy", quorum=2, earlier="stay")
    voted = yes(asked(level("ada", "dee", quorum=2), both), ADA)
    later, _ = advance(voted, PEOPLE, now=NOON + HOUR)
    assert later.ballot.yes == ("ada",)
    assert yes(later, DEE, now=NOON + HOUR).state is State.APPROVED
    assert yes(later, BO, now=NOON + HOUR).state is State.APPROVED


def test_approval_of_a_closed_level_does_not_count_at_the_next() -> None:
    """An approval of an earlier level does not count towards the next level's quorum."""
    voted = yes(asked(level("ada", "dee", quorum=2), level("bo", "cy", quorum=2)), ADA)
    later, _ = advance(voted, PEOPLE, now=NOON + HOUR)
    assert yes(later, BO, now=NOON + HOUR).state is State.PENDING


def test_levels_are_gone_through_again() -> None:
    """The levels repeat as often as the policy says; then the request ends."""
    approval, went = asked(level("ada"), level("ghost"), level("bo"), repeat=1), []
    while approval.state is State.PENDING:
        assert approval.deadline is not None
        went.append((approval.round, approval.level))
        approval, _ = advance(approval, PEOPLE, now=approval.deadline)
    assert went == [(0, 0), (0, 2), (1, 0), (1, 2)]
    assert approval.state is State.TIMED_OUT


@pytest.mark.parametrize(
    ("ceiling", "state"),
    [
        ("args.amount <= 2500", State.APPROVED),
        ("args.amount <= 200", State.TIMED_OUT),
        ("args.nothing <= 200", State.TIMED_OUT),
        ("args.purpose <= 200", State.TIMED_OUT),
        ("", State.TIMED_OUT),
    ],
)
def test_silence_approves_only_under_the_ceiling(ceiling: str, state: State) -> None:
    """A call above the ceiling, or a ceiling that cannot be evaluated, is not approved."""
    approval = asked(level("ada"), on_timeout="approve", ceiling=ceiling)
    after, _ = advance(approval, PEOPLE, now=NOON + HOUR)
    assert after.state is state
    assert after.decision is not None
    assert (after.decision.by, after.decision.channel) == ("", "deadline")


def test_silence_never_approves_after_a_rejection_or_with_open_fields() -> None:
    """A call that needs two steps is not approved either."""
    rules = {"on_timeout": "approve", "ceiling": "true"}
    refused = no(asked(level("ada", "bo", quorum=1, veto=False), **rules), ADA)
    blank = asked(level("ada"), template={"days": 0}, **rules)
    two_steps = asked(level("ada"), second_step="true", **rules)
    for approval in (refused, blank, two_steps):
        assert advance(approval, PEOPLE, now=NOON + HOUR)[0].state is State.TIMED_OUT


@pytest.mark.parametrize("earlier", ["leave", "stay"])
def test_silence_of_a_later_level_does_not_outvote_a_rejection(earlier: str) -> None:
    """Nobody decided at the first level, but somebody was against it."""
    first, second = level("ada", "bo", veto=False), level("cy", earlier=earlier)
    approval = no(asked(first, second, on_timeout="approve", ceiling="true"), ADA)
    approval, _ = advance(approval, PEOPLE, now=NOON + HOUR)
    assert (approval.state, approval.level) == (State.PENDING, 1)
    ended, _ = advance(approval, PEOPLE, now=NOON + 2 * HOUR)
    assert ended.state is State.TIMED_OUT


def test_agent_owner_never_decides() -> None:
    """The owner is recognised by every identity, even with a seat."""
    approval = asked(level("ada", "bo")).model_copy(update={"barred": ("bo@old.example",)})
    with pytest.raises(OwnRequest, match="Bo owns the agent"):
        no(approval, BO)


def test_reminders() -> None:
    """Each reminder comes once at its time; missed reminders become one."""
    approval = asked(level("ada", "bo", quorum=2, remind=("10m", "20m", "2h")))
    assert approval.next_due == NOON + timedelta(minutes=10)
    voted = yes(approval, ADA)
    after, (event,) = advance(voted, PEOPLE, now=NOON + timedelta(minutes=25))
    assert (event.what, event.more["people"], after.reminded) == (What.REMINDED, ["bo"], 2)
    assert after.next_due == NOON + HOUR
    assert advance(after, PEOPLE, now=NOON + timedelta(minutes=30)) == (after, ())


def test_last_level_has_no_level_to_escalate_to() -> None:
    """After the last level, there is no level to escalate to."""
    assert move_on(asked(level("ada")), PEOPLE, now=NOON, why="refused") is None


@pytest.mark.parametrize("earlier", ["leave", "stay"])
def test_request_stays_open_if_nobody_can_be_asked_at_a_later_level(earlier: str) -> None:
    """A level without approvers is skipped, so the present level is the last one."""
    approval = asked(level("ada"), level("gone", earlier=earlier), on_timeout="stay")
    open_, (event,) = advance(approval, PEOPLE, now=NOON + HOUR)
    assert (open_.state, open_.deadline, event.what) == (State.PENDING, None, What.OVERDUE)
    assert milestone_of(approval, open_) is Milestone.OVERDUE
    assert advance(open_, PEOPLE, now=NOON + 2 * HOUR) == (open_, ())
    assert yes(open_, ADA, now=NOON + 2 * HOUR).state is State.APPROVED


@pytest.mark.parametrize(
    ("text", "span"),
    [("4h", Span(4 * HOUR)), ("4h business", Span(4 * HOUR, business=True)), (60, Span(HOUR / 60))],
)
def test_span_reads_back_as_written(text: object, span: Span) -> None:
    """A span that is written and read again stays the same."""
    assert parse_span(text) == span == parse_span(str(span))


@pytest.mark.parametrize("text", ["business", "0s", "4 hours business", "2y", True, None, [1]])
def test_invalid_span_is_refused_with_a_validation_error(text: object) -> None:
    """The error is one that pydantic can report."""
    with pytest.raises(ValueError, match=r"duration|too long|between"):
        parse_span(text)


def test_a_record_of_before_there_were_levels_is_read_and_decided() -> None:
    """Everybody with a card may decide; the first answer or the deadline ends it."""
    record = {
        "id": "ap_1",
        "origin": {"run": "run_1", "app": "finance", "user": "stranger", "session": "s"}
        | {"invocation": "e", "confirmation": "c"},
        "call": {"id": "fc", "name": "reimburse", "args": {"amount": 1}},
        "digest": "d",
        "opened_at": NOON.isoformat(),
        "terms": {"policy": "p", "ask": ["ada", "bo"], "within": "1h"},
        "asked": [{"person": "ada", "channel": "email", "address": "ada@example.com"}],
        "deadline": (NOON + HOUR).isoformat(),
    }
    approval = Approval.model_validate(record)
    assert (set(approval.approvers), approval.next_due) == ({"ada"}, NOON + HOUR)
    assert yes(approval, ADA).state is State.APPROVED
    assert advance(approval, PEOPLE, now=NOON + HOUR)[0].state is State.TIMED_OUT


def test_vote_in_two_steps_counts_after_its_confirmation() -> None:
    """The first step does not count as a vote."""
    approval = yes(asked(level("ada", "bo", quorum=2), second_step="true"), ADA)
    assert (len(approval.steps), approval.votes) == (1, ())
    step = approval.step_of("ada")
    assert step is not None
    voted, _ = approval.confirm(ADA, PEOPLE, channel="inbox", now=NOON, mark=mark_of(step))
    assert (voted.state, voted.ballot.yes, voted.steps) == (State.PENDING, ("ada",), ())


@pytest.mark.parametrize(
    ("quorum", "need"), [("1%", 1), ("50%", 2), ("51%", 3), ("75%", 3), ("76%", 4), ("100%", 4)]
)
def test_a_share_is_rounded_up(quorum: str, need: int) -> None:
    """The number of approvers never falls below the share, and is at least one of four."""
    assert asked(level("ada", "bo", "cy", "dee", quorum=quorum)).ballot.need == need


@pytest.mark.parametrize("quorum", ["0%", "101%", "50 %", "half", "5.5%", 0])
def test_quorum_refuses_invalid_shares(quorum: int | str) -> None:
    """A share is a whole percentage from 1 to 100."""
    with pytest.raises(ValidationError, match="quorum"):
        level("ada", quorum=quorum)


def test_default_levels_refuse_an_approver_whose_policy_level_is_over() -> None:
    """Ada's level is over, so she is refused; Bo, Cy and Dee may still answer."""
    default = Fallback(levels=(level("cy"), level("dee", earlier="stay")))
    approval, _ = advance(asked(level("ada"), level("bo")), PEOPLE, now=NOON + HOUR)
    now = NOON + HOUR + HOUR / 2
    choice = choose_default(approval, default, PEOPLE, now=now, why="nobody can be reached")
    assert choice.start is not None
    here, _ = approval.ask(choice.terms, (), now=now, start=choice.start)
    later, _ = advance(here, PEOPLE, now=now + HOUR)
    assert later.ballot.own == ("dee",)
    for one in (here, later):
        assert one.approvers.isdisjoint({"ada"})
        with pytest.raises(Escalated):
            yes(one, ADA, now=now)
    for person in (BO, CY, DEE):
        assert yes(later, person, now=now + HOUR).state is State.APPROVED


GROUPS = ({"ask": ("ada", "bo"), "quorum": 2}, {"ask": ("cy",)})
UNTIL = "limit.expenses >= args.amount"


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        ({"all_of": GROUPS}, ""),
        ({"all_of": GROUPS, "quorum": 1}, ""),
        ({"all_of": GROUPS, "ask": ("dee",)}, "beside ask"),
        ({"all_of": GROUPS, "order": "sequence"}, "at the same time"),
        ({"all_of": GROUPS, "quorum": 2}, "its own quorum"),
        ({"all_of": GROUPS, "until": UNTIL}, "take all_of out"),
        ({"all_of": ({"ask": ("requester.managers",)}, *GROUPS)}, "take it out of all_of"),
        ({"ask": ("ada", "bo"), "order": "sequence", "quorum": 2}, ""),
        ({"ask": ("ada",), "until": UNTIL, "order": "sequence"}, ""),
        ({"ask": ("requester.managers",)}, ""),
        ({"ask": ("ada", "bo"), "until": UNTIL}, "until goes up the managers"),
        ({"ask": ("queue:money",), "until": UNTIL}, "until goes up the managers"),
        ({"ask": ("asked.manager",), "until": UNTIL}, "until goes up the managers"),
        ({"ask": ("requester.managers", "ada")}, "requester.managers goes up the managers"),
        ({"ask": ("ada",), "until": UNTIL, "quorum": 2}, "take quorum out"),
        ({"ask": ("requester.managers",), "quorum": "all"}, "take quorum out"),
    ],
)
@pytest.mark.parametrize("place", ["policy", "level", "inherited"])
def test_settings_that_contradict_each_other_are_refused(
    rules: dict[str, Any], fault: str, place: str
) -> None:
    """The same rules hold in a policy, in its levels, and for what these inherit from it."""
    asks = {name: rules[name] for name in ("ask", "all_of") if name in rules}
    others = {name: one for name, one in rules.items() if name not in asks}
    settings: dict[str, Any] = {
        "policy": rules,
        "level": {"levels": [rules]},
        "inherited": {**others, "levels": [asks]},
    }[place]
    with pytest.raises(ValidationError, match=fault) if fault else nullcontext():
        Policy.model_validate({"name": "p", **settings})


def test_groups_need_at_least_what_the_largest_of_them_needs() -> None:
    """A person in several groups counts in each, so the numbers are not added up."""
    assert Level.model_validate({"all_of": GROUPS}).fewest == 2
    assert Level.model_validate({"all_of": GROUPS[1:]}).fewest == 1


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_key_of_a_level_names_the_level(level: int, round_: int) -> None:
    """The key of the first level in the first round is empty."""
    key = level_key_of(level, round_)
    assert level_of(key) == level
    assert (key == "") is (level == round_ == 0)
