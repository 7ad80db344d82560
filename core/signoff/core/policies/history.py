"""The versions of policies: which text was in force from when on, and what changed in it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import rfc8785
from pydantic import Field, JsonValue

from signoff.core.base.model import Value
from signoff.core.policies.policy import Fallback, Policy

ORDER: Final = "[[policies]]"
"""Stands for the order of the policies: the first that matches rules."""

DEFAULT: Final = "default"


class PolicyVersion(Value):
    """One text of one policy.

    Attributes:
        policy: The name of the policy; `ORDER` for the order of all.
        version: See `Routing.version`; "" where the policy was taken out.
        at: From when on, as the ledger knows it (UTC).
        by: Which user has started the process that has loaded it, and where.
        content: What it says, without what only repeats a default.
    """

    policy: str
    version: str
    at: datetime
    by: str
    content: dict[str, JsonValue] = Field(default_factory=dict)


def fresh_versions(
    history: Sequence[PolicyVersion],
    policies: Sequence[Policy],
    fallback: Fallback,
    *,
    now: datetime,
    by: str,
) -> tuple[PolicyVersion, ...]:
    """Return the versions that settings have and a history does not end with.

    Args:
        history: What is known, the oldest first.
        policies: Of the settings, in their order.
        fallback: The default.
        now: The present.
        by: Who has loaded them.
    """
    latest = {one.policy: one for one in history}
    order: dict[str, JsonValue] = {"order": [one.name for one in policies]}
    present: dict[str, tuple[str, dict[str, JsonValue]]] = {
        **{one.name: (one.version, one.content) for one in policies},
        DEFAULT: (fallback.version, fallback.content),
        ORDER: (hashlib.sha256(rfc8785.dumps(order)).hexdigest()[:16], order),
    }
    present |= {name: ("", {}) for name in latest if name not in present}
    return tuple(
        PolicyVersion(policy=name, version=version, at=now, by=by, content=content)
        for name, (version, content) in present.items()
        if version != (latest[name].version if name in latest else "")
    )


def changed(before: PolicyVersion | None, after: PolicyVersion) -> tuple[str, ...]:
    """Return the keys that a version says otherwise than the one before it."""
    was = before.content if before is not None else {}
    names = dict.fromkeys([*after.content, *was])
    return tuple(name for name in names if was.get(name) != after.content.get(name))
