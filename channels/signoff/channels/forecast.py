"""Forecasts one call under the settings: its timeline, with the configured channels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from signoff.core.approvals.approval import Asked
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Rotations
from signoff.core.grants.grant import Grant
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import NO_ROTATIONS, owners_of
from signoff.core.routing.targets import targets_of
from signoff.core.simulation.forecast import SimulatedAnswer, Timeline
from signoff.core.simulation.timeline import simulate


class Rulebook(Protocol):
    """The rules that decide who is asked: the settings, or a substitute for them in a test."""

    @property
    def policies(self) -> Sequence[Policy]:
        """The policies in order; the first match applies."""
        ...

    @property
    def default(self) -> Fallback:
        """Who is asked when no policy matches."""
        ...

    @property
    def everybody(self) -> Directory:
        """The people, with their queues and schedules."""
        ...

    @property
    def owners(self) -> Mapping[str, str]:
        """Each agent's owner, by the agent's or folder's name; owners never decide its calls."""
        ...

    @property
    def channel_names(self) -> Collection[str]:
        """The configured channels."""
        ...


def call_facts(
    tool: str,
    args: Mapping[str, JsonValue] | None = None,
    *,
    app: str = "",
    agent: str = "",
    user: str = "",
) -> dict[str, JsonValue]:
    """Return the facts of a hypothetical call, for the conditions of policies."""
    return {"app": app, "agent": agent, "tool": tool, "args": dict(args or {}), "user": user}


def timeline_of(
    rules: Rulebook,
    facts: Mapping[str, JsonValue],
    *,
    start: datetime,
    directory: Directory | None = None,
    rotations: Rotations = NO_ROTATIONS,
    grants: Sequence[Grant] = (),
    answers: Sequence[SimulatedAnswer] = (),
    approving: bool = False,
) -> Timeline:
    """Return the timeline of a call, from `timeline.simulate`.

    Args:
        rules: The settings.
        facts: The facts of the call; see `call_facts`.
        start: When the call begins to wait.
        directory: The people, if they differ from those of the settings.
        rotations: When each member of a queue was last asked.
        grants: The grants that may cover the call, in the order in which they are tried.
        answers: The answers that people give.
        approving: Whether every approver approves immediately.

    Raises:
        NotCanonical: The arguments have no digest.
    """
    enabled = frozenset(rules.channel_names)

    def reach(people: Sequence[Person], rules: Asking) -> tuple[Asked, ...]:
        return targets_of(people, rules, enabled)

    return simulate(
        rules.policies,
        rules.default,
        directory or rules.everybody,
        facts,
        start=start,
        reach=reach,
        barred=owners_of(rules.owners, facts),
        rotations=rotations,
        grants=grants,
        answers=answers,
        approving=approving,
    )
