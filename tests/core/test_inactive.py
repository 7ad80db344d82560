"""Inactive people: they are not asked and cannot decide, but they keep their names."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, RILEY, ask, make_approval, make_origin
from signoff.channels.email.authentication.requirement import owner_of
from signoff.core.approvals.milestones import Milestone, recipients
from signoff.core.cards.card import card
from signoff.core.directory.absences import Presence, with_absences
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import Pick, Queue
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy, Terms
from signoff.core.routing.chains import climb
from signoff.core.routing.departures import stand_in, why_gone
from signoff.core.routing.resolve import find
from signoff.core.routing.vacancies import vacancies

FACTS: dict[str, JsonValue] = {"user": "riley@example.com", "args": {"amount": 500}}


def gone(person: Person) -> Person:
    """Return a person who has left."""
    return person.model_copy(update={"active": False})


def somebody(one: str, manager: str = "", *, active: bool = True, limit: float = 0) -> Person:
    """Return a person with a manager and a limit."""
    return Person(
        id=one,
        email=f"{one}@example.com",
        manager=manager,
        active=active,
        limits={"expenses": limit},
    )


def asked(directory: Directory, *ask: str) -> list[str]:
    """Return the ids of the people who are asked."""
    found = find(Level(ask=ask), directory, facts=FACTS, barred=(), now=NOON)
    return [one.person for one in found.seats]


def test_no_identifier_finds_an_inactive_person() -> None:
    """An id, an address, an alias, a Slack id or an account of a custom channel finds nobody."""
    left = Person(
        id="mara",
        name="Mara Lind",
        email="mara@example.com",
        aliases=("m@example.net",),
        slack="U1",
        addresses={"chat": "@mara"},
        active=False,
    )
    directory = Directory([left, CLEO])
    assert [one.id for one in directory] == ["cleo"]
    assert directory.get("mara") is None
    assert not any(map(directory.find, ("mara", "Mara@example.com", "m@example.net")))
    assert directory.by_slack("U1") is None
    assert directory.by_address("chat", "@mara") is None
    assert owner_of("mara@example.com", directory) is None
    assert directory.shown("m@example.net") == "Mara Lind"
    assert directory.limits("mara") == {}


def test_inactive_person_is_not_asked_in_any_role() -> None:
    """Neither by name, in a queue nor in a rotation; the notes give the reason."""
    queue = Queue(name="q", members=("mara", "cleo"), pick=Pick.ROUND_ROBIN)
    directory = Directory([gone(MARA), CLEO], queues=[queue])
    assert asked(directory, "mara") == []
    assert asked(directory, "queue:q") == ["cleo"]
    found = find(Level(ask=("queue:q",)), directory, facts=FACTS, barred=(), now=NOON)
    assert found.notes == ("Mara Lind (queue:q) is not active",)


def test_the_manager_above_is_asked() -> None:
    """The first of two managers has left, so both references mean the other managers."""
    riley = RILEY.model_copy(update={"manager": "bo"})
    boss = somebody("bo", "cy", active=False)
    directory = Directory([riley, boss, somebody("cy", "dee"), somebody("dee")])
    assert asked(directory, "requester.manager") == ["cy"]
    assert asked(directory, "requester.manager.manager") == ["dee"]
    top = Directory([riley, somebody("bo", active=False)])
    assert asked(top, "requester.manager") == []


def test_managers_who_have_left_and_name_each_other_end_the_search() -> None:
    """A circle of people who are not active has nobody above it, and is gone around once."""
    riley = RILEY.model_copy(update={"manager": "bo"})
    circle = [somebody("bo", "cy", active=False), somebody("cy", "bo", active=False)]
    directory = Directory([riley, *circle])
    assert asked(directory, "requester.manager") == []
    assert directory.manager_of(riley) is None


def test_a_chain_of_managers_has_no_stage_of_theirs() -> None:
    """Their limit would cover the amount; the next sufficient manager is asked."""
    riley = RILEY.model_copy(update={"manager": "bo"})
    people = [somebody("bo", "cy", active=False, limit=900), somebody("cy", limit=900)]
    until = "limit.expenses >= args.amount"
    terms = Terms(policy="p", levels=(Level(ask=("requester.manager",), until=until),))
    climbed = climb(terms, Directory([riley, *people]), FACTS, never=(), notes=[])
    assert climbed is not None
    assert [one.ask for one in climbed.ladder] == [("cy",)]


def test_manager_replaces_an_approver_who_becomes_inactive() -> None:
    """The manager above gets the seat, and the note names the inactive person."""
    riley = RILEY.model_copy(update={"manager": "bo"})
    people = [somebody("bo", "cy"), somebody("cy")]
    level = Level(ask=("requester.manager",))
    policy = Policy(name="p", levels=(level,))
    before = Directory([riley, *people])
    seats = find(level, before, facts=FACTS, barred=(), now=NOON).seats
    approval = ask(make_approval(), people[0])
    terms = policy.terms({})
    approval = approval.model_copy(update={"seats": seats, "terms": terms})
    after = Directory([riley, gone(people[0]), people[1]])
    moved, (note,) = stand_in(approval, after, now=NOON)
    assert moved.ballot.own == ("bo", "cy")
    assert moved.absent == ("bo",)
    assert note.why == "bo is not active any more; cy stands in"
    assert why_gone("bo", after, NOON) == "bo is not active any more"


def test_inactive_requester_keeps_their_request_and_cannot_approve_it() -> None:
    """They cannot approve it from another account; they get no messages, and cards name them."""
    twin = Person(id="r2", email="riley+new@example.com")
    directory = Directory([gone(RILEY), twin, CLEO])
    assert directory.may_be(twin, "r.voss@example.net")
    assert directory.same("riley", "R.Voss@example.net")
    approval = ask(make_approval(origin=make_origin(user="riley@example.com")), CLEO)
    assert card(approval, directory).requester == "Riley Voss"
    assert not recipients(approval, Milestone.OPENED, directory, domains=("example.com",))


def test_account_of_an_inactive_person_leads_to_the_active_entry() -> None:
    """The Slack account of a person who has left leads to the active entry."""
    old, new = (Person(id=one, email=f"{one}@example.com", slack="U1") for one in ("old", "new"))
    found = Directory([gone(old), new]).by_slack("U1")
    assert found is not None
    assert found.id == "new"


@pytest.mark.parametrize(
    ("ask", "seat", "why"),
    [
        ("mara", "mara", "Mara Lind is not active"),
        ("queue:q", "queue:q", "Mara Lind (queue:q) is not active"),
        (
            "requester.manager",
            "requester.manager",
            "Riley Voss has no manager (Mara Lind is not active)",
        ),
        ("cleo", "role operator", "Mara Lind is not active any more"),
    ],
)
def test_resolution_names_the_seats_vacated_by_inactive_people(
    ask: str, seat: str, why: str
) -> None:
    """The vacant seats of a person, a queue, a manager and a role are named."""
    mara = gone(MARA).model_copy(update={"roles": (Role.OPERATOR,)})
    riley = RILEY.model_copy(update={"manager": "mara"})
    cleo = CLEO.model_copy(update={"manager": "riley"})
    queue = Queue(name="q", members=("mara",))
    directory = Directory([mara, riley, cleo], queues=[queue])
    policies = [Policy(name="p", ask=(ask,))]
    found = vacancies(policies, Fallback(ask=("cleo",)), directory, now=NOON)
    assert {one.seat: one.why for one in found}[seat] == why


def test_absence_of_an_inactive_person_is_ignored() -> None:
    """An absence that a person set before they left is ignored, also for second steps."""
    directory = with_absences(Directory([gone(MARA), CLEO]), {"mara": Presence()})
    assert directory.get("mara") is None
    assert directory.proven().get("mara") is None
