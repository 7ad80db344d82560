"""Nobody decides their own request, however the front end writes their name."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON, RILEY, ask, make_approval, make_origin
from signoff.core.base.errors import DecisionRefused, NotAnApprover, OwnRequest
from signoff.core.directory.identity import folded, mailbox, may_be_same
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Fallback, Policy, Terms
from signoff.core.routing.resolve import find
from signoff.core.routing.selection import choose

MARA = Person(
    id="mara",
    name="Mara Lind",
    email="mara@example.com",
    aliases=("m.lind@example.net",),
    slack="T01AB/U0MARA",
    addresses={"mattermost": "mlind"},
)
CLEO = Person(id="cleo", name="Cleo Park", email="cleo@example.com")
TOM = Person(id="tom", name="Tom", email="tom@gmail.com")
DIRECTORY = Directory([MARA, CLEO, TOM, RILEY])

MARAS = [
    "mara",
    "MARA",
    "mara@example.com",
    "Mara@Example.COM",
    "mara+x@example.com",
    "mara+a+b@EXAMPLE.com",
    "m.lind+agent@example.net",
    "oidc|mara@example.com",
    "auth0|oidc|mara+2@example.com",
    "accounts.example:mara@example.com",
    "mailto:mara@example.com",
    "mailto:mara%40example.com",
    "EXAMPLE\\mara",
    "Mara Lind <mara@example.com>",
    "Mara Lind",
    "mara lind",
    "Lind, Mara",
    "mara.lind",
    "MARA_LIND",
    "MaraLind",
    "oidc|Mara Lind",
    "U0MARA",
    "u0mara",
    "T01AB/U0MARA",
    "slack:U0MARA",
    "<@U0MARA>",
    "slack_U0MARA",
    "Slack-U0MARA",
    "slack user U0MARA",
    "T01AB-U0MARA",
    "slack_T01AB_U0MARA",
    "oidc_mara@example.com",
    "google-oauth2-mara+1@example.com",
    "user.mara",
    "@mara",
    "mlind",
    "m\u200bara@example.com",
    "mara\u00ad@example.com",
    "\u2060mara\ufeff",
    "mara@example\u200d.com",
    "\uff4d\uff41\uff52\uff41",
    "\uff4d\uff41\uff52\uff41\uff20\uff45xample.com",
    "mara@example.com.",
    " mara\t@example.com ",
    "mar\u0061\u034f",
    "mara\ufe0f",
    "\U0001d426\U0001d41a\U0001d42b\U0001d41a",
    "cn=mara,ou=people",
    "Mara\u00a0\u3164Lind",
    "mara&#64;",
    "mara_example.com#EXT#@tenant.onmicrosoft.com",
    "oidc|m.lind_example.net#ext#@tenant.onmicrosoft.com",
    "mara_example.com%23EXT%23@tenant.onmicrosoft.com",
    "mara%2540example.com",
]
OTHERS = [
    "cleo",
    "riley",
    "mara@example.org",
    "mara@evil.example",
    "mara_example.org#EXT#@example.com",
    "mara.other@example.com",
    "maria",
    "amara",
    "lind",
    "mara lindgren",
    "finance-bot",
    "usermara@example.com",
    "thomas-mara",
    "slack_U0OTHER",
    "oidc_tom@example.com",
    "oidc|8472",
    "U0MARAX",
    "",
]


@pytest.mark.parametrize("user", MARAS)
def test_a_possible_requester_is_neither_asked_nor_decides(user: str) -> None:
    """Mara is not chosen as an approver, and is refused even with a seat."""
    facts: dict[str, JsonValue] = {"app": "a", "agent": "", "tool": "t", "args": {}, "user": user}
    policy = Policy(name="p", ask=("mara", "cleo"))
    choice = choose([policy], Fallback(), DIRECTORY, facts, now=NOON)
    assert [one.id for one in choice.people] == ["cleo"]

    approval = ask(make_approval(origin=make_origin(user=user)), MARA, CLEO)
    for decide in (approval.approve, approval.reject):
        with pytest.raises(OwnRequest):
            decide(MARA, DIRECTORY, channel="email", now=NOON)
    assert approval.never_decides(MARA, DIRECTORY)
    assert not approval.never_decides(CLEO, DIRECTORY)
    approval.approve(CLEO, DIRECTORY, channel="email", now=NOON)


@pytest.mark.parametrize("user", OTHERS)
def test_identity_of_another_person_bars_only_that_person(user: str) -> None:
    """An identity that belongs to another person of the directory bars nobody else."""
    assert not DIRECTORY.may_be(MARA, user)
    ask(make_approval(origin=make_origin(user=user or "x")), MARA).approve(
        MARA, DIRECTORY, channel="email", now=NOON
    )


@pytest.mark.parametrize("owner", MARAS)
def test_a_possible_owner_of_the_agent_does_not_decide_either(owner: str) -> None:
    """Separation of duties follows the same rule."""
    facts: dict[str, JsonValue] = {
        "app": "a",
        "agent": "",
        "tool": "t",
        "args": {},
        "user": "riley",
    }
    found = find(Level(ask=("mara", "cleo")), DIRECTORY, facts=facts, barred=(owner,), now=NOON)
    assert [one.person for one in found.seats] == ["cleo"]
    approval = ask(make_approval(), MARA).model_copy(update={"barred": (owner,)})
    with pytest.raises(OwnRequest):
        approval.approve(MARA, DIRECTORY, channel="email", now=NOON)


def test_id_that_names_another_person_bars_only_its_owner() -> None:
    """An id that is another person's name bars only the person with that id."""
    named = Person(id="dan", name="tom", email="dan@example.com")
    directory = Directory([TOM, named])
    assert directory.may_be(TOM, "tom")
    assert not directory.may_be(named, "tom")
    assert directory.may_be(named, "oidc|tom")


@pytest.mark.parametrize("user", ["t.o.m@gmail.com", "tom+x@googlemail.com", "T.om@GMail.com"])
def test_dots_do_not_count_in_gmail_addresses_only(user: str) -> None:
    """Dots do not count in Gmail addresses; elsewhere they do."""
    assert DIRECTORY.may_be(TOM, user)
    assert not DIRECTORY.may_be(MARA, "m.ara@example.com")


def test_possible_requester_gets_no_rights_of_the_requester() -> None:
    """A possible requester cannot see, withdraw or answer as the requester."""
    approval = ask(make_approval(origin=make_origin(user="cleo+x@example.com")), MARA)
    assert not approval.is_requester(CLEO, DIRECTORY)
    assert not approval.concerns(CLEO, DIRECTORY)
    with pytest.raises(DecisionRefused):
        approval.may_withdraw(CLEO, DIRECTORY)


TWINS = [
    {"email": "mara+2@example.com"},
    {"email": "other@example.com", "aliases": ("MARA@example.com",)},
    {"email": "other@example.com", "slack": "T01AB/U0MARA"},
    {"email": "other@example.com", "addresses": {"mattermost": "mlind"}},
    {"email": "\uff4dara@example.com"},
]


@pytest.mark.parametrize("twin", TWINS, ids=str)
def test_person_with_two_ids_votes_once(twin: dict[str, object]) -> None:
    """The person is asked once, and a second approval under the other id is refused."""
    again = Person(id="mara2", name="M. Lind", **twin)
    directory = Directory([MARA, again, CLEO])
    facts: dict[str, JsonValue] = {
        "app": "a",
        "agent": "",
        "tool": "t",
        "args": {},
        "user": "riley",
    }
    level = Level(ask=("mara", "mara2", "cleo"), quorum=2)
    found = find(level, directory, facts=facts, barred=("riley",), now=NOON)
    assert [one.person for one in found.seats] == ["mara", "cleo"]
    assert any("under another id" in note for note in found.notes)

    terms = Terms(policy="p", ask=("mara", "mara2", "cleo"), quorum=2)
    asked = ask(make_approval(), MARA, again, CLEO).model_copy(update={"terms": terms})
    once, _ = asked.approve(MARA, directory, channel="email", now=NOON)
    with pytest.raises(NotAnApprover, match="as mara"):
        once.approve(again, directory, channel="slack", now=NOON)
    assert once.ballot.yes == ("mara",)
    assert once.approve(CLEO, directory, channel="email", now=NOON)[0].decision is not None


def test_person_with_two_ids_cannot_approve_their_own_request() -> None:
    """Neither id may approve a request of the other."""
    again = Person(id="mara2", email="mara+2@example.com")
    directory = Directory([MARA, again])
    for user, person in (("mara", again), ("mara2", MARA), ("mara+2@example.com", MARA)):
        approval = ask(make_approval(origin=make_origin(user=user)), person)
        with pytest.raises(OwnRequest):
            approval.approve(person, directory, channel="email", now=NOON)


def test_directory_joins_ids_through_shared_addresses_in_any_order() -> None:
    """A mailbox, a Slack id and another channel link three entries, in any order."""
    people = [
        Person(id="one", email="a@example.com"),
        Person(id="three", email="c@example.com", addresses={"x": "1"}),
        Person(id="two", email="b@example.com", aliases=("a@example.com",), addresses={"x": "1"}),
        Person(id="four", email="d@example.com"),
    ]
    directory = Directory(people)
    assert directory.is_one("one", "three")
    assert not directory.is_one("one", "four")


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_text_can_be_compared(one: str, other: str) -> None:
    """Folding is stable, and the order of two names does not change the comparison."""
    assert folded(folded(one)) == folded(one)
    assert mailbox(mailbox(one)) == mailbox(one)
    assert may_be_same(one, other) == may_be_same(other, one)
    assert may_be_same(one, one) == bool(folded(one))


def test_the_earlier_id_of_a_requester_is_an_alias() -> None:
    """Somebody who asked under an id that has changed cannot decide it, if the id is an alias."""
    fresh = Person(id="nvoss", email="nora@example.com", aliases=("nora",))
    assert Directory([fresh]).may_be(fresh, "nora")
    assert Directory([fresh]).may_be(fresh, "NORA")
