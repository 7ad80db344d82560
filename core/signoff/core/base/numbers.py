"""Writes numbers for people: without exponents, ``.0`` and rounding errors of binary arithmetic.

A plain number has no thousands separators, because it may be a year, an order or an account.
Amounts of money have them, and as many decimals as the currency (ISO 4217).
"""

from __future__ import annotations

import json
import math
import re
from decimal import Decimal
from typing import Final

from pydantic import JsonValue

_NO_MINOR_UNIT: Final = frozenset(
    {
        *("BIF", "CLP", "DJF", "GNF", "ISK", "JPY", "KMF", "KRW", "PYG", "RWF", "UGX", "UYI"),
        *("VND", "VUV", "XAF", "XOF", "XPF"),
    }
)
_THREE_DECIMALS: Final = frozenset({"BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"})
"""Currencies whose minor unit is not a hundredth (ISO 4217, table A.1)."""

_CURRENCY: Final = re.compile(r"[A-Za-z]{3}")
_PLAIN: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,39})(?:\.[0-9]{1,20})?")
_DIGITS: Final = 15
"""The decimal digits that a double always preserves (IEEE 754)."""

_MOST_KEPT: Final = 13


def number_text(value: float) -> str:
    """Return a number as text: 2500 for 2500.0, 1000000000000000000000 for 1e21, 0.3 for 0.1 + 0.2.

    A double may need 17 digits. If fewer than 14 remain after rounding to 15, the others are
    rounding errors and are left out. Any other number is written with all of its digits.
    """
    if isinstance(value, bool):
        return json.dumps(value)
    return f"{_decimal(value):f}" if _is_finite(value) else str(value)


def is_amount(value: JsonValue) -> bool:
    """Say whether a value can be an amount of money: a number, or the text of a plain number."""
    if isinstance(value, str):
        return _PLAIN.fullmatch(value) is not None
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_finite(value)


def amount_text(value: JsonValue, currency: str) -> str:
    """Return an amount of money without its currency: 2,500.00.

    Further decimals than those of the currency are kept: nothing is rounded.

    Args:
        value: A value for which `is_amount` is true.
        currency: The code of the currency (ISO 4217).
    """
    amount = Decimal(value) if isinstance(value, str) else _decimal(value)
    exponent = amount.as_tuple().exponent
    decimals = max(-exponent if isinstance(exponent, int) else 0, minor_units(currency))
    return f"{amount:,.{decimals}f}"


def money_text(value: JsonValue, currency: str) -> str:
    """Return an amount of money with its currency: 2,500.00 EUR."""
    return f"{amount_text(value, currency)} {currency.upper()}"


def minor_units(currency: str) -> int:
    """Return how many decimals amounts in a currency have."""
    code = currency.upper()
    return 0 if code in _NO_MINOR_UNIT else 3 if code in _THREE_DECIMALS else 2


def is_currency(value: JsonValue) -> bool:
    """Say whether a value has the form of a currency's code: three letters of ASCII."""
    return isinstance(value, str) and _CURRENCY.fullmatch(value) is not None


def json_text(value: JsonValue) -> str:
    """Return a value as JSON text, with numbers as in `number_text`."""
    match value:
        case bool() | None | str():
            return json.dumps(value, ensure_ascii=False)
        case int() | float():
            return number_text(value)
        case list():
            return f"[{', '.join(map(json_text, value))}]"
        case dict():
            pairs = (f"{json_text(name)}: {json_text(one)}" for name, one in value.items())
            return f"{{{', '.join(pairs)}}}"


def _is_finite(value: float) -> bool:
    # An integer can be larger than the largest double, which `math.isfinite` does not take.
    return isinstance(value, int) or math.isfinite(value)


def _decimal(value: JsonValue) -> Decimal:
    """Return a number without trailing zeros after the point, and without rounding errors."""
    if not isinstance(value, float):
        return Decimal(str(value))
    exact = Decimal(repr(value))
    if value.is_integer():
        # This also turns -0.0 into 0.
        return Decimal(int(exact))
    rounded = Decimal(f"{value:.{_DIGITS}g}").normalize()
    kept = rounded if len(rounded.as_tuple().digits) <= _MOST_KEPT else exact
    return kept.quantize(Decimal(1)) if kept == kept.to_integral() else kept
