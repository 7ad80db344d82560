"""The default that is asked instead of a policy decides no more easily than the policy."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import NOON, RILEY, make_approval, make_call, make_origin
from signoff.core.approvals.approval import Approval, Asked, Shown, State
from signoff.core.base.errors import ApprovalError
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Directory, Person
from signoff.core.grants.grant import Grant
from signoff.core.policies.policy import (
    Edits,
    EmailProof,
    Fallback,
    GrantRules,
    InDoubt,
    OnTimeout,
    Policy,
    Risk,
    Terms,
)
from signoff.core.routing.selection import Choice, choose, choose_default

HOUR = timedelta(hours=1)
AWAY = (Absence(start=date(2026, 1, 1), end=date(2026, 12, 31)),)
ADA = Person(id="ada", email="ada@example.com", away=AWAY)
BO = Person(id="bo", email="bo@example.com", away=AWAY)
EVE = Person(id="eve", email="eve@example.com")
CY = Person(id="cy", email="cy@example.com")
DIRECTORY = Directory([ADA, BO, CY, EVE, RILEY])
GRANTS = GrantRules(who=("eve",), vary=("amount",))
LENIENT = Fallback(
    ask=("eve",),
    within=HOUR,
    on_timeout=OnTimeout.APPROVE,
    ceiling="true",
    grants=GRANTS,
    break_glass=("cy",),
    email=EmailProof.TOKEN,
    edits=Edits.APPROVE,
    in_doubt=InDoubt.RETRY,
    valid_for=timedelta(days=7),
)


def policy(**parts: Any) -> Policy:
    """Return a policy for large amounts, whose approvers are away."""
    return Policy.model_validate(
        {"name": "large", "when": "args.amount > 1000", "ask": ("ada", "bo"), **parts}
    )


def call(amount: object = 5000, confirmation: str = "adk-1") -> Approval:
    """Return an approval before anybody is asked about it."""
    made = make_call().model_copy(update={"args": {"amount": amount}})
    return make_approval(origin=make_origin(confirmation=confirmation), call=made)


def routed(approval: Approval, *policies: Policy) -> tuple[Approval, Choice]:
    """Return an approval after the policies or the default have chosen whom to ask."""
    choice = choose(policies, LENIENT, DIRECTORY, approval.facts, now=NOON)
    return asked(approval, choice), choice


def asked(approval: Approval, choice: Choice) -> Approval:
    """Return an approval after the people of a choice were asked."""
    cards = tuple(
        Asked(person=one.id, channel="email", address=one.email, shown=Shown.COMPLETE)
        for one in choice.people
    )
    return approval.ask(choice.terms, cards, now=NOON, start=choice.start)[0]


def instead(how: str, strict: Policy) -> Approval:
    """Return an approval about which the default is asked instead of a policy."""
    if how == "nobody left":
        return routed(call(), strict)[0]
    if how == "not evaluated":
        return routed(call("5000"), strict)[0]
    present = Directory([ADA.model_copy(update={"away": ()}), BO, CY, EVE, RILEY])
    first = choose((strict,), LENIENT, present, call().facts, now=NOON)
    approval = asked(call(), first)
    later = choose_default(approval, LENIENT, present, now=NOON, why="no card arrived")
    return asked(approval, later)


WAYS = pytest.mark.parametrize("how", ["nobody left", "not evaluated", "not reached"])


@pytest.mark.parametrize("quorum", [1, 2])
def test_grant_under_the_default_does_not_decide_calls_of_a_policy(quorum: int) -> None:
    """Eve's grant covers calls of the default, and the policy names no grants."""
    first, _ = routed(call(50, "adk-0"), policy())
    approved = first.approve(EVE, DIRECTORY, channel="inbox", now=NOON)[0]
    grant, _ = Grant.give(approved, by="eve", channel="inbox", now=NOON, span=HOUR)
    people = ["eve"]

    _, small = routed(call(60), policy(quorum=quorum))
    _, large = routed(call(), policy(quorum=quorum))

    assert not grant.why_not(call(60), small.terms, people, DIRECTORY, now=NOON)
    assert [one.id for one in large.people] == people
    assert grant.why_not(call(), large.terms, people, DIRECTORY, now=NOON)


def test_one_of_two_needed_approvals_gives_no_grant() -> None:
    """If the default needs two approvals, neither alone would have decided the call."""
    terms = Terms(policy="default", ask=("cy", "eve"), at_least=2, grants=GRANTS)
    approval = asked(call(), Choice(terms=terms, start=None, people=(CY, EVE)))
    for person in (CY, EVE):
        approval = approval.approve(person, DIRECTORY, channel="inbox", now=NOON)[0]

    assert approval.state is State.APPROVED
    with pytest.raises(ApprovalError, match="more than one approval"):
        Grant.give(approval, by="eve", channel="inbox", now=NOON, span=HOUR)


@WAYS
def test_silence_does_not_approve_a_call_of_a_policy_that_rejects(how: str) -> None:
    """The default would approve its own calls at the deadline."""
    late = NOON + 2 * HOUR
    own = routed(call(50), policy())[0]
    assert own.time_out(now=late)[0].state is State.APPROVED
    assert instead(how, policy()).time_out(now=late)[0].state is State.TIMED_OUT


@WAYS
def test_the_glass_of_the_default_is_not_that_of_the_policy(how: str) -> None:
    """Cy may run calls of the default alone, and no others."""
    routed(call(50), policy())[0].may_break_glass(CY, DIRECTORY, now=NOON)
    with pytest.raises(ApprovalError, match="does not let"):
        instead(how, policy()).may_break_glass(CY, DIRECTORY, now=NOON)
    instead(how, policy(break_glass=("cy",))).may_break_glass(CY, DIRECTORY, now=NOON)


@WAYS
def test_proofs_and_cautions_of_the_policy_stay(how: str) -> None:
    """What a mail proves, a repeated start, an edit, the risk and the validity stay strict."""
    strict = policy(
        email=EmailProof.TOKEN_FROM_DMARC, risk=Risk.HIGH, valid_for=HOUR, second_step="true"
    )

    terms = instead(how, strict).terms

    assert terms is not None
    assert terms.policy == "default"
    assert (terms.email, terms.risk, terms.valid_for, terms.second_step) == (
        EmailProof.TOKEN_FROM_DMARC,
        Risk.HIGH,
        HOUR,
        True,
    )
    assert (terms.in_doubt, terms.edits) == (InDoubt.ASK, Edits.ASK)


TERMS = st.builds(
    Terms,
    policy=st.just("p"),
    on_timeout=st.sampled_from(OnTimeout),
    under_ceiling=st.booleans(),
    second_step=st.booleans(),
    grants=st.sampled_from([None, GRANTS]),
    break_glass=st.sampled_from([(), ("cy",), ("cy", "eve"), ("eve",)]),
    email=st.sampled_from([None, *EmailProof]),
    risk=st.sampled_from(Risk),
    edits=st.sampled_from(Edits),
    in_doubt=st.sampled_from(InDoubt),
    valid_for=st.sampled_from([None, HOUR, 2 * HOUR]),
)


@given(TERMS, TERMS)
def test_replaced_terms_lose_no_strictness_and_keep_their_own(own: Terms, before: Terms) -> None:
    """Each rule is as strict as the stricter one of both, if these can be compared."""
    terms = own.no_weaker_than(before)
    both = (own, before)
    assert terms.second_step is any(one.second_step for one in both)
    assert (terms.under_ceiling and terms.on_timeout is OnTimeout.APPROVE) is all(
        one.under_ceiling and one.on_timeout is OnTimeout.APPROVE for one in both
    )
    assert terms.grants is None
    assert {*terms.break_glass} == {*own.break_glass} & {*before.break_glass}
    assert (terms.risk is Risk.HIGH) is any(one.risk is Risk.HIGH for one in both)
    assert (terms.edits is Edits.APPROVE) is all(one.edits is Edits.APPROVE for one in both)
    assert (terms.in_doubt is InDoubt.RETRY) is all(one.in_doubt is InDoubt.RETRY for one in both)
    assert terms.in_doubt in {own.in_doubt, before.in_doubt}
    strongest = EmailProof.TOKEN_FROM_DMARC
    if strongest in {own.email, before.email}:
        assert terms.email is strongest
    else:
        assert terms.email is before.email
    spans = [one.valid_for for one in both if one.valid_for is not None]
    assert terms.valid_for == (min(spans) if before.valid_for is not None else None)
