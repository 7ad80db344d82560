"""Finds the policy that matches a call, and explains why others do not."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Final, Protocol

from pydantic import JsonValue

from signoff.core.base.errors import ConditionError
from signoff.core.base.model import Value
from signoff.core.policies import conditions
from signoff.core.policies.condition_cost import Weighed

_READ: Final = re.compile(r"\b(app|agent|tool|user|(?:args|now)(?:\.[A-Za-z_]\w*)*)\b(?!\s*\()")
_QUOTED: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'")
_LONGEST: Final = 60


class MatchResult(StrEnum):
    """The result of checking a call against a policy's condition."""

    MATCHES = "matches"
    """It is true: this policy applies."""
    NO = "no"
    """It is false, or uses an argument that this call does not have."""
    ERROR = "error"
    """It cannot be evaluated: the search ends, and the default is asked."""


class Considered(Value):
    """The result of one policy.

    Attributes:
        policy: The name of the policy.
        when: Its condition, "" if it matches every call.
        verdict: The result.
        why: The values that the condition uses, or the error, in words.
    """

    policy: str
    when: str
    verdict: MatchResult
    why: str = ""


class Conditional(Protocol):
    """A policy, as far as its condition needs it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def when(self) -> str:
        """A CEL expression, "" for every call."""
        ...

    @property
    def time_zone(self) -> str:
        """The time zone of `now`."""
        ...


def facts_at(facts: Mapping[str, JsonValue], now: datetime, time_zone: str) -> dict[str, JsonValue]:
    """Return the names that a policy's expressions can use: the facts of the call and `now`."""
    return Weighed({**facts, "now": conditions.clock(now, time_zone)})


def consider(
    policies: Iterable[Conditional], facts: Mapping[str, JsonValue], now: datetime
) -> tuple[Considered, ...]:
    """Check a call against policies in order, until one matches or cannot be evaluated.

    If the search went on after an error, an argument of the wrong type could lead to a weaker
    policy.

    Args:
        policies: The policies, in order.
        facts: The facts of the call; see `signoff.core.policies.policy.Facts`.
        now: The present (UTC).

    Returns:
        The results of the policies that were checked. Only the last can differ from
        `MatchResult.NO`.
    """
    found: list[Considered] = []
    for policy in policies:
        one = _one(policy, facts_at(facts, now, policy.time_zone))
        found.append(one)
        if one.verdict is not MatchResult.NO:
            break
    return tuple(found)


def weigh(policy: Conditional, facts: Mapping[str, JsonValue]) -> tuple[MatchResult, str]:
    """Check a call against one policy; return the result, and the problem if it is an error.

    The router and explanations both use this function.
    """
    if not policy.when:
        return MatchResult.MATCHES, ""
    try:
        return (MatchResult.MATCHES if conditions.holds(policy.when, facts) else MatchResult.NO), ""
    except ConditionError as error:
        return MatchResult.ERROR, str(error)


def _one(policy: Conditional, facts: Mapping[str, JsonValue]) -> Considered:
    verdict, problem = weigh(policy, facts)
    why = problem or _seen(policy.when, facts) or "it has no condition"
    return Considered(policy=policy.name, when=policy.when, verdict=verdict, why=why)


def _seen(when: str, facts: Mapping[str, JsonValue]) -> str:
    """Return the values that the names in a condition have in this call, in words."""
    names = dict.fromkeys(_READ.findall(_QUOTED.sub('""', when)))
    parts = []
    for name in names:
        value: JsonValue = dict(facts)
        for part in name.split("."):
            if not isinstance(value, dict) or part not in value:
                parts.append(f"there is no {name}")
                break
            value = value[part]
        else:
            text = f'"{value}"' if isinstance(value, str) else str(value)
            short = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
            parts.append(f"{name} is {short}")
    return ", ".join(parts)
