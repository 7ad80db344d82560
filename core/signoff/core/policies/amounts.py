"""Writes the amounts of money in a request with their currency."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import JsonValue

from signoff.core.base.hiding import is_named
from signoff.core.base.numbers import amount_text, is_amount, money_text, number_text
from signoff.core.base.numerals import split_number
from signoff.core.policies.titles import currency_of, read_currency


class Amounts:
    """The amounts of money in a request.

    Args:
        money: The `money` of the policy; see `signoff.core.policies.policy.Rules`.
        args: The arguments, with hidden values masked; some of them name a currency.
    """

    def __init__(self, money: Mapping[str, str], args: Mapping[str, JsonValue]) -> None:
        self._money, self._args = money, args

    def currency(self, *path: str) -> str:
        """Return the currency of the value at a path, "" if it is not an amount or is unknown."""
        named = next((one for one in self._money if is_named(path, (one,))), None)
        return "" if named is None else currency_of(read_currency(self._money[named]), self._args)

    def written(self, name: str, value: JsonValue) -> JsonValue:
        """Return a value with the amounts in it as texts: ``2,500.00 EUR``."""
        return self._written((name,), value) if self._money else value

    def start(self, name: str, value: JsonValue) -> JsonValue:
        """Return the initial value of a form field as text that is valid in an answer.

        Thousands separators that could be read as a decimal mark are left out; see `split_number`.
        """
        currency = self.currency(name)
        if not currency or not isinstance(value, int | float) or not (is_amount(value) and value):
            return value
        text = amount_text(value, currency)
        return text if split_number(text.removeprefix("-")) else number_text(value)

    def _written(self, path: tuple[str, ...], value: JsonValue) -> JsonValue:
        match value:
            case dict():
                return {name: self._written((*path, name), one) for name, one in value.items()}
            case list():
                return [self._written(path, one) for one in value]
        currency = self.currency(*path) if is_amount(value) else ""
        return money_text(value, currency) if currency else value
