"""Levels until their end: random policies, people and answers, on a virtual clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, make_approval, make_origin, present
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import ApprovalError
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Earlier, Level, Order, Verdict
from signoff.core.policies.policy import Fallback, OnTimeout, Policy
from signoff.core.routing.escalation import advance, pass_on
from signoff.core.routing.resolve import find
from signoff.core.routing.selection import choose

NAMES = ("ada", "bo", "cy", "dee", "eli")
PEOPLE = st.builds(
    lambda managers, left: Directory(
        Person(
            id=one,
            email=f"{one}@example.com",
            aliases=(f"{one}@old.example",),
            manager=boss,
            active=one != left,
        )
        for one, boss in zip(NAMES, managers, strict=True)
    ),
    st.lists(st.sampled_from(("", *NAMES)), min_size=5, max_size=5),
    st.sampled_from(("", "", *NAMES)),
)
LEVELS = st.builds(
    Level,
    ask=st.lists(
        st.sampled_from((*NAMES, "requester.manager", "ghost")), min_size=1, max_size=4
    ).map(tuple),
    within=st.integers(10, 60).map(lambda minutes: f"{minutes}m"),
    remind=st.lists(st.integers(1, 70).map(lambda minutes: f"{minutes}m"), max_size=3).map(tuple),
    quorum=st.sampled_from((1, 2, 3, "all", "majority", "40%")),
    order=st.sampled_from(Order),
    veto=st.booleans(),
    earlier=st.sampled_from(Earlier),
)


def phased(levels: list[Level], phases: list[int]) -> tuple[Level, ...]:
    """Return levels in up to this many phases; the levels of a phase are adjacent."""
    named = zip(levels, sorted(phases), strict=False)
    return tuple(level.model_copy(update={"phase": f"s{phase}"}) for level, phase in named)


def silence(policy: Policy) -> Policy:
    """Return the policy; with phases, its timeout rejects instead of approving."""
    if len({one.phase for one in policy.levels}) == 1:
        return policy
    return policy.model_copy(update={"on_timeout": OnTimeout.REJECT})


POLICIES = st.builds(
    # A policy with phases refuses approval by silence, so it is built with one level first.
    lambda levels, **rules: silence(
        Policy(name="p", levels=levels[:1], **rules).model_copy(update={"levels": levels})
    ),
    levels=st.builds(
        phased,
        st.lists(LEVELS, min_size=1, max_size=4),
        st.just([0] * 4) | st.lists(st.integers(0, 2), min_size=4, max_size=4),
    ),
    repeat=st.integers(0, 2),
    on_timeout=st.sampled_from(OnTimeout),
    ceiling=st.sampled_from(("", "args.amount <= 200", "args.amount <= 5000", "args.nope < 1")),
)
REQUESTERS = st.sampled_from((*NAMES, "ada@example.com", "BO@old.example", "stranger"))
EVENTS = st.lists(
    st.tuples(st.sampled_from((*NAMES, "clock")), st.sampled_from(Verdict), st.integers(0, 40)),
    max_size=14,
)


@dataclass
class Story:
    """An approval that goes through its levels; each step checks the rules."""

    approval: Approval
    directory: Directory
    never: tuple[str, ...]
    steps: int = 0
    round_trip: list[Approval] = field(default_factory=list)

    def become(self, after: Approval) -> None:
        """Take the next value after checking the rules."""
        before, self.approval = self.approval, after
        self.steps += 1
        text = after.model_dump_json(exclude_defaults=True, exclude={"version"})
        assert Approval.model_validate_json(text) == after
        assert after.terms is not None
        phase = after.terms.phase_of
        voters = [(phase(vote.level), vote.by) for vote in after.votes]
        assert len(set(voters)) == len(voters)
        for one in (*(by for _, by in voters), *after.decided_by):
            assert not any(self.directory.same(one, other) for other in self.never)
        if before.state is not State.PENDING:
            assert after.decision == before.decision
        elif after.state is State.APPROVED and after.decision is not None:
            if after.decision.by:
                assert len({*before.ballot.yes, after.decision.by}) >= before.ballot.need
                given_ = {phase(vote.level): vote.by for vote in after.given}
                assert [*given_] == [*range(phase(after.level))]
                assert phase(after.level) == len(after.terms.phases) - 1
                assert {*after.decided_by} <= {
                    *before.ballot.own,
                    *before.ballot.stay,
                    *(vote.by for vote in after.given),
                }
            else:
                assert after.terms.under_ceiling
                assert len(after.terms.phases) == 1
                assert after.terms.on_timeout is OnTimeout.APPROVE
                assert not before.ballot.no

    def tick(self, now: datetime) -> None:
        """Do the due work, and check that no level with people is skipped."""
        before = self.approval
        after, events = advance(before, self.directory, now=now)
        if not events:
            assert after == before
            return
        self.become(after)
        passed = self._passed(before, after)
        never = (before.origin.user, *before.barred)
        for index in passed:
            assert before.terms is not None
            found = find(
                before.terms.ladder[index],
                self.directory,
                facts=before.facts,
                barred=never,
                now=now,
            )
            wanted = before.terms.ladder[index].quorum
            few = isinstance(wanted, int) and len({one.person for one in found.seats}) < wanted
            assert few or not found.seats

    @staticmethod
    def _passed(before: Approval, after: Approval) -> list[int]:
        assert before.terms is not None
        reminded = after.level_key == before.level_key and after.deadline == before.deadline
        if reminded and after.state is State.PENDING:
            return []
        following = list(before.terms.after(before.level, before.round))
        if after.state is not State.PENDING or after.level_key == before.level_key:
            return [index for index, _ in following]
        return [index for index, _ in following[: following.index((after.level, after.round))]]


@given(PEOPLE, POLICIES, REQUESTERS, st.sampled_from(("", "cy", "dee@example.com")), EVENTS)
def test_over_any_policy_and_any_answers(
    directory: Directory,
    policy: Policy,
    requester: str,
    owner: str,
    events: list[tuple[str, Verdict, int]],
) -> None:
    """It ends or stays open as the policy says; each decider was allowed to, and decides once."""
    opened = make_approval(origin=make_origin(user=requester))
    barred = (owner,) if owner else ()
    choice = choose([policy], Fallback(), directory, opened.facts, now=NOON, barred=barred)
    if choice.start is None:
        assert choice.stranded
        return
    approval, _ = opened.ask(choice.terms, (), now=NOON, start=choice.start, barred=barred)
    story, now = Story(approval, directory, (requester, *barred)), NOON
    for who, verdict, minutes in events:
        now += timedelta(minutes=minutes)
        story.tick(now)
        if who == "clock":
            continue
        person, here = directory.get(who), story.approval
        if person is None:
            assert who not in here.ballot.own
            continue
        say = here.approve if verdict is Verdict.APPROVE else here.reject
        try:
            after, _ = say(person, directory, channel="email", now=now)
        except ApprovalError:
            continue
        assert person.id in {*here.ballot.own, *here.ballot.stay}
        story.become(after)
        went = pass_on(after, directory, now=now)
        if went is not None and went[1]:
            assert after.ballot.reached
            story.become(went[0])
    while (due := story.approval.next_due) is not None and story.approval.state is State.PENDING:
        now = max(now, due)
        story.tick(now)
        assert story.steps < 1_000
    if story.approval.state is State.PENDING:
        assert policy.on_timeout is OnTimeout.STAY


VOTES = st.lists(st.sampled_from(Verdict), min_size=1, max_size=5)


@given(
    VOTES, st.sampled_from((1, 2, 3, "all", "majority")), st.booleans(), st.randoms(), st.booleans()
)
def test_the_order_of_answers_does_not_matter(
    votes: list[Verdict], quorum: int | str, veto: bool, shuffle: Random, twice: bool
) -> None:
    """The same answers in another order lead to the same end.

    With a veto and a quorum of one, the first answer decides, so all votes are equal then.
    """
    if veto and quorum != "all":
        votes = [votes[0]] * len(votes)
    names = NAMES[: len(votes)]
    directory = Directory(Person(id=one, email=f"{one}@example.com") for one in names)
    policy = Policy(name="p", levels=(Level(ask=names, quorum=quorum, veto=veto),))
    said = list(zip(names, votes, strict=True))
    ends = set()
    for _ in range(3):
        opened = make_approval(origin=make_origin(user="stranger"))
        choice = choose([policy], Fallback(), directory, opened.facts, now=NOON)
        approval, _events = opened.ask(choice.terms, (), now=NOON, start=choice.start)
        for who, verdict in said:
            for _again in range(1 + twice):
                if approval.state is not State.PENDING:
                    break
                person = directory.get(who)
                say = approval.approve if verdict is Verdict.APPROVE else approval.reject
                approval, _events = say(present(person), directory, channel="email", now=NOON)
        ends.add(approval.state)
        shuffle.shuffle(said)
    assert len(ends) == 1
