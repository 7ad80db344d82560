"""Which policy a call meets, and why those before it do not."""

from __future__ import annotations

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


class Match(StrEnum):
    """The result of checking a call against a policy's condition."""

    MATCHES = "matches"
    """It is true: this policy rules."""
    NO = "no"
    """It is false, or about an argument that this call does not have."""
    ERROR = "error"
    """It cannot be evaluated: the search ends, and the default is asked."""


class Considered(Value):
    """One policy that was looked at.

    Attributes:
        policy: Its name.
        when: Its condition, "" where it matches every call.
        verdict: The result.
        why: In words, what the condition saw.
    """

    policy: str
    when: str
    verdict: Match
    why: str = ""


class Conditional(Protocol):
    """What has a name and a condition: a policy."""

    @property
    def name(self) -> str:
        """What it is called."""
        ...

    @property
    def when(self) -> str:
        """A CEL expression, "" for every call."""
        ...

    @property
    def time_zone(self) -> str:
        """Where the clock stands that `now` shows."""
        ...


def facts_at(facts: Mapping[str, JsonValue], now: datetime, time_zone: str) -> dict[str, JsonValue]:
    """Return what the expressions of a policy see of a call: its facts, and the clock."""
    return Weighed({**facts, "now": conditions.clock(now, time_zone)})


def consider(
    policies: Iterable[Conditional], facts: Mapping[str, JsonValue], now: datetime
) -> tuple[Considered, ...]:
    """Hold a call to policies in their order, until one matches or cannot be evaluated.

    Guessing on after an error would let a badly typed argument reach a weaker policy.

    Args:
        policies: In order.
        facts: What is known of the call; see `signoff.core.policies.policy.Facts`.
        now: The present (UTC).

    Returns:
        Those that were looked at; only the last can be more than a no.
    """
    found: list[Considered] = []
    for policy in policies:
        one = _one(policy, facts_at(facts, now, policy.time_zone))
        found.append(one)
        if one.verdict is not Match.NO:
            break
    return tuple(found)


def weigh(policy: Conditional, facts: Mapping[str, JsonValue]) -> tuple[Match, str]:
    """Check a call against one policy; return the result, and the problem if it is an error.

    The one place where conditions of policies are judged, for the router and for explanations.
    """
    if not policy.when:
        return Match.MATCHES, ""
    try:
        return (Match.MATCHES if conditions.holds(policy.when, facts) else Match.NO), ""
    except ConditionError as error:
        return Match.ERROR, str(error)


def _one(policy: Conditional, facts: Mapping[str, JsonValue]) -> Considered:
    verdict, problem = weigh(policy, facts)
    why = problem or _seen(policy.when, facts) or "it has no condition"
    return Considered(policy=policy.name, when=policy.when, verdict=verdict, why=why)


def _seen(when: str, facts: Mapping[str, JsonValue]) -> str:
    """Say what the names in a condition stand for in this call."""
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
