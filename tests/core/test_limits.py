"""Limits on approvals: limits of people, chains of managers, and parallel groups."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from builders import NOON, make_approval, make_call, make_origin
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import Escalated, GrantRefused, NotAnApprover
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Queue
from signoff.core.grants.grant import may_grant
from signoff.core.policies.levels import Group, Level
from signoff.core.policies.policy import Fallback, GrantRules, Policy
from signoff.core.routing.departures import stand_in
from signoff.core.routing.escalation import advance, go_past, pass_on
from signoff.core.routing.selection import Choice, choose

HOUR = timedelta(hours=1)
SOON = NOON + timedelta(minutes=5)
LIMIT = "limit.expenses >= args.amount"


def person(name: str, manager: str = "", most: float = 0, **parts: object) -> Person:
    """Return a person with a limit for expenses."""
    limits = {"expenses": most} if most else {}
    return Person(
        id=name,
        name=name.title(),
        email=f"{name}@example.com",
        manager=manager,
        limits=limits,
        **parts,
    )


def away(delegate: str = "") -> tuple[Absence, ...]:
    """Return an absence during the whole of March."""
    return (Absence(start=date(2026, 3, 1), end=date(2026, 3, 31), delegate=delegate),)


def company(*changed: Person, queues: Iterable[Queue] = ()) -> Directory:
    """Return Riley, whose managers may approve up to 500, up to 5,000 and without a limit."""
    people = [
        person("riley", "ada"),
        person("ada", "bo", 500),
        person("bo", "cy", 5_000),
        person("cy", "", float("inf")),
        person("dee", "", 1_000),
        person("eve"),
    ]
    named = {one.id: one for one in changed}
    return Directory([named.get(one.id, one) for one in people], queues=queues)


PEOPLE = company()
UP = Policy(name="expenses", ask=("requester.manager",), until=LIMIT, within="1h")
DEFAULT = Fallback(ask=("eve",))


def chosen(policy: Policy, amount: float = 400, directory: Directory = PEOPLE) -> Choice:
    """Choose a policy for an expense of Riley's."""
    opened = make_approval(call=make_call(amount=amount))
    return choose([policy], DEFAULT, directory, opened.facts, now=NOON)


def asked(policy: Policy, amount: float = 400, directory: Directory = PEOPLE) -> Approval:
    """Return an approval that a policy has routed."""
    choice = chosen(policy, amount, directory)
    assert choice.start is not None
    opened = make_approval(call=make_call(amount=amount), origin=make_origin(user="riley"))
    return opened.ask(choice.terms, (), now=NOON, start=choice.start)[0]


def says(
    approval: Approval, name: str, *, yes: bool = True, directory: Directory = PEOPLE
) -> Approval:
    """Return the approval after an answer, in the next phase if that is due."""
    who = directory.get(name)
    assert who is not None
    move = approval.approve if yes else approval.reject
    after, _ = move(who, directory, channel="cli", now=SOON)
    went = pass_on(after, directory, now=SOON)
    assert went is not None
    return went[0]


@pytest.mark.parametrize(
    ("amount", "way"),
    [(400, ["ada"]), (500, ["ada"]), (4_000, ["ada", "bo"]), (40_000, ["ada", "bo", "cy"])],
)
def test_approval_climbs_the_managers_until_a_limit_covers_it(
    amount: float, way: list[str]
) -> None:
    """An approval below the limit counts as that manager's phase; a sufficient limit ends it."""
    approval = asked(UP, amount)
    for name in way:
        assert (approval.state, approval.ballot.own) == (State.PENDING, (name,))
        approval = says(approval, name)
    assert (approval.state, approval.decided_by) == (State.APPROVED, tuple(way))


def test_one_managers_rejection_ends_the_request() -> None:
    """Each manager may reject it, whatever their limit."""
    assert says(says(asked(UP, 4_000), "ada"), "bo", yes=False).state is State.REJECTED


def test_next_manager_replaces_a_silent_one() -> None:
    """Silence never approves; after the last manager's silence the request ends."""
    approval, _ = advance(asked(UP, 400), PEOPLE, now=NOON + HOUR)
    assert approval.ballot.own == ("bo",)
    assert says(approval, "bo").state is State.APPROVED
    with pytest.raises(Escalated):
        says(approval, "ada")
    approval, _ = advance(approval, PEOPLE, now=NOON + 2 * HOUR)
    approval, _ = advance(approval, PEOPLE, now=NOON + 3 * HOUR)
    assert approval.state is State.TIMED_OUT


def test_delegate_has_the_lower_limit_of_the_two() -> None:
    """A delegate approves no more than the lower limit of the two."""
    high = company(person("ada", "bo", 500, away=away("cy")))
    low = company(person("bo", "cy", 5_000, away=away("dee")))
    approval = says(asked(UP, 700, high), "cy", directory=high)
    assert (approval.state, approval.ballot.own) == (State.PENDING, ("bo",))
    approval = says(asked(UP, 2_000, low), "ada", directory=low)
    assert approval.ballot.own == ("dee",)
    approval = says(approval, "dee", directory=low)
    assert (approval.state, approval.ballot.own) == (State.PENDING, ("cy",))
    assert says(approval, "cy", directory=low).state is State.APPROVED


def test_absent_manager_without_a_delegate_is_skipped() -> None:
    """The next manager is asked immediately."""
    gone = company(person("ada", "bo", 500, away=away()))
    assert asked(UP, 400, gone).ballot.own == ("bo",)


def test_default_is_asked_first_for_an_amount_above_every_limit() -> None:
    """The default is asked first, and the notes say why; also if there is no manager."""
    poor = company(person("cy", "", 9_000))
    for directory, amount, why in (
        (poor, 10_000, "nobody's limit covers this (Ada, Bo, Cy)"),
        (company(person("riley")), 1, "nobody is above the requester"),
    ):
        choice = chosen(UP, amount, directory)
        assert (choice.terms.policy, choice.stranded) == ("default", True)
        assert any(why in note for note in choice.notes)
    choice = chosen(UP.model_copy(update={"until": "limit.expenses >= args.sum"}))
    assert choice.terms.policy == "default"


def test_default_by_limits_asks_nobody_for_an_amount_above_every_limit() -> None:
    """A default that follows the managers lets nobody approve more than their limit."""
    default = Fallback(ask=("requester.manager",), until=LIMIT)
    facts = make_approval(call=make_call(amount=400)).facts
    choice = choose([], default, company(person("cy", "", 9_000)), facts, now=NOON)
    assert choice.people
    facts = make_approval(call=make_call(amount=10_000)).facts
    choice = choose([], default, company(person("cy", "", 9_000)), facts, now=NOON)
    assert (choice.start, choice.people) == (None, ())
    assert "nobody's limit covers this (Ada, Bo, Cy)" in choice.notes


def test_absence_of_the_last_manager_requires_more_approvals() -> None:
    """The last manager is away by then and the delegate has no limit, so more is needed."""
    later = company(person("cy", "", float("inf"), away=away("eve")))
    approval = says(says(asked(UP, 40_000), "ada", directory=later), "bo", directory=later)
    assert approval.ballot.own == ("eve",)
    after, _ = approval.approve(
        Person(id="eve", email="eve@example.com"), later, channel="cli", now=SOON
    )
    assert (after.state, after.passed) == (State.PENDING, True)
    assert pass_on(after, later, now=SOON) is None
    assert after.still_needed == 1


def unreached(
    approval: Approval, directory: Directory = PEOPLE, default: Fallback = DEFAULT
) -> Approval:
    """Return the approval after no card has reached its approvers."""
    went = go_past(approval, default, directory, now=SOON, why="nobody can be reached")
    assert went is not None
    if not isinstance(went, Choice):
        return went[0]
    return approval.ask(went.terms, (), now=SOON, start=went.start, stranded=True)[0]


def test_late_approval_with_a_sufficient_limit_ends_the_request() -> None:
    """No card reached Ada; she approves on the page after Bo is asked."""
    approval = unreached(asked(UP, 400))
    assert approval.ballot.own == ("bo",)
    assert says(approval, "ada").state is State.APPROVED


def test_late_approval_with_a_low_limit_fills_no_other_seat() -> None:
    """Ada's approval does not count as Bo's or as the default's."""
    approval = unreached(asked(UP, 2_000))
    with pytest.raises(Escalated, match="went on to Bo"):
        says(approval, "ada")
    approval = unreached(unreached(unreached(asked(UP, 40_000))))
    assert (approval.terms and approval.terms.policy, approval.ballot.own) == ("default", ("eve",))
    for name in ("ada", "bo"):
        with pytest.raises(Escalated):
            says(approval, name)
    assert says(approval, "cy").state is State.APPROVED


def test_a_place_that_is_handed_on_covers_no_more_than_the_new_holder_may() -> None:
    """Bo reassigns to Dee, whose limit is lower, so Cy is asked next."""
    approval, bo = says(asked(UP, 2_000), "ada"), PEOPLE.get("bo")
    assert bo is not None
    handed, _ = collaboration.reassign(
        approval, bo, PEOPLE, of=bo, to=person("dee", "", 1_000), reason="you know it", now=SOON
    )
    assert says(handed, "dee").ballot.own == ("cy",)


def test_members_of_a_queue_have_its_limits() -> None:
    """The higher of the two limits counts."""
    queue = Queue(name="heads", members=("ada",), limits={"expenses": 800})
    directory = company(queues=[queue])
    assert says(asked(UP, 800, directory), "ada", directory=directory).state is State.APPROVED
    assert directory.limits("ada", "dee") == {"expenses": 800}
    assert directory.limits("ada", "eve") == {"expenses": 0}


@given(
    st.lists(st.integers(0, 50), min_size=1, max_size=6),
    st.integers(0, 60),
    st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_every_approved_amount_is_covered_by_an_approvers_limit(
    limits: list[int], amount: int, silent: list[bool]
) -> None:
    """For any answers, the limit of at least one approver covers an approved amount."""
    names = [f"m{at}" for at, _ in enumerate(limits)]
    above = [*names[1:], ""]
    managers = [
        person(name, boss, most) for name, boss, most in zip(names, above, limits, strict=True)
    ]
    directory = Directory([person("riley", "m0"), *managers, person("eve")])
    choice = chosen(UP, amount, directory)
    if max(limits) < amount or (not amount and not any(limits)):
        assert choice.terms.policy == "default"
        return
    if choice.terms.policy == "default":
        assert not any(most >= amount for most in limits if most)
        return
    approval, now = asked(UP, amount, directory), NOON
    for _ in range(20):
        if approval.state is not State.PENDING or approval.passed:
            break
        (name,) = approval.ballot.own
        if silent[names.index(name)]:
            now += HOUR
            approval, _ = advance(approval, directory, now=now)
            continue
        who = directory.get(name)
        assert who is not None
        approval, _ = approval.approve(who, directory, channel="cli", now=now)
        went = pass_on(approval, directory, now=now)
        approval = approval if went is None else went[0]
    if approval.state is State.APPROVED:
        assert any(limits[names.index(one)] >= amount for one in approval.decided_by)
        assert not silent[names.index(approval.decided_by[-1])]
    else:
        assert approval.passed or approval.state is State.TIMED_OUT


def test_all_managers_up_to_the_top_as_phases() -> None:
    """Each manager has to approve, whatever their limit."""
    approval = asked(Policy(name="p", ask=("requester.managers",)))
    assert approval.still_needed == 3
    for name in ("ada", "bo", "cy"):
        assert (approval.state, approval.ballot.own) == (State.PENDING, (name,))
        approval = says(approval, name)
    assert approval.state is State.APPROVED


def test_next_manager_is_the_manager_of_the_absent_person() -> None:
    """The manager is that of the absent person, with a delegate or with a skipped level."""
    policy = Policy(
        name="p",
        levels=(
            Level(ask=("ada",), within="1h"),
            Level(ask=("asked.manager",), within="1h"),
        ),
    )
    approval, _ = advance(asked(policy), PEOPLE, now=NOON + HOUR)
    assert approval.ballot.own == ("bo",)
    gone = company(person("ada", "bo", away=away()))
    assert asked(policy, directory=gone).ballot.own == ("bo",)
    stood_in = company(person("ada", "bo", away=away("dee")))
    approval, _ = advance(asked(policy, directory=stood_in), stood_in, now=NOON + HOUR)
    assert approval.ballot.own == ("bo",)


def test_grant_does_not_replace_a_limit() -> None:
    """A grant says nothing about the amount."""
    rules = GrantRules(who=("ada",))
    with pytest.raises(GrantRefused, match="more than one approval"):
        may_grant(asked(UP.model_copy(update={"grants": rules})), "ada")


TWO = Policy(
    name="p",
    all_of=(Group(ask=("ada", "bo"), quorum=1), Group(ask=("bo", "cy", "dee"), quorum=2)),
    within="1h",
    veto=False,
)


def test_groups_side_by_side_each_with_its_minimum() -> None:
    """All groups are asked together; a member of both counts in each."""
    approval = asked(TWO)
    assert approval.ballot.own == ("ada", "bo", "cy", "dee")
    assert approval.ballot.need == 3
    two = says(says(approval, "cy"), "dee")
    assert (two.state, two.ballot.need) == (State.PENDING, 3)
    assert says(two, "ada").state is State.APPROVED
    both = says(says(approval, "bo"), "dee")
    assert (both.state, both.decided_by) == (State.APPROVED, ("bo", "dee"))


def test_a_group_that_cannot_be_met_any_more_rejects() -> None:
    """Without a veto, one rejection is not enough while the group can reach its minimum."""
    one = says(asked(TWO), "dee", yes=False)
    assert one.state is State.PENDING
    assert says(one, "cy", yes=False).state is State.REJECTED


@given(
    st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), min_size=1, max_size=4),
    st.data(),
)
def test_groups_are_met_exactly_when_each_has_its_minimum(
    groups: list[set[str]], data: st.DataObject
) -> None:
    """This holds for any answers in any order."""
    quorums = [data.draw(st.integers(1, len(one))) for one in groups]
    everybody = sorted(set().union(*groups))
    directory = Directory([person("riley"), *map(person, everybody)])
    policy = Policy(
        name="p",
        all_of=tuple(
            Group(ask=tuple(sorted(one)), quorum=most)
            for one, most in zip(groups, quorums, strict=True)
        ),
    )
    approval, yes = asked(policy, directory=directory), set[str]()
    for name in data.draw(st.permutations(everybody)):
        if approval.state is not State.PENDING:
            break
        approval = says(approval, name, directory=directory)
        yes.add(name)
        met = all(len(one & yes) >= most for one, most in zip(groups, quorums, strict=True))
        assert (approval.state is State.APPROVED) == met
        assert approval.ballot.need >= len(approval.ballot.yes)
    assert approval.state is State.APPROVED


STAGES = Policy(
    name="p",
    levels=(
        Level(ask=("ada", "bo"), quorum=2, phase="managers"),
        Level(ask=("bo", "cy", "dee"), quorum=2, phase="finance"),
        Level(ask=("bo",), phase="board"),
    ),
)


def test_person_who_has_approved_is_not_asked_again_in_a_later_phase() -> None:
    """Bo's approval counts in each later phase, and can complete a phase."""
    finance = says(says(asked(STAGES), "bo"), "ada")
    assert (finance.ballot.yes, finance.ballot.awaited) == (("bo",), ("cy", "dee"))
    done = says(finance, "cy")
    assert (done.state, done.decided_by) == (State.APPROVED, ("ada", "cy", "bo"))


def test_ask_twice_requires_new_answers_in_each_phase() -> None:
    """With `ask_twice`, each phase needs its own answers."""
    twice = STAGES.model_copy(update={"ask_twice": True})
    finance = says(says(asked(twice), "bo"), "ada")
    assert finance.ballot.awaited == ("bo", "cy", "dee")
    board = says(says(finance, "cy"), "dee")
    assert (board.state, board.ballot.awaited) == (State.PENDING, ("bo",))


def test_chain_of_delegates_keeps_to_the_lowest_limit() -> None:
    """Cy is Ada's delegate and Bo is Cy's; the start of the absences does not matter."""
    later = Absence(start=date(2026, 3, 3), end=date(2026, 3, 31), delegate="cy")
    away_for = (Absence(start=date(2026, 3, 1), end=date(2026, 3, 31), delegate="bo"),)
    changed = (
        person("ada", "bo", 5_000, away=(later,)),
        person("cy", "", 100, away=away_for),
    )
    directory = company(*changed)
    approval = asked(UP, 4_000, directory)
    gone = NOON + timedelta(days=1)
    there, _ = stand_in(approval, directory, now=gone)
    assert there.ballot.own == ("ada", "bo")
    assert [one.covers for one in there.seats_here] == [True, False]


@pytest.mark.parametrize(("amount", "state"), [(450, State.APPROVED), (900, State.PENDING)])
def test_approval_with_a_raised_amount_is_checked_against_the_limit(
    amount: int, state: State
) -> None:
    """The entered amount counts; above the limit, the next manager is asked."""
    origin = make_origin(user="riley")
    call = make_call(amount=400)
    approval, _ = Approval.open(origin, call, hint="", template={"amount": 400}, now=NOON)
    choice = choose((UP,), DEFAULT, PEOPLE, approval.facts, now=NOON)
    approval, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)
    ada, bo = PEOPLE.get("ada"), PEOPLE.get("bo")
    assert ada is not None
    assert bo is not None
    values = {"amount": amount}
    said, _ = approval.approve(ada, PEOPLE, channel="inbox", now=SOON, values=values)
    assert said.state is state
    if state is State.APPROVED:
        return
    went = pass_on(said, PEOPLE, now=SOON)
    assert went is not None
    assert went[0].ballot.own == ("bo",)
    done, _ = went[0].approve(bo, PEOPLE, channel="inbox", now=SOON, values=values)
    assert done.state is State.APPROVED
    assert done.decision is not None
    assert done.decision.payload == values


def test_a_yes_without_the_reason_that_a_later_phase_wants_does_not_count_there() -> None:
    """The approver is asked again for the reason."""
    board = Level(ask=("ada",), phase="board", reasons=("approve",))
    policy = Policy(name="p", levels=(Level(ask=("ada",), phase="managers"), board))
    assert says(asked(policy), "ada").ballot.awaited == ("ada",)


def test_each_yes_that_counts_again_is_in_the_audit() -> None:
    """The audit names the phase in which it was given."""
    approval = says(asked(STAGES), "bo")
    ada = PEOPLE.get("ada")
    assert ada is not None
    after, _ = approval.approve(ada, PEOPLE, channel="cli", now=SOON)
    went = pass_on(after, PEOPLE, now=SOON)
    assert went is not None
    assert [(one.what, one.by) for one in went[1]] == [(What.PASSED, "ada"), (What.VOTED, "bo")]
    assert "earlier phase" in went[1][1].why


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ask": ["queue:q"], "until": LIMIT}, "above one person"),
        ({"all_of": [{"ask": []}]}, "at least 1"),
        ({"levels": [{}]}, "nobody is asked"),
        (
            {"levels": [{"ask": ["requester.manager"], "until": LIMIT}, {"ask": ["eve"]}]},
            "a phase of its own",
        ),
    ],
)
def test_settings_that_contradict_themselves_are_refused(
    settings: dict[str, object], message: str
) -> None:
    """The error says which setting to remove."""
    with pytest.raises(ValidationError, match=message):
        Policy.model_validate({"name": "p", **settings})


def test_limits_are_neither_negative_nor_nameless() -> None:
    """An amount that is not a number would let anything pass, or nothing."""
    for limits in ({"expenses": -1}, {"expenses": float("nan")}, {"two words": 1}):
        with pytest.raises(ValidationError):
            Person(id="p", email="p@example.com", limits=limits)


def test_person_outside_the_manager_chain_cannot_decide() -> None:
    """Such a person is refused, however high their limit."""
    with pytest.raises(NotAnApprover):
        says(asked(UP), "cy")


@pytest.mark.parametrize(("amount", "asked_next"), [(450, ()), (900, ("bo",))])
def test_approval_of_an_earlier_phase_counts_up_to_a_later_limit(
    amount: int, asked_next: tuple[str, ...]
) -> None:
    """A value entered in a phase without limits is compared with the limit of the later phase."""
    policy = Policy(
        name="p",
        levels=(
            Level(ask=("ada",), phase="team"),
            Level(ask=("requester.manager",), until=LIMIT, phase="money"),
        ),
    )
    call = make_call(amount=400)
    approval, _ = Approval.open(
        make_origin(user="riley"), call, hint="", template={"amount": 400}, now=NOON
    )
    choice = choose([policy], DEFAULT, PEOPLE, approval.facts, now=NOON)
    assert choice.start is not None
    approval, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)
    ada = PEOPLE.get("ada")
    assert ada is not None
    approval, _ = approval.approve(ada, PEOPLE, channel="cli", now=SOON, values={"amount": amount})
    went = pass_on(approval, PEOPLE, now=SOON)
    assert went is not None
    assert went[0].state is (State.PENDING if asked_next else State.APPROVED)
    assert not asked_next or went[0].ballot.awaited == asked_next


def routed_with_a_field(directory: Directory) -> Approval:
    """Return an approval for 50 whose approver may enter another amount."""
    approval, _ = Approval.open(
        make_origin(user="riley"),
        make_call(amount=50),
        hint="",
        template={"amount": 50},
        now=NOON,
    )
    choice = choose([UP], DEFAULT, directory, approval.facts, now=NOON)
    assert choice.start is not None
    return approval.ask(choice.terms, (), now=NOON, start=choice.start)[0]


def covered(approval: Approval, name: str, amount: float, directory: Directory) -> bool:
    """Return whether an approval with another amount ends the request."""
    who = directory.get(name)
    assert who is not None
    values = {"amount": amount}
    after, _ = approval.approve(who, directory, channel="cli", now=SOON, values=values)
    return after.state is State.APPROVED


def test_values_of_a_second_delegate_are_checked_against_every_limit() -> None:
    """Dee may approve 1,000, but is Bo's delegate through Ada and keeps to Ada's limit."""
    riley = person("riley", "bo")
    chain = person("bo", "cy", 5_000, away=away("ada")), person("ada", "bo", 500, away=away("dee"))
    at_once = company(riley, *chain)
    approval = routed_with_a_field(at_once)
    assert approval.ballot.own == ("dee",)
    assert covered(approval, "dee", 500, at_once)
    assert not covered(approval, "dee", 900, at_once)
    later = company(riley, chain[0])
    approval = routed_with_a_field(later)
    assert approval.ballot.own == ("ada",)
    approval, _ = stand_in(approval, at_once, now=SOON)
    assert covered(approval, "dee", 500, at_once)
    assert not covered(approval, "dee", 900, at_once)


def test_values_in_a_reassigned_seat_are_checked_against_the_givers_limit() -> None:
    """Cy may approve any amount, but in Ada's seat no more than Ada."""
    approval = routed_with_a_field(PEOPLE)
    ada, cy = PEOPLE.get("ada"), PEOPLE.get("cy")
    assert ada is not None
    assert cy is not None
    approval, _ = collaboration.reassign(
        approval, ada, PEOPLE, of=ada, to=cy, reason="mine is too low", now=SOON
    )
    assert covered(approval, "cy", 500, PEOPLE)
    assert not covered(approval, "cy", 900, PEOPLE)
