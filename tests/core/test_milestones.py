"""Messages about the progress of an approval to people who do not decide it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from builders import NOON, make_approval, make_origin
from signoff.channels.words.phrases import status
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.approvals.milestones import Milestone, is_over, milestone_of, recipients
from signoff.core.directory.hours import Absence
from signoff.core.directory.notifications import NotifyOn
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.directory.schedules import Schedule
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, OnTimeout, Policy
from signoff.core.routing.escalation import advance, pass_on
from signoff.core.routing.resolve import informed
from signoff.core.routing.selection import choose

HOUR = timedelta(hours=1)
NAMES = ("mara", "tom", "ann", "olga", "riley")
ENDS = (Milestone.ENDED, Milestone.RAN, Milestone.FAILED)


def person(one: str, **more: Any) -> Person:
    """Return a person with an address."""
    return Person(id=one, name=one.title(), email=f"{one}@example.com", **more)


def everybody(**more: Any) -> Directory:
    """Return a directory of five people; Riley is the requester and has a manager."""
    people = [person(one) for one in NAMES[:-1]]
    return Directory([*people, person("riley", manager="mara")], **more)


def policy(**more: Any) -> Policy:
    """Return a policy with two levels, Mara's and then Tom's, that informs Ann."""
    levels = (Level(ask=("mara",), within="1h"), Level(ask=("tom",), within="1h"))
    return Policy(name="p", **({"levels": levels, "inform": ("ann",)} | more))


def routed(rules: Policy, directory: Directory, *, user: str = "riley") -> Approval:
    """Return an approval that a policy has routed, with the cards of its first level."""
    approval = make_approval(origin=make_origin(user=user))
    choice = choose([rules], Fallback(), directory, approval.facts, now=NOON)
    assert choice.start is not None
    cards = tuple(
        Asked(person=one.id, channel="email", address=one.email, shown=Shown.COMPLETE)
        for one in choice.people
    )
    return approval.ask(choice.terms, cards, now=NOON, start=choice.start)[0]


def told(approval: Approval, milestone: Milestone, directory: Directory) -> set[str]:
    """Return the ids of the people who get a message."""
    return {one.person for one in recipients(approval, milestone, directory)}


def approved(approval: Approval, by: Person, directory: Directory) -> Approval:
    """Return the approval after an approval by a person."""
    return approval.approve(by, directory, channel="email", now=NOON)[0]


def test_default_milestones_for_the_requester_are_decision_and_end() -> None:
    """By default the requester hears of the decision and the end, and of nothing earlier."""
    people = everybody()
    waiting = routed(policy(), people)
    assert told(waiting, Milestone.OPENED, people) == {"ann"}
    escalated, _ = advance(waiting, people, now=NOON + HOUR)
    assert milestone_of(waiting, escalated) is Milestone.ESCALATED
    assert told(escalated, Milestone.ESCALATED, people) == {"ann"}
    ended, _ = advance(escalated, people, now=NOON + 2 * HOUR)
    assert milestone_of(escalated, ended) is Milestone.ENDED
    assert told(ended, Milestone.ENDED, people) == {"ann", "riley"}


def test_milestones_of_a_person_override_the_policy() -> None:
    """Riley wants messages about waiting only; the policy says something else."""
    own = person("riley", notify_requester=(NotifyOn.WAITING,), notify_by=("slack",))
    people = Directory([person("mara"), person("tom"), own])
    rules = policy(notify_requester=("decided",), notify_by=("email",), inform=())
    waiting = routed(rules, people)
    (riley,) = recipients(waiting, Milestone.OPENED, people)
    assert (riley.person, riley.is_requester, riley.by) == ("riley", True, ("slack",))
    assert told(approved(waiting, people.get("mara") or own, people), Milestone.ENDED, people) == (
        set()
    )


def test_empty_milestone_list_sends_no_message() -> None:
    """An empty list of the person or of the policy sends the requester no message."""
    for own, rules in (((), ("decided",)), (None, ())):
        people = Directory([person("mara"), person("tom"), person("riley", notify_requester=own)])
        waiting = routed(policy(notify_requester=rules, inform=()), people)
        ended = approved(waiting, people.get("mara") or person("x"), people)
        assert not any(told(ended, one, people) for one in Milestone)


def test_approver_gets_no_second_message() -> None:
    """A person who is also asked, at this or an earlier level, gets no second message."""
    people = everybody()
    waiting = routed(policy(inform=("mara", "tom", "ann")), people)
    assert told(waiting, Milestone.OPENED, people) == {"tom", "ann"}
    escalated, _ = advance(waiting, people, now=NOON + HOUR)
    # Mara's card says that the request escalated, and Tom gets a card of his own.
    assert told(escalated, Milestone.ESCALATED, people) == {"ann"}


def test_approver_without_a_card_gets_the_informed_message() -> None:
    """Without a card, the person gets the same message as other informed people."""
    people = everybody()
    waiting = routed(policy(inform=("mara",)), people)
    (card,) = waiting.asked
    refused = waiting.model_copy(
        update={"asked": (card.model_copy(update={"problem": "no such user"}),)}
    )
    ended = approved(refused, people.get("mara") or person("x"), people)
    assert told(ended, Milestone.ENDED, people) == {"riley"}, "Mara has decided it"
    late, _ = refused.time_out(now=refused.deadline or NOON)
    assert told(late, Milestone.ENDED, people) == {"mara", "riley"}


def test_person_with_two_ids_gets_one_message() -> None:
    """One mailbox is one person, even if it is informed twice or asked under the other id."""
    twin = Person(id="ann2", email="ann+second@example.com")
    people = Directory([*everybody(), twin])
    waiting = routed(policy(inform=("ann", "ann2")), people)
    assert len(told(waiting, Milestone.OPENED, people)) == 1
    asked = routed(policy(levels=(Level(ask=("ann",)),), inform=("ann2",)), people)
    assert told(asked, Milestone.OPENED, people) == set()


def test_requester_who_is_also_informed_gets_one_message() -> None:
    """They get the requester's message, if the milestones of either role include it."""
    people = everybody()
    waiting = routed(policy(inform=("riley",)), people)
    (riley,) = recipients(waiting, Milestone.OPENED, people)
    assert riley.is_requester


def test_requester_gets_no_message_about_their_own_withdrawal() -> None:
    """The requester gets no message about their own withdrawal; informed people do."""
    people = everybody()
    ended, _ = routed(policy(), people).withdraw(by="riley", reason="", now=NOON)
    assert told(ended, Milestone.ENDED, people) == {"ann"}


@pytest.mark.parametrize("milestone", [Milestone.RAN, Milestone.FAILED])
def test_rejection_message_has_the_reason_and_no_end_follows(milestone: Milestone) -> None:
    """The message of a rejection has the reason, and no message about an end follows."""
    people = everybody()
    mara = people.get("mara") or person("x")
    waiting = routed(policy(), people)
    assert told(approved(waiting, mara, people), milestone, people) == {"riley"}
    rejected, _ = waiting.reject(mara, people, channel="email", now=NOON, reason="too much")
    assert told(rejected, milestone, people) == set()


def test_next_phase_sends_no_escalation_message() -> None:
    """Informed people get no message; the requester can ask for one with the next approver."""
    levels = (Level(ask=("mara",), phase="one"), Level(ask=("tom",), phase="two"))
    people = everybody()
    rules = policy(levels=levels, notify_requester=("waiting",))
    waiting = routed(rules, people)
    moved = pass_on(approved(waiting, people.get("mara") or person("x"), people), people, now=NOON)
    assert moved is not None
    assert milestone_of(waiting, moved[0]) is Milestone.PASSED
    assert told(moved[0], Milestone.PASSED, people) == {"riley"}
    words = status(moved[0], Milestone.PASSED, people, requests=True, reader="riley")
    assert words.headline == "reimburse now waits for Tom"
    assert "Approved so far by Mara." in words.text


def test_open_last_level_is_reported_as_overdue() -> None:
    """The end of the last level is reported although the request is not decided."""
    people = everybody()
    rules = policy(levels=(), ask=("mara",), within="1h", on_timeout=OnTimeout.STAY)
    waiting = routed(rules, people)
    overdue, _ = advance(waiting, people, now=NOON + HOUR)
    assert milestone_of(waiting, overdue) is Milestone.OVERDUE
    assert told(overdue, Milestone.OVERDUE, people) == {"ann"}


def test_call_without_approvers_sends_no_message() -> None:
    """Such a call is decided immediately and is in the audit only."""
    people = everybody()
    approval = make_approval()
    denied, _ = approval.refuse(reason="never", now=NOON)
    assert milestone_of(approval, denied) is None
    assert not any(told(denied, one, people) for one in Milestone)


STRANGERS = [
    ("kim@example.org", ("example.org",), True),
    ("kim@EXAMPLE.org", ("Example.ORG",), True),
    ("kim@example.org", (), False),
    ("kim@example.org", ("example.com",), False),
    ("kim@sub.example.org", ("example.org",), False),
    ("kim@evil@example.org", ("example.org",), False),
    ("kim", ("kim",), False),
    ("Kim <kim@example.org>", ("example.org>", "example.org"), False),
    ("kim@example.org\nbcc@x", ("example.org",), False),
    ("kim@exampl\u0435.org", ("exampl\u0435.org",), False),
]


@pytest.mark.parametrize(("user", "domains", "is_told"), STRANGERS)
def test_unlisted_requester_gets_mail_only_at_configured_domains(
    user: str, domains: tuple[str, ...], is_told: bool
) -> None:
    """Agents may name any requester, so only addresses at configured domains get mail."""
    people = everybody()
    waiting = routed(policy(inform=()), people, user=user)
    ended = approved(waiting, people.get("mara") or person("x"), people)
    found = recipients(ended, Milestone.ENDED, people, domains=domains)
    assert [one.person for one in found] == [user] * is_told
    assert not any(one.is_known for one in found)


def test_a_stranger_reads_no_values() -> None:
    """The tool's result and the agent's words are not sent to strangers."""
    people = everybody()
    waiting = routed(policy(), people, user="kim@example.org")
    ended = approved(waiting, people.get("mara") or person("x"), people)
    ended = ended.model_copy(update={"result": '"s3cret"', "handoff": Handoff.RESUMED})
    for milestone in ENDS:
        words = status(
            ended, milestone, people, requests=True, reader="riley@example.com", remarks=""
        )
        assert "s3cret" not in f"{words}"
        assert words.headline
    assert "s3cret" in status(ended, Milestone.RAN, people, requests=True, reader="riley").text


def test_a_timeout_is_not_the_readers() -> None:
    """A timeout has no decider; the message does not name the reader as one."""
    people = everybody()
    waiting = routed(policy(levels=(), ask=("mara",), within="1h"), people)
    ended, _ = advance(waiting, people, now=NOON + HOUR)
    words = status(ended, Milestone.ENDED, people, requests=True, reader="riley")
    assert words.headline == "The time to decide on reimburse is over"


# The people that `inform` means.


def test_informed_queue_includes_absent_members() -> None:
    """Rotations and absences are ignored; the requester's manager can be informed too."""
    away = (Absence(start=NOON.date(), end=NOON.date(), delegate="tom"),)
    people = Directory(
        [person("mara", away=away), person("tom"), person("ann"), person("riley", manager="ann")],
        queues=[Queue(name="audit", members=("mara", "tom"), pick=Pick.ROUND_ROBIN)],
        schedules=[Schedule(name="on-call", people=("tom",), start=datetime(2026, 1, 5))],  # noqa: DTZ001 -- local time of its zone
        groups={"S1": ("ann",)},
    )

    def found(*references: str) -> tuple[str, ...]:
        return informed(references, people, facts={"user": "riley"}, now=NOON)

    assert found("queue:audit") == ("mara", "tom")
    assert found("schedule:on-call") == ("tom",)
    assert found("slack-group:S1") == ("ann",)
    assert found("requester.manager", "ann") == ("ann",)
    assert found("queue:none", "schedule:none", "slack-group:S2", "ghost") == ()


@pytest.mark.parametrize("reference", ["asked.manager", "requester.managers"])
def test_relative_references_cannot_be_informed(reference: str) -> None:
    """These references mean other people at each level."""
    with pytest.raises(ValidationError, match="other people at each level"):
        policy(inform=(reference,))
    with pytest.raises(ValidationError, match="other people at each level"):
        Level(ask=("mara",), inform=(reference,))


def test_informed_people_can_read_and_not_vote() -> None:
    """They are concerned with the request, but their approval is refused."""
    people = everybody()
    waiting = routed(policy(), people)
    ann, olga = people.get("ann"), people.get("olga")
    assert ann is not None
    assert olga is not None
    assert waiting.concerns(ann, people)
    assert not waiting.concerns(olga, people)
    assert "ann" not in waiting.approvers
    with pytest.raises(Exception, match="is not asked"):
        waiting.approve(ann, people, channel="inbox", now=NOON)


def test_a_level_informs_from_its_beginning() -> None:
    """The people that the policy informs stay informed."""
    levels = (
        Level(ask=("mara",), within="1h"),
        Level(ask=("tom",), within="1h", inform=("olga",)),
    )
    people = everybody()
    waiting = routed(policy(levels=levels), people)
    assert waiting.informed == ("ann",)
    escalated, _ = advance(waiting, people, now=NOON + HOUR)
    assert escalated.informed == ("ann", "olga")
    assert told(escalated, Milestone.ESCALATED, people) == {"ann", "olga"}


def test_default_informs_the_people_of_the_policy() -> None:
    """If nobody of the policy can be asked, its informed people still get the messages."""
    people = everybody()
    rules = policy(levels=(), ask=("riley",), notify_requester=("waiting",))
    choice = choose(
        [rules], Fallback(ask=("tom",), inform=("olga",)), people, make_approval().facts, now=NOON
    )
    assert choice.start is not None
    assert choice.start.informed == ("ann", "olga")
    assert choice.terms.notify_requester == (NotifyOn.WAITING,)


# Random policies.


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    """Draw a policy of one to three levels that informs people."""
    ids = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3, unique=True).map(tuple)
    some = st.lists(st.sampled_from(NAMES), max_size=4, unique=True).map(tuple)
    topics = st.lists(st.sampled_from(list(NotifyOn)), unique=True).map(tuple)
    levels = tuple(
        Level(ask=draw(ids), within="1h", inform=draw(some), phase=draw(st.just("")))
        for _ in range(draw(st.integers(1, 3)))
    )
    return policy(levels=levels, inform=draw(some), notify_requester=draw(topics))


@given(rules=policies(), steps=st.lists(st.sampled_from(["wait", "yes", "no"]), max_size=4))
def test_each_person_gets_one_message_per_milestone(rules: Policy, steps: list[str]) -> None:
    """Each person gets one message per milestone, and approvers read it on their card."""
    people = everybody()
    approval = make_approval(origin=make_origin(user="riley"))
    choice = choose([rules], Fallback(), people, approval.facts, now=NOON)
    if choice.start is None:
        return
    before, now = approval, NOON
    here = routed(rules, people)
    seen = set[tuple[str, Milestone, str]]()
    for step in ["begin", *steps]:
        milestone = milestone_of(before, here)
        if milestone is not None:
            found = recipients(here, milestone, people)
            names = [one.person for one in found]
            assert len(names) == len(set(names))
            has_card = {one.person for one in here.asked if one.level_key == here.level_key}
            assert has_card.isdisjoint(names)
            wanted = {"riley"} | set(here.informed)
            assert set(names) <= wanted
            level_key = here.level_key if here.state is State.PENDING else ""
            fresh = {(one, milestone, level_key) for one in names}
            assert not fresh & seen
            seen |= fresh
            assert not is_over(here, milestone, level_key)
        if here.state is not State.PENDING:
            break
        before, now = here, now + HOUR
        if step in {"wait", "begin"}:
            here, _ = advance(here, people, now=now)
            fresh_cards = tuple(
                Asked(person=one, channel="email", address="", level_key=here.level_key)
                for one in here.approvers
            )
            if here.state is State.PENDING and fresh_cards and here.level_key != before.level_key:
                here, _ = here.asked_too(fresh_cards, now=now)
        else:
            by = people.get(min(here.approvers))
            assert by is not None
            move = here.approve if step == "yes" else here.reject
            here, _ = move(by, people, channel="inbox", now=now - HOUR)


@given(milestone=st.sampled_from(list(Milestone)), requests=st.booleans(), known=st.booleans())
def test_milestone_messages_contain_no_deciding_word(
    milestone: Milestone, requests: bool, known: bool
) -> None:
    """No word of these messages would decide if somebody replied with it."""
    people = everybody()
    waiting = routed(policy(), people)
    words = status(
        waiting, milestone, people, requests=requests, reader="riley" if known else "x@example.com"
    )
    assert words.example == ""
    assert words.headline
    assert "reply" not in words.text.lower()
