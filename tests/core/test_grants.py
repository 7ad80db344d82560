"""What a grant covers, who may give one, and what it never decides."""

from __future__ import annotations

import unicodedata
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import CLEO, MARA, NOON, make_approval, make_call, make_origin, people
from signoff.core.approvals.approval import Approval, Asked, Kind, Shown, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import GrantRefused, IllegalMove, NotShownInFull
from signoff.core.grants.grant import Grant, givers, may_grant
from signoff.core.payloads.digest import digest
from signoff.core.policies.levels import Seat
from signoff.core.policies.policy import GrantRules, Terms

HOUR = timedelta(hours=1)
RULES = GrantRules(who=("mara",), longest=8 * HOUR, most=20)
FREE = RULES.model_copy(update={"vary": ("amount",), "limit": "args.amount <= 500"})

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["", "1", "1.0", "true", "null", "a", "а", "ａ", "é", "e\u0301", "a\u200b"]),
)
VALUES: st.SearchStrategy[JsonValue] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=4,
)
ARGS = st.dictionaries(st.sampled_from(["amount", "to", "tо", "Amount", "note"]), VALUES)


def terms(rules: GrantRules | None = RULES, **parts: Any) -> Terms:
    """Return the terms of a policy that asks Mara and Cleo."""
    return Terms.model_validate(
        {"policy": "expenses", "ask": ("mara", "cleo"), "grants": rules, **parts}
    )


def call(args: dict[str, JsonValue] | None = None, /, **origin: str) -> Approval:
    """Return an approval before anybody is asked about it."""
    made = make_call("reimburse")
    if args is not None:
        made = made.model_copy(update={"args": args})
    parts = {"confirmation": "adk-2", "run": "run_2", **origin}
    return make_approval(origin=make_origin(**parts), call=made)


def approved(approval: Approval | None = None, rules: GrantRules | None = RULES) -> Approval:
    """Return an approval that Mara has approved."""
    card = Asked(person="mara", channel="email", address=MARA.email, shown=Shown.COMPLETE)
    asked = (card,)
    pending, _ = (approval or make_approval()).ask(terms(rules), asked, now=NOON)
    return pending.approve(MARA, people(), channel="email", now=NOON)[0]


def grant(approval: Approval | None = None, rules: GrantRules = RULES, uses: int = 3) -> Grant:
    """Return what Mara grants for four hours."""
    made = approved(approval, rules)
    return Grant.give(made, by="mara", channel="cli", now=NOON, span=4 * HOUR, uses=uses)[0]


def why_not(given: Grant, approval: Approval, rules: GrantRules | None = RULES) -> str:
    """Return why a grant does not decide a call an hour later."""
    asked = ["mara", "cleo"]
    return given.why_not(approval, terms(rules), asked, people(), now=NOON + HOUR)


def test_grant_approves_a_matching_call_in_the_name_of_its_giver() -> None:
    """The approval names its giver and the grant, and the grant counts the call."""
    after, done, events = grant().use(call(), terms(), ["mara"], people(), now=NOON + HOUR)
    assert (done.state, done.decision and done.decision.by) == (State.APPROVED, "mara")
    assert done.decision is not None
    assert (done.decision.channel, done.decision.grant) == ("grant", after.id)
    assert (done.asked, done.terms, after.left) == ((), terms(), 2)
    assert [event.what for event in events] == [What.APPROVED, What.GRANT_USED]
    assert events[1].more == {"grant": after.id, "left": 2}


@given(ARGS, ARGS)
def test_grant_without_varying_arguments_covers_only_the_same_call(
    first: dict[str, JsonValue], second: dict[str, JsonValue]
) -> None:
    """The displayed digest is compared: a call with another digest is another call."""
    covered = not why_not(grant(call(first)), call(second))
    assert covered == (digest("reimburse", first) == digest("reimburse", second))


@given(ARGS, VALUES, VALUES)
def test_varying_argument_keeps_its_type_and_limit(
    others: dict[str, JsonValue], first: JsonValue, second: JsonValue
) -> None:
    """Only a number within the limit may replace a number within the limit."""
    before = call({**others, "amount": first})
    number = isinstance(first, int | float) and not isinstance(first, bool) and first <= 500
    if not number:
        with pytest.raises(GrantRefused):
            grant(before, FREE)
        return
    covered = not why_not(grant(before, FREE), call({**others, "amount": second}), FREE)
    same = isinstance(second, int | float) and not isinstance(second, bool) and second <= 500
    assert covered == same


@given(st.text(max_size=4), st.text(max_size=4))
def test_texts_that_look_alike_are_different(first: str, second: str) -> None:
    """Values and names are compared without normalising, folding or trimming."""
    assume(first != second)
    assert why_not(grant(call({"to": first})), call({"to": second}))
    assert why_not(grant(call({first: 1})), call({second: 1}))
    assert why_not(grant(call(user="u" + first)), call(user="u" + second))
    composed = unicodedata.normalize("NFC", first), unicodedata.normalize("NFD", first)
    if composed[0] != composed[1]:
        assert why_not(grant(call({"to": composed[0]})), call({"to": composed[1]}))


@pytest.mark.parametrize(
    ("first", "second", "covered"),
    [
        (1, 1.0, True),
        (10**20, 1e20, True),
        (0, -0.0, False),
        (1, "1", False),
        (1, True, False),
        (0, False, False),
        (0, None, False),
        ("true", True, False),
        ([1], [1, 1], False),
        ({"a": 1}, {"а": 1}, False),
        (2**53, 2**53 + 1, False),
        ("\x00int:9007199254740993", 2**53 + 1, False),
    ],
)
def test_fixed_arguments_compare_by_json_equality(
    first: JsonValue, second: JsonValue, covered: bool
) -> None:
    """Numbers compare by value; digits in a text and booleans are different values."""
    assert (not why_not(grant(call({"x": first})), call({"x": second}))) is covered


@pytest.mark.parametrize("part", ["app", "agent", "user"])
def test_grant_covers_one_app_agent_and_requester(part: str) -> None:
    """The calls of other apps, agents and requesters still need an approval."""
    assert "it is for another" in why_not(grant(), call(**{part: "other"}))


def test_grant_covers_one_tool_and_one_kind_of_request() -> None:
    """A long-running call of the tool is another kind of request than its confirmation."""
    other = make_approval(call=make_call("Reimburse"))
    assert why_not(grant(), other) == "it is for another tool"
    waits = call().model_copy(update={"kind": Kind.LONG_RUNNING})
    assert why_not(grant(), waits) == "it is for another kind"


def test_call_without_a_varying_argument_is_not_covered() -> None:
    """A call may not omit a varying argument, because the tool would use its default."""
    given_ = grant(call({"amount": 100, "to": "a"}), FREE)
    assert not why_not(given_, call({"amount": 400.5, "to": "a"}), FREE)
    assert why_not(given_, call({"to": "a"}), FREE)
    assert why_not(given_, call({"amount": 100, "to": "a", "force": False}), FREE)


@pytest.mark.parametrize("amount", ["100", True, None, [100], {"value": 100}])
def test_varying_argument_keeps_its_type_without_a_limit(amount: JsonValue) -> None:
    """A call without the argument, or with another type of it, is another call than was seen."""
    loose = RULES.model_copy(update={"vary": ("amount",)})
    given_ = grant(call({"amount": 100, "to": "a"}), loose)
    assert not why_not(given_, call({"amount": 1.5, "to": "a"}), loose)
    assert "of another type" in why_not(given_, call({"amount": amount, "to": "a"}), loose)
    assert "is missing" in why_not(given_, call({"to": "a"}), loose)


def test_the_policy_of_the_moment_rules_too() -> None:
    """A policy that is narrower now narrows the grant; a wider policy does not widen it."""
    given_ = grant(call({"amount": 100}), FREE)
    less = FREE.model_copy(update={"limit": "args.amount <= 200"})
    assert not why_not(given_, call({"amount": 500}), FREE)
    assert "args.amount <= 200" in why_not(given_, call({"amount": 500}), less)
    assert why_not(given_, call({"amount": 100}), RULES)
    assert why_not(given_, call({"amount": 100}), None)
    other = FREE.model_copy(update={"who": ("cleo",)})
    assert why_not(given_, call({"amount": 100}), other)
    more = FREE.model_copy(update={"limit": ""})
    assert why_not(given_, call({"amount": 501}), more)
    elsewhere = given_.why_not(
        call({"amount": 1}), terms(FREE, policy="all"), ["mara"], people(), now=NOON
    )
    assert elsewhere == "it falls under all"


@pytest.mark.parametrize("quorum", [2, "all", "majority"])
def test_grant_counts_only_where_each_level_needs_one_approval(quorum: int | str) -> None:
    """If any level needs more than one approval, people are asked."""
    more = terms(RULES, quorum=quorum)
    assert "more than one approval" in grant().why_not(call(), more, ["mara"], people(), now=NOON)
    levels: tuple[dict[str, object], ...] = ({"ask": ["mara"]}, {"ask": ["cleo"], "quorum": quorum})
    later = terms(RULES, ask=(), levels=levels)
    assert "more than one approval" in grant().why_not(call(), later, ["mara"], people(), now=NOON)


@pytest.mark.parametrize(
    "parts",
    [
        {"levels": ({"all_of": [{"ask": ["mara"]}, {"ask": ["cleo"]}]},)},
        {"levels": ({"ask": ["mara"], "until": "limits.payments >= args.amount"},)},
        {"levels": ({"ask": ["mara"], "phase": "one"}, {"ask": ["cleo"], "phase": "two"})},
        {"ask": ("mara", "cleo"), "at_least": 2},
    ],
    ids=["a person of each group", "limits that grow", "two phases", "as many as before"],
)
def test_grant_decides_nothing_for_which_one_yes_is_not_enough(parts: dict[str, object]) -> None:
    """The yes of one giver fills neither two groups, nor a chain up to a limit, nor two phases."""
    one = terms(RULES, **{"ask": (), **parts})
    assert "more than one approval" in grant().why_not(call(), one, ["mara"], people(), now=NOON)
    with pytest.raises(GrantRefused, match="more than one approval"):
        may_grant(approved().model_copy(update={"terms": one}), "mara")


def test_grant_under_a_policy_that_wants_reasons_has_one() -> None:
    """Where each yes needs a reason, a grant decides only if it was given with one."""
    wants = terms(RULES, reasons=("approve",))
    silent, said = grant(), grant().model_copy(update={"reason": "the yearly conference"})
    assert "needs a reason" in silent.why_not(call(), wants, ["mara"], people(), now=NOON)
    assert said.why_not(call(), wants, ["mara"], people(), now=NOON) == ""


def test_grant_needs_a_request_that_is_routed_and_decided() -> None:
    """Before the terms are known, and while more votes are needed, nobody can give a grant."""
    with pytest.raises(GrantRefused, match="not routed yet"):
        may_grant(call(), "mara")
    pending, _ = call().ask(terms(), (), now=NOON)
    with pytest.raises(GrantRefused, match="Your yes alone does not decide"):
        Grant.give(pending, by="mara", channel="cli", now=NOON, span=HOUR)


def test_only_an_approval_of_the_whole_call_gives_a_grant() -> None:
    """A rejected call gives none, and neither does a channel that has cut the call."""
    parts: dict[str, Any] = {"by": "mara", "now": NOON, "span": HOUR}
    card = Asked(person="mara", channel="email", address=MARA.email, shown=Shown.CUT)
    pending, _ = call().ask(terms(), (card,), now=NOON)
    no, _ = pending.reject(MARA, people(), channel="cli", now=NOON)
    with pytest.raises(GrantRefused, match="Only its approver"):
        Grant.give(no, channel="cli", **parts)
    yes, _ = pending.approve(MARA, people(), channel="cli", now=NOON)
    with pytest.raises(NotShownInFull):
        Grant.give(yes, channel="email", **parts)
    assert Grant.give(yes, channel="cli", **parts)


def test_grant_decides_nothing_if_its_giver_could_not_approve() -> None:
    """It decides nothing if the giver would not be asked, or made the request."""
    given_ = grant()
    now = NOON + HOUR
    assert given_.why_not(call(), terms(), ["cleo"], people(), now=now)
    own = call(user="m.lind@example.net")
    theirs = given_.model_copy(
        update={"scope": given_.scope.model_copy(update={"user": own.origin.user})}
    )
    assert theirs.why_not(own, terms(), ["mara"], people(), now=now) == "mara asks for it"


def test_grant_skips_calls_that_need_a_person() -> None:
    """Second steps, input requests, templates and calls in doubt need a person."""
    given_ = grant()
    two = terms(RULES, second_step=True)
    assert "second step" in given_.why_not(call(), two, ["mara"], people(), now=NOON)
    filled = call().model_copy(update={"template": {"days": 3}})
    assert "fill in" in why_not(given_, filled)
    asks = call().model_copy(update={"kind": Kind.INPUT})
    assert "fill in" in why_not(given_, asks)
    doubt = call()
    doubt = doubt.model_copy(update={"origin": doubt.origin.model_copy(update={"again": 1})})
    assert "in doubt" in why_not(given_, doubt)


def test_grant_ends_by_time_count_or_revocation() -> None:
    """A grant covers nothing from its end on, and its count is exact."""
    given_ = grant(uses=1)
    assert given_.state(NOON + 4 * HOUR - timedelta(microseconds=1)) == "open"
    assert given_.state(NOON + 4 * HOUR) == "expired"
    used, _, _ = given_.use(call(), terms(), ["mara"], people(), now=NOON)
    with pytest.raises(GrantRefused, match="it is used up"):
        used.use(call(), terms(), ["mara"], people(), now=NOON)
    gone, events = given_.revoke(by="olga", why="left the firm", now=NOON)
    assert (gone.state(NOON), events[0].what) == ("revoked", What.GRANT_REVOKED)
    assert why_not(gone, call()) == "it is revoked"
    with pytest.raises(GrantRefused, match="nothing to revoke"):
        gone.revoke(by="olga", why="again", now=NOON)


@pytest.mark.parametrize(
    ("span", "uses", "limit"),
    [
        (9 * HOUR, None, ""),
        (timedelta(0), None, ""),
        (HOUR, 21, ""),
        (HOUR, 0, ""),
        (HOUR, None, "args.amount <= 100"),
        (HOUR, None, "this is no CEL"),
        (HOUR, None, "args.amount + 1"),
        (HOUR, None, "args.other == 1"),
    ],
)
def test_grant_beyond_the_policy_or_its_own_call_is_refused(
    span: timedelta, uses: int | None, limit: str
) -> None:
    """Too long, too many calls, or a limit that excludes the call itself: all are refused."""
    with pytest.raises(GrantRefused):
        Grant.give(
            approved(), by="mara", channel="cli", now=NOON, span=span, uses=uses, limit=limit
        )


def test_only_a_permitted_approver_gives_a_grant() -> None:
    """The policy has to allow it; nobody grants for another, and a grant cannot create a grant."""
    parts: dict[str, Any] = {"channel": "cli", "now": NOON, "span": HOUR}
    with pytest.raises(GrantRefused, match="lets nobody"):
        Grant.give(approved(rules=None), by="mara", **parts)
    with pytest.raises(GrantRefused, match="does not let cleo"):
        Grant.give(approved(), by="cleo", **parts)
    both = RULES.model_copy(update={"who": ("mara", CLEO.id)})
    with pytest.raises(GrantRefused, match="approved by mara"):
        Grant.give(approved(rules=both), by="cleo", **parts)
    _, done, _ = grant().use(call(), terms(), ["mara"], people(), now=NOON)
    with pytest.raises(GrantRefused, match="was decided by the grant"):
        Grant.give(done, by="mara", **parts)


@pytest.mark.parametrize(
    "seats",
    [
        (Seat(person="cleo"), Seat(person="mara", level=1)),
        (Seat(person="mara", instead_of="cleo"),),
    ],
    ids=["a later level", "for another"],
)
def test_person_whose_grant_could_never_decide_is_not_offered_one(seats: tuple[Seat, ...]) -> None:
    """A person of a later level, or a delegate, is not offered a grant and cannot give one."""
    done = approved().model_copy(update={"seats": seats})
    assert givers(done) == ()
    with pytest.raises(GrantRefused, match="asked first"):
        Grant.give(done, by="mara", channel="cli", now=NOON, span=HOUR)
    first = approved().model_copy(update={"seats": (Seat(person="mara", level=1),)})
    assert givers(first) == ("mara",)


def test_grant_never_decides_a_request_that_is_already_asked() -> None:
    """A grant decides before anybody is asked, never after."""
    asked, _ = call().ask(terms(), (), now=NOON)
    with pytest.raises(IllegalMove, match="asked already"):
        grant().use(asked, terms(), ["mara"], people(), now=NOON)
