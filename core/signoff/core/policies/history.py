"""The versions of policies: when each became effective, and what it changed."""

import hashlib
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import rfc8785
from pydantic import Field, JsonValue

from signoff.core.base.model import Value
from signoff.core.policies.policy import Fallback, Policy

ORDER: Final = "[[policies]]"
"""The name under which the order of the policies is stored. The first that matches applies."""

DEFAULT: Final = "default"


class PolicyVersion(Value):
    """One version of a policy.

    Attributes:
        policy: The name of the policy; `ORDER` for the order of all policies.
        version: See `Routing.version`; "" if the policy was removed.
        at: When the ledger first knew it (UTC).
        by: The user and the host of the process that loaded it.
        content: The settings without those that only repeat a default.
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
    """Return the versions in the settings that differ from the latest ones in a history.

    Args:
        history: The known versions, the oldest first.
        policies: The policies of the settings, in order.
        fallback: The default of the settings.
        now: The present.
        by: The user and the host of the process that loaded the settings.
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
    """Return the keys that differ between a version and the one before it."""
    was = before.content if before is not None else {}
    names = dict.fromkeys([*after.content, *was])
    return tuple(name for name in names if was.get(name) != after.content.get(name))
