"""Numbers in the form in which people write them."""

from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from builders import NOON, make_approval, make_call, people
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.reply_context import context_of
from signoff.core.base.counts import counted
from signoff.core.base.errors import PayloadError
from signoff.core.base.numbers import amount_text, is_amount, json_text, money_text, number_text
from signoff.core.cards.card import card
from signoff.core.payloads.payload import parse_values
from signoff.core.policies.amounts import Amounts
from signoff.core.policies.policy import Terms

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
CURRENCIES = st.sampled_from(["EUR", "USD", "JPY", "KWD"])


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (2500.0, "2500"),
        (1e21, "1000000000000000000000"),
        (0.1 + 0.2, "0.3"),
        (1e-7, "0.0000001"),
        (52.520006599999995, "52.5200066"),
        (123456789012.34567, "123456789012.34567"),
        (2026, "2026"),
        (-0.0, "0"),
        (10**30, "1" + "0" * 30),
    ],
)
def test_a_number_is_written_as_people_do(value: float, text: str) -> None:
    """No exponent, no ``.0`` and no binary rounding appears; an id has no digit groups."""
    assert number_text(value) == text


@pytest.mark.parametrize("value", [10**309, -(10**4299), 2**1024])
def test_an_integer_may_be_larger_than_any_double(value: int) -> None:
    """All of its digits are shown, alone, in JSON and as an amount."""
    assert number_text(value) == str(value)
    assert json_text([value]) == f"[{value}]"
    assert is_amount(value)
    assert money_text(value, "EUR") == f"{value:,}.00 EUR"
    assert values(asked({"amount": "EUR"}, amount=value, other=value)) == {
        "amount": f"{value:,}.00 EUR",
        "other": str(value),
    }


@given(FLOATS | st.integers(min_value=-(10**40), max_value=10**40))
def test_a_number_reads_back_as_itself(value: float) -> None:
    """Integers are exact; other numbers may differ in the last of 15 digits."""
    text = number_text(value)
    assert set(text) <= set("-0123456789.")
    assert not text.endswith((".", ".0"))
    if isinstance(value, int) or value.is_integer():
        assert Decimal(text) == Decimal(repr(value))
    else:
        assert abs(float(text) - value) <= abs(value) * 1e-14


@given(FLOATS.filter(lambda one: abs(one) < 1e15), CURRENCIES)
def test_an_amount_reads_back_as_itself(value: float, currency: str) -> None:
    """It has digit groups and the currency's decimals, and loses no digit by rounding."""
    assert Decimal(amount_text(value, currency).replace(",", "")) == Decimal(number_text(value))


@pytest.mark.parametrize(
    ("value", "currency", "text"),
    [
        (2500, "EUR", "2,500.00 EUR"),
        (2500.0, "eur", "2,500.00 EUR"),
        ("2500.5", "USD", "2,500.50 USD"),
        (2499.999, "EUR", "2,499.999 EUR"),
        (2500, "JPY", "2,500 JPY"),
        (0.5, "KWD", "0.500 KWD"),
        (-1234567.891, "EUR", "-1,234,567.891 EUR"),
    ],
)
def test_money_has_its_currency(value: float, currency: str, text: str) -> None:
    """An amount has its currency's decimals (ISO 4217), or more if it has more."""
    assert money_text(value, currency) == text


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=9),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    )
)
def test_json_stays_json(value: JsonValue) -> None:
    """A program can read a nested value of a card."""
    assert json.loads(json_text(value)) == value


def asked(money: dict[str, str], **args: JsonValue) -> Approval:
    """Return an approval of a call under a policy that names amounts."""
    terms = Terms(policy="money", ask=("mara",), money=money)
    return make_approval(call=make_call(**args)).ask(terms, (), now=NOON)[0]


def values(approval: Approval) -> dict[str, str]:
    """Return the values on its card."""
    return {row.name: row.value for row in card(approval, people()).rows}


def test_a_card_shows_amounts_with_their_currency() -> None:
    """Amounts may be in the policy, an argument, a nested value or a plain numeric text."""
    money = {"amount": "EUR", "fee": "args.currency", "items.price": "USD"}
    items: JsonValue = [{"price": 1e3, "id": 7.0}]
    shown = values(asked(money, amount=2500.0, fee="12.5", currency="chf", items=items))
    assert shown["amount"] == "2,500.00 EUR"
    assert shown["fee"] == "12.50 CHF"
    assert shown["items"] == '[{"price": "1,000.00 USD", "id": 7}]'


@pytest.mark.parametrize("currency", [None, 7, "", "euros", "ЕUR", ["EUR"]])
def test_amount_with_an_invalid_currency_is_a_plain_number(currency: JsonValue) -> None:
    """Without a code of three letters the amount is a plain number."""
    money = {"amount": "args.currency"}
    assert values(asked(money, amount=2500.0, currency=currency))["amount"] == "2500"
    assert values(asked(money, amount="many", currency="EUR"))["amount"] == "many"


@given(FLOATS.filter(lambda one: one and abs(one) < 1e12), CURRENCIES)
def test_displayed_number_reads_back_equal_or_is_refused(value: float, currency: str) -> None:
    """A number that is sent back as shown is read as the same number, or is refused."""
    start = Amounts({"amount": currency}, {}).start("amount", value)
    text = start if isinstance(start, str) else number_text(value)
    try:
        read = parse_values({"amount": 0.0}, {"amount": text})["amount"]
    except PayloadError:
        return
    assert read == pytest.approx(value, rel=1e-14)


@pytest.mark.parametrize("text", ["2,500.00", "2,500.00 EUR", "EUR 2,500.00", "2500", "2500 eur"])
def test_an_answer_may_name_the_currency_that_the_card_names(text: str) -> None:
    """A person can copy the amount of a card into an answer."""
    approval = asked({"amount": "EUR"}, amount=100.0)
    context = context_of(approval, next(iter(people())), people())
    read = parse_values(context.fields, {"amount": text}, context.currencies)
    assert read == {"amount": 2500.0}


@pytest.mark.parametrize("text", ["2,500.00 USD", "$2,500.00", "EUR", "2,500", "EUR EUR 1"])
def test_another_currency_is_refused(text: str) -> None:
    """An amount is never read in a currency that the policy does not name."""
    with pytest.raises(PayloadError):
        parse_values({"amount": 100.0}, {"amount": text}, {"amount": "EUR"})


def test_numbers_are_written_with_their_noun() -> None:
    """One has the singular, and every other number the plural."""
    assert [counted(one, "request") for one in (0, 1, 2_000)] == [
        "0 requests",
        "1 request",
        "2,000 requests",
    ]
    assert [counted(one, "entry", "entries") for one in (1, 2)] == ["1 entry", "2 entries"]
