"""The places of a level under absences, returns, handovers and answers, in any order."""

from __future__ import annotations

from datetime import timedelta
from typing import Literal, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, make_approval, present
from signoff.core.approvals import collaboration
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.collaboration import Operator
from signoff.core.approvals.voting import places_of
from signoff.core.base.errors import ApprovalError
from signoff.core.directory.absences import Presence, with_absences
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.departures import stand_in
from signoff.core.routing.selection import choose

NAMES = ("ada", "bo", "cy", "dee", "eve", "riley", "owner")
"""Riley is the requester, and the owner owns the agent."""
OFFICE = Directory(
    (
        Person(id=one, email=f"{one}@example.com", manager="ada" if one == "riley" else "")
        for one in NAMES
    ),
    queues=[
        Queue(name="turns", members=("bo", "cy", "dee"), pick=Pick.ROUND_ROBIN),
        Queue(name="all", members=("bo", "cy")),
    ],
)
REFERENCES = ("ada", "bo", "cy", "queue:turns", "queue:all", "requester.manager")


class Deed(NamedTuple):
    """What a person does: goes away, returns, gives their place to another person, approves."""

    what: Literal["away", "back", "give", "approve"]
    who: str
    other: str


deeds = st.builds(
    Deed,
    what=st.sampled_from(["away", "back", "give", "approve"]),
    who=st.sampled_from(NAMES),
    other=st.sampled_from(NAMES),
)


def done(deed: Deed, approval: Approval, directory: Directory, minute: int) -> Approval:
    """Return the approval after a handover by an operator or a yes; refused ones change nothing."""
    who, now = present(directory.get(deed.who)), NOON + timedelta(minutes=minute)
    try:
        if deed.what == "give":
            to, boss = present(directory.get(deed.other)), Operator(name="boss")
            return collaboration.reassign(
                approval, boss, directory, of=who, to=to, reason="busy", now=now
            )[0]
        if deed.what == "approve":
            return approval.approve(who, directory, channel="cli", now=now)[0]
    except ApprovalError:
        pass
    return approval


@given(
    ask=st.lists(st.sampled_from(REFERENCES), min_size=1, max_size=3, unique=True),
    deeds=st.lists(deeds, max_size=12),
)
def test_a_level_never_has_more_places_and_each_takes_a_person(
    ask: list[str], deeds: list[Deed]
) -> None:
    """No order of events lets one person fill two places, or seats who must not decide."""
    approval, day = make_approval(), NOON.date()
    policy = Policy(name="p", ask=tuple(ask), quorum="all", veto=False)
    choice = choose([policy], Fallback(), OFFICE, approval.facts, now=NOON, barred=("owner",))
    start = present(choice.start)
    approval, _ = approval.ask(choice.terms, (), now=NOON, start=start, barred=("owner",))
    places, absences = places_of(start.seats), dict[str, Presence]()
    for minute, deed in enumerate(deeds):
        if deed.what == "away":
            absence = Absence(start=day, end=day, delegate=deed.other)
            absences[deed.who] = absences.get(deed.who, Presence()).leave(absence)
        elif deed.what == "back":
            absences.pop(deed.who, None)
        directory = with_absences(OFFICE, absences)
        approval = done(deed, approval, directory, minute)
        if approval.state is not State.PENDING:
            assert len(approval.decided_by) >= places
            break
        approval, _ = stand_in(approval, directory, now=NOON + timedelta(minutes=minute))
        assert places_of(approval.seats_here) <= places
        assert not {*approval.ballot.own} & {"riley", "owner"}
