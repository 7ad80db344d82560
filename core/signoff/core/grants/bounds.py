"""The largest values among a person's earlier approvals, which the form of a grant suggests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from pydantic import JsonValue

from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import GrantRefused
from signoff.core.base.hiding import is_hidden
from signoff.core.base.numbers import json_text, number_text
from signoff.core.grants.grant import GrantScope
from signoff.core.policies.policy import GrantRules

_NONE: Final = "Write a number, such as 250."


class EarlierApprovals(NamedTuple):
    """The earlier approvals of a person that a grant would have covered.

    Attributes:
        covered: Their number, without the pending request.
        most: The arguments that can be bounded, each with the largest value among these approvals
            as text, "" if there is none.
    """

    covered: int
    most: Mapping[str, str]


def seen(approval: Approval, rules: GrantRules, earlier: Iterable[Approval]) -> EarlierApprovals:
    """Return the earlier approvals that a grant would have covered, with their largest values.

    Args:
        approval: The pending request.
        rules: The policy's rules for grants.
        earlier: The earlier decisions of the person who gives the grant.
    """
    scope = GrantScope.of(approval, rules)
    alike = [one for one in earlier if one.state is State.APPROVED and not scope.why_not(one)]
    return EarlierApprovals(
        len(alike), {name: _largest(name, alike) for name in bounded(approval, rules)}
    )


def bounded(approval: Approval, rules: GrantRules) -> tuple[str, ...]:
    """Return the arguments that may vary, are numbers of at least 0, and are not hidden."""
    args = approval.call.args
    return tuple(
        name
        for name in sorted(args)
        if name in rules.vary and _is_amount(args[name]) and not is_hidden((name,), approval.hides)
    )


def limit_of(most: Mapping[str, str]) -> str:
    """Return the limit of a grant whose arguments have these largest values; see `Grant.give`.

    Args:
        most: The typed values by the names of the arguments. An empty value sets no limit.

    Raises:
        GrantRefused: A value is not a number.
    """
    parts = []
    for name, text in most.items():
        if text.strip():
            at = f"args.{name}" if name.isidentifier() else f"args[{json_text(name)}]"
            parts += [f"{at} >= 0", f"{at} <= {_number(text.strip())}"]
    return " && ".join(parts)


def _number(text: str) -> str:
    try:
        value = float(text)
    except ValueError as error:
        raise GrantRefused(f"{text[:40]!r} is not a number. {_NONE}") from error
    if not 0 <= value < float("inf"):
        raise GrantRefused(f"{text[:40]!r} bounds nothing. {_NONE}")
    return _exact(int(text) if text.isdecimal() else value)


def _largest(name: str, alike: Sequence[Approval]) -> str:
    values = [value for one in alike if _is_amount(value := one.call.args.get(name))]
    return _exact(max(map(_float, values))) if values else ""


def _exact(value: float) -> str:
    """Return a number with all digits, because a rounded bound may exclude its own call."""
    text = number_text(value)
    return text if float(text) == value else f"{Decimal(repr(value)):f}"


def _float(value: JsonValue) -> float:
    return value if isinstance(value, int | float) else 0


def _is_amount(value: JsonValue) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and 0 <= _float(value) < float("inf")
