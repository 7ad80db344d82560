"""If fewer people can be asked, the quorum does not shrink."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, NOON, RILEY, make_approval
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Earlier, Group, Level, Quorum
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.departures import stand_in
from signoff.core.routing.escalation import advance, pass_on
from signoff.core.routing.selection import choose

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
DIRECTORY = Directory([MARA, CLEO, RILEY, DAN])
DEFAULT = Fallback(ask=("dan", "cleo"))


def routed(policy: Policy, default: Fallback = DEFAULT) -> tuple[Approval, tuple[str, ...]]:
    """Return an approval at its start under a policy, and the notes."""
    approval = make_approval()
    choice = choose((policy,), default, DIRECTORY, approval.facts, now=NOON)
    after, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)
    return after, choice.notes


def yes(approval: Approval, person: Person) -> Approval:
    """Return the approval after one more approval."""
    now = NOON + timedelta(minutes=1)
    return approval.approve(person, DIRECTORY, channel="email", now=now)[0]


def test_quorum_of_two_does_not_drop_to_one() -> None:
    """The requester cannot approve, so one approval waits for the second until the deadline."""
    policy = Policy(name="both", ask=("mara", "riley"), quorum=2)

    approval, notes = routed(policy)
    after = yes(approval, MARA)

    assert "2 of them must approve, and only 1 can be asked" in notes
    assert choose((policy,), DEFAULT, DIRECTORY, make_approval().facts, now=NOON).stranded
    assert after.state is State.PENDING
    late = NOON + timedelta(days=2)
    assert after.time_out(now=late)[0].state is State.TIMED_OUT


@pytest.mark.parametrize("groups", [False, True])
def test_two_people_who_share_a_place_are_not_two_of_a_quorum(*, groups: bool) -> None:
    """Cleo stands in for Bo, who is asked under another id as well, so only one answer can come."""
    away = Absence(start=NOON.date(), end=NOON.date(), delegate="cleo")
    bo = Person(id="bo", email="bo@example.com", slack="U0BO", away=(away,))
    twin = Person(id="bo.external", email="bo@partner.example", slack="U0BO")
    folk = Directory([bo, twin, CLEO, RILEY, DAN])
    group = Group(ask=("bo", "bo.external"), quorum=2)
    first = Level(all_of=(group,)) if groups else Level(ask=group.ask, quorum=2)
    policy = Policy(name="both", levels=(first,), on_timeout="stay")

    choice = choose((policy,), DEFAULT, folk, make_approval().facts, now=NOON)

    assert any("must approve, and only 1 can be asked" in one for one in choice.notes)
    assert choice.stranded


@pytest.mark.parametrize("phase", ["", "second"])
def test_impossible_quorum_of_a_later_level_raises_an_alarm(phase: str) -> None:
    """Escalation and the next phase raise an alarm, and still ask the level."""
    first = Level(ask=("cleo",), phase="first" if phase else "", within="1h")
    both = Level(ask=("mara", "riley"), quorum=2, phase=phase)
    approval, _ = routed(Policy(name="both", levels=(first, both)))
    if phase:
        went = pass_on(yes(approval, CLEO), DIRECTORY, now=NOON + timedelta(minutes=1))
    else:
        went = advance(approval, DIRECTORY, now=NOON + timedelta(hours=1))

    assert went is not None
    after, events = went
    assert after.ballot.awaited == ("mara",)
    (alarm,) = [one for one in events if one.what is What.UNROUTABLE]
    assert alarm.why == "2 of them must approve, and only 1 can be asked"


def test_level_at_which_everybody_has_approved_already_raises_an_alarm() -> None:
    """Mara's approval does not decide alone, and nobody else is asked at the next level."""
    first = Level(ask=("mara", "cleo"), quorum=2, within="1h")
    again = Level(ask=("mara",), earlier=Earlier.STAY, within="1h")
    approval, _ = routed(Policy(name="both", levels=(first, again)))
    approval, events = advance(yes(approval, MARA), DIRECTORY, now=NOON + timedelta(hours=1))
    assert (approval.state, approval.level) == (State.PENDING, 1)
    assert [one.what for one in events] == [What.ESCALATED, What.UNROUTABLE]
    later = NOON + timedelta(minutes=90)
    decided, _ = approval.approve(MARA, DIRECTORY, channel="email", now=later)
    assert decided.state is State.APPROVED


@pytest.mark.parametrize("veto", [True, False])
def test_request_with_an_impossible_quorum_can_be_rejected(veto: bool) -> None:
    """One rejection ends a request that approvals cannot end."""
    approval, _ = routed(Policy(name="both", ask=("mara", "riley"), quorum=2, veto=veto))

    now = NOON + timedelta(minutes=1)
    after, _ = approval.reject(MARA, DIRECTORY, channel="email", now=now)

    assert after.state is State.REJECTED


@pytest.mark.parametrize(
    ("levels", "count"),
    [
        ((Level(ask=("nobody",), quorum=2),), 2),
        ((Level(ask=("nobody",), quorum=2), Level(ask=("riley",), quorum=3)), 2),
        ((Level(ask=("nobody",), quorum=2), Level(ask=("riley",))), 1),
        ((Level(ask=("nobody",), quorum="all"),), 1),
    ],
)
def test_default_needs_the_quorum_of_the_easiest_level(
    levels: tuple[Level, ...], count: int
) -> None:
    """In place of a policy without people, the default needs the quorum of its easiest level."""
    approval, _ = routed(Policy(name="gone", levels=levels))

    after = yes(approval, DAN)
    assert after.state is (State.APPROVED if count == 1 else State.PENDING)
    if count == 2:
        assert yes(after, CLEO).state is State.APPROVED


def test_nor_where_the_condition_cannot_be_evaluated() -> None:
    """A badly typed argument does not lead to an easier quorum."""
    approval, _ = routed(Policy(name="odd", when="args.amount > 'x'", ask=("mara",), quorum=2))

    assert yes(approval, DAN).state is State.PENDING


def test_default_keeps_the_quorum_when_mail_bounces() -> None:
    """If the people cannot be reached, the default needs as many approvals."""
    policy = Policy(name="both", ask=("mara", "cleo"), quorum=2)
    approval, _ = routed(policy)
    choice = choose((), Fallback(ask=("dan",)), DIRECTORY, approval.facts, now=NOON)

    after, _ = approval.ask(choice.terms, (), now=NOON, start=choice.start)

    assert yes(after, DAN).state is State.PENDING
    assert yes(yes(after, DAN), MARA).state is State.APPROVED


@pytest.mark.parametrize("quorum", [1, "all", "majority", "60%"])
def test_group_of_which_nobody_can_be_asked_raises_an_alarm(quorum: Quorum) -> None:
    """The requester alone is in the second group, so the level cannot approve."""
    groups = (Group(ask=("mara",)), Group(ask=("riley",), quorum=quorum))
    policy = Policy(name="groups", all_of=groups)
    choice = choose((policy,), DEFAULT, DIRECTORY, make_approval().facts, now=NOON)
    assert choice.stranded
    assert any("of riley must approve" in one for one in choice.notes)


def test_default_that_cannot_approve_raises_an_alarm() -> None:
    """The default needs both, by its own quorum or by that of a policy, and one asks for this."""
    facts = make_approval().facts
    both = Fallback(ask=("mara", "riley"), quorum=2)
    assert choose((), both, DIRECTORY, facts, now=NOON).stranded
    one = Fallback(ask=("mara", "riley"))
    assert not choose((), one, DIRECTORY, facts, now=NOON).stranded
    unknown = Policy(name="two", when="args.purpose > 1", ask=("mara", "cleo"), quorum=2)
    assert choose((unknown,), one, DIRECTORY, facts, now=NOON).stranded


@pytest.mark.parametrize("phase", ["", "second"])
def test_earlier_approvers_who_stay_help_only_levels_of_their_phase(phase: str) -> None:
    """Without enough earlier people, a level with `earlier = "stay"` raises an alarm."""
    stay = Level(ask=("mara", "riley"), quorum=2, phase=phase, earlier=Earlier.STAY)
    alone = choose(
        (Policy(name="p", levels=(stay,)),), DEFAULT, DIRECTORY, make_approval().facts, now=NOON
    )
    assert alone.stranded

    first = Level(ask=("cleo",), phase="first" if phase else "", within="1h")
    approval, _ = routed(Policy(name="both", levels=(first, stay)))
    if phase:
        went = pass_on(yes(approval, CLEO), DIRECTORY, now=NOON + timedelta(minutes=1))
    else:
        went = advance(approval, DIRECTORY, now=NOON + timedelta(hours=1))
    assert went is not None
    alarms = [one for one in went[1] if one.what is What.UNROUTABLE]
    assert len(alarms) == (1 if phase else 0)

    three = stay.model_copy(update={"quorum": 3})
    approval, _ = routed(Policy(name="both", levels=(first, three)))
    after, events = advance(approval, DIRECTORY, now=NOON + timedelta(hours=1))
    if not phase:
        assert after.approvers == {"mara", "cleo"}
        (why,) = (one.why for one in events if one.what is What.UNROUTABLE)
        assert why == "3 must approve, and too few can be asked"


@pytest.mark.parametrize("quorum", [2, "all", "majority"])
@pytest.mark.parametrize("earlier", [Earlier.LEAVE, Earlier.STAY])
def test_people_who_shared_a_place_count_separately_at_a_later_level(
    quorum: Quorum, earlier: Earlier
) -> None:
    """Cleo and Dan stood in for Mara at the first level; the next one asks each for themselves."""
    first = Level(ask=("mara",), within="1h")
    both = Level(ask=("cleo", "dan"), quorum=quorum, earlier=earlier)
    approval, _ = routed(Policy(name="both", levels=(first, both)))
    days = {"start": NOON.date(), "end": NOON.date()}
    away = [
        MARA.model_copy(update={"away": (Absence(**days, delegate="cleo"),)}),
        CLEO.model_copy(update={"away": (Absence(**days, delegate="dan"),)}),
    ]
    for gone in (1, 2):
        now = NOON + timedelta(minutes=gone)
        approval, _ = stand_in(approval, DIRECTORY.changed(away[:gone]), now=now)
    assert approval.approvers == {"mara", "cleo", "dan"}

    later, _ = advance(approval, DIRECTORY, now=NOON + timedelta(hours=1))
    assert later.ballot.need == 2
    assert later.ballot.can_reach(["cleo", "dan"])
    now = NOON + timedelta(hours=2)
    once, _ = later.approve(CLEO, DIRECTORY, channel="email", now=now)
    assert once.state is State.PENDING
    assert "dan" in once.approvers
    twice, _ = once.approve(DAN, DIRECTORY, channel="email", now=now)
    assert twice.state is State.APPROVED
