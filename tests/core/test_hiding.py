"""What a policy hides: nobody sees it, while the digest and the conditions still use it."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pydantic import JsonValue, ValidationError

from builders import CLEO, MARA, NOON, make_approval, make_call, people
from signoff.core.approvals.approval import Approval, Asked, Kind, Shown, State
from signoff.core.approvals.lists.search import Search
from signoff.core.approvals.masking import masked
from signoff.core.approvals.parts import Glass, Program, Report
from signoff.core.approvals.reply_context import context_of
from signoff.core.base.errors import PayloadError
from signoff.core.base.hiding import HIDDEN, having_hidden, is_hidden, without_hidden
from signoff.core.cards.card import card
from signoff.core.policies.policy import Fallback, Policy, Terms
from signoff.core.routing.selection import all_hidden, choose

IBAN = "DE89370400440532013000"
ARGS: dict[str, JsonValue] = {
    "amount": 2500,
    "iban": IBAN,
    "customer": {"name": "Lee", "iban": IBAN},
    "notes": ["x", {"PASSWORD": "hunter22"}],
}
CARDS = tuple(
    Asked(person=one.id, channel="email", address=one.email, shown=Shown.COMPLETE)
    for one in (MARA, CLEO)
)


def asked(
    *hide: str,
    template: JsonValue = None,
    args: dict[str, JsonValue] | None = None,
    **rules: object,
) -> Approval:
    """Return a payment that Mara and Cleo are asked about, with some values hidden."""
    call = make_call("pay", **(ARGS if args is None else args))
    terms = Terms.model_validate({"policy": "p", "ask": ["mara", "cleo"], "hide": hide, **rules})
    approval = make_approval(call=call, template=template, hint=f"To {IBAN}, please.")
    return approval.ask(terms, CARDS, now=NOON)[0]


def test_values_sent_by_a_program_are_hidden_in_every_copy() -> None:
    """The sent arguments, the context, the reasoning and the report hide the values."""
    report = Report(succeeded=True, note=f"Paid to {IBAN}.", at=NOON)
    program = Program(
        instance="",
        request="r",
        tool="pay",
        arguments=json.dumps(ARGS),
        context=json.dumps({"customer": {"iban": "FR76"}, "for": IBAN}),
        reasoning=f"They want it on {IBAN}.",
        timeout="1h",
        until=NOON,
        valid_for=timedelta(hours=1),
        report=report,
    )
    glass = Glass(by="mara", at=NOON, channel="cli", reason=f"{IBAN} waits")
    approval = asked("iban").model_copy(update={"program": program, "glass": glass})
    text = masked(approval).model_dump_json()
    assert IBAN not in text
    assert "FR76" not in text
    assert "2500" in text
    assert approval.program == program


@pytest.mark.parametrize(
    ("hide", "path", "hidden"),
    [
        ("iban", ("iban",), True),
        ("iban", ("customer", "iban"), True),
        ("customer.iban", ("customer", "iban"), True),
        ("customer.iban", ("iban",), False),
        ("customer", ("customer", "name"), True),
        ("api_key", ("API-Key",), True),
        ("key", ("api_key",), False),
    ],
)
def test_hidden_name_matches_at_any_depth_and_a_path_exactly(
    hide: str, path: tuple[str, ...], *, hidden: bool
) -> None:
    """Case, hyphens and underscores do not matter."""
    assert is_hidden(path, (hide,)) is hidden


@pytest.mark.parametrize("name", ["", "a..b", "args.iban", "."])
def test_ineffective_hide_entry_is_refused(name: str) -> None:
    """It is refused when the settings are read."""
    with pytest.raises(ValidationError):
        Policy(name="p", ask=("mara",), hide=(name,))


def test_card_hides_values_and_keeps_the_digest() -> None:
    """The tool's own words hide the values too; the digest stays that of the real call."""
    shown = card(asked("iban", "password"), people())
    rows = {row.name: (row.value, row.hidden) for row in shown.rows}
    assert rows["amount"] == ("2500", False)
    assert rows["iban"] == (HIDDEN, True)
    assert rows["customer"] == ('{"name": "Lee", "iban": "hidden by policy"}', True)
    assert rows["notes"] == ('["x", {"PASSWORD": "hidden by policy"}]', True)
    assert shown.hint == f"To [{HIDDEN}], please."
    assert shown.hides
    assert shown.digest == asked("iban", "password").digest_of("pay", ARGS)


def test_a_value_that_pretends_to_be_hidden_is_pointed_out() -> None:
    """A model could write the marker itself to hide from people what the tool gets."""
    shown = card(asked("iban", args={"iban": IBAN, "to": "Hidden  by policy"}), people())
    assert shown.warnings == (
        "“to” has the words “hidden by policy” in it: the policy hides nothing there.",
    )


SECRETS = st.text("GHJKLMNPQRSTUV", min_size=8, max_size=30)
NAMES = st.sampled_from(["iban", "IBAN", "name", "memo"])
NESTED = st.recursive(
    st.text("xyz", max_size=4) | st.integers(max_value=99),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def put(secret: str, value: JsonValue) -> JsonValue:
    """Return a value with a secret under each `iban`."""
    match value:
        case dict():
            return {
                name: secret if name.lower() == "iban" else put(secret, one)
                for name, one in value.items()
            }
        case list():
            return [put(secret, one) for one in value]
    return value


@given(SECRETS, st.dictionaries(NAMES, NESTED, min_size=1))
def test_no_hidden_value_is_in_anything_that_is_shown(
    secret: str, args: dict[str, JsonValue]
) -> None:
    """A hidden value is not on the card, in the shown record, in an event or in a search."""
    call = put(secret, args)
    assert isinstance(call, dict)
    assume(secret in str(call))
    pending = asked("iban", args=call, title="Pay {args.name}, {args.memo}")
    after, events = pending.approve(
        MARA, people(), channel="inbox", now=NOON, reason=f"ok {secret}"
    )
    for one in (pending, after):
        assert secret not in card(one, people()).model_dump_json()
        assert secret not in masked(one).model_dump_json()
        assert not Search(q=secret).fits(one, people(), NOON)
    assert secret not in "".join(str(event.more) for event in events)
    assert after.digest == after.digest_of("pay", call)
    assert after.call.args == call


def test_hidden_value_cannot_be_changed_or_guessed() -> None:
    """A right guess gets the same answer as a wrong one; no error names the value."""
    approval = asked("iban", "password")
    problems = set()
    for guess in (IBAN, "DE00"):
        with pytest.raises(PayloadError) as caught:
            approval.approve(MARA, people(), channel="inbox", now=NOON, values={"iban": guess})
        problems.add(str(caught.value))
    assert len(problems) == 1
    assert "hidden by policy" in problems.pop()
    odd: tuple[dict[str, JsonValue], ...] = (
        {"customer": {"name": "Bo", "iban": HIDDEN}},
        {"gone": 1},
        {"amount": "x"},
    )
    for values in odd:
        with pytest.raises(PayloadError) as caught:
            approval.approve(MARA, people(), channel="inbox", now=NOON, values=values)
        assert IBAN not in f"{caught.value} {caught.value.example} {caught.value.read}"
    context = context_of(approval, MARA, people())
    assert context.fields == {"amount": 2500}


def test_the_rest_can_still_be_changed() -> None:
    """The proposal keeps the hidden values, and the audit does not show them."""
    after, events = asked("iban").approve(
        MARA, people(), channel="inbox", now=NOON, values={"amount": 9}
    )
    assert after.state is State.REJECTED
    assert after.decision is not None
    assert after.decision.proposal == {**ARGS, "amount": 9}
    assert IBAN not in str(events[-1].more)
    assert events[-1].more["proposal"] == without_hidden({**ARGS, "amount": 9}, ("iban",))


def test_an_empty_hidden_field_can_be_filled() -> None:
    """A person can type a password that the tool asks for; it is not shown afterwards."""
    approval = asked("password", "pin", template={"password": "", "pin": 1234, "days": 0})
    assert approval.fixed == {"pin"}
    fields = {row.name: (row.value, row.note) for row in card(approval, people()).fields}
    assert fields == {"password": ("", ""), "pin": ("", HIDDEN), "days": ("0", "")}
    after, events = approval.approve(
        MARA, people(), channel="inbox", now=NOON, values={"password": "hunter22", "days": 2}
    )
    assert after.decision is not None
    assert after.decision.payload == {"password": "hunter22", "pin": 1234, "days": 2}
    seen = masked(after)
    assert seen.decision is not None
    assert seen.decision.payload == {"password": HIDDEN, "pin": HIDDEN, "days": 2}
    assert "hunter22" not in str(events[-1].more)


def test_error_for_different_hidden_values_does_not_reveal_them() -> None:
    """The error says that the values differ, without the values."""
    template: JsonValue = {"password": ""}
    first, _ = asked("password", template=template, quorum=2).approve(
        MARA, people(), channel="inbox", now=NOON, values={"password": "hunter22"}
    )
    with pytest.raises(PayloadError) as caught:
        first.approve(CLEO, people(), channel="inbox", now=NOON, values={"password": "letmein9"})
    assert "hunter22" not in str(caught.value)
    assert HIDDEN in str(caught.value)


def test_hiding_does_not_keep_a_short_call_from_being_approved() -> None:
    """A long hidden value does not make a card incomplete, so an approval by mail counts."""
    call = make_call("pay", amount=1, body="x" * 5000)
    terms = Terms(policy="p", ask=("mara",), hide=("body",))
    unknown = Asked(person="mara", channel="email", address=MARA.email)
    approval, _ = make_approval(call=call).ask(terms, (unknown,), now=NOON)
    assert approval.shown_to("mara", "email") is Shown.COMPLETE
    assert approval.approve(MARA, people(), channel="email", now=NOON)[0].state is State.APPROVED


def test_input_request_hides_the_schema_default() -> None:
    """The form can still be filled in; the hidden default stays unchanged."""
    schema: JsonValue = {
        "type": "object",
        "properties": {"iban": {"type": "string", "default": IBAN}, "days": {"type": "integer"}},
        "required": ["days"],
    }
    call = make_call(
        "adk_request_input", message="How many?", payload={"iban": IBAN}, response_schema=schema
    )
    approval = Approval.open(
        make_approval().origin, call, hint="", template=None, now=NOON, kind=Kind.INPUT
    )[0].ask(Terms(policy="p", ask=("mara",), hide=("iban",)), CARDS, now=NOON)[0]
    for seen in (card(approval, people()).model_dump_json(), masked(approval).model_dump_json()):
        assert IBAN not in seen
    after, _ = approval.approve(MARA, people(), channel="inbox", now=NOON, values={"days": 2})
    assert after.decision is not None
    assert after.decision.payload == {"days": 2, "iban": IBAN}


def test_conditions_can_read_hidden_values() -> None:
    """A policy may decide on a value that nobody can see."""
    policy = Policy(name="p", when="args.iban.startsWith('DE')", ask=("mara",), hide=("iban",))
    choice = choose([policy], Fallback(ask=("cleo",)), people(), facts(), now=NOON)
    assert (choice.terms.policy, choice.terms.hide) == ("p", ("iban",))


def facts(**args: JsonValue) -> dict[str, JsonValue]:
    """Return the facts of a payment."""
    return {"app": "", "agent": "", "tool": "pay", "args": {**ARGS, **args}, "user": "riley"}


def test_default_hides_the_values_that_the_policy_hides() -> None:
    """This holds if nobody of the policy can be asked, and if its condition has an error."""
    empty = Policy(name="empty", ask=("riley",), hide=("iban",), title="Pay {args.amount}")
    broken = Policy(name="broken", when="args.amount > 'x'", ask=("mara",))
    default = Fallback(ask=("cleo",), hide=("password",))
    stranded = choose([empty], default, people(), facts(), now=NOON).terms
    assert set(stranded.hide) == {"iban", "password"}
    assert stranded.title == "Pay {args.amount}"
    unknown = choose([broken, empty], default, people(), facts(), now=NOON).terms
    assert set(unknown.hide) == {"iban", "password"}
    mara = Policy(name="m", ask=("mara",))
    assert choose([mara], default, people(), facts(), now=NOON).terms.hide == ("password",)
    assert all_hidden([empty, mara], default) == ("password", "iban")


def test_request_moved_to_the_default_keeps_values_hidden() -> None:
    """An approval that moves to the default keeps what its policy hid."""
    approval = asked("iban")
    after, _ = approval.ask(Terms(policy="default", ask=("cleo",)), CARDS, now=NOON)
    assert after.hides == ("iban",)


def test_unrouted_request_hides_the_values_of_every_policy() -> None:
    """Nobody can read a value before the request is routed."""
    opened, _ = Approval.open(
        make_approval().origin,
        make_call("pay", **ARGS),
        hint="",
        template=None,
        now=NOON,
        hide=("iban",),
    )
    assert IBAN not in card(opened, people()).model_dump_json()


@given(st.dictionaries(NAMES, NESTED))
def test_card_without_hide_shows_every_value(args: dict[str, JsonValue]) -> None:
    """Without `hide`, the card shows every value."""
    assert without_hidden(args, ()) == args
    assert having_hidden(args, ()) == frozenset()
