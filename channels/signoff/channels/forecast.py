"""What the settings mean for one call: the timeline of it, by the channels that are set up."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from signoff.channels.pipeline.targets import targets_of
from signoff.core.approvals.approval import Asked
from signoff.core.directory.people import Directory, Person
from signoff.core.directory.queues import Rotations
from signoff.core.grants.grant import Grant
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import NO_ROTATIONS, owners_of
from signoff.core.simulation.forecast import SimulatedAnswer, Timeline
from signoff.core.simulation.timeline import simulate


class Rulebook(Protocol):
    """What decides who is asked: the settings, or what stands for them in a test."""

    @property
    def policies(self) -> Sequence[Policy]:
        """In order; the first that matches rules."""
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
        """Who owns an agent and never decides what it asks, by its name or its folder's."""
        ...

    @property
    def channel_names(self) -> Collection[str]:
        """The channels that are set up."""
        ...


def call_facts(
    tool: str,
    args: Mapping[str, JsonValue] | None = None,
    *,
    app: str = "",
    agent: str = "",
    user: str = "",
) -> dict[str, JsonValue]:
    """Return what the conditions of policies are about, of a call that is only thought of."""
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
    """Return what happens to a call if nobody answers, by `timeline.simulate`.

    Args:
        rules: The settings.
        facts: The call.
        start: When it begins to wait.
        directory: The people, where they shall be others than those of the settings.
        rotations: When the members of queues were last asked.
        grants: Those that may cover the call, in the order in which they are tried.
        answers: What people say.
        approving: Whether everybody who is asked approves at once.

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
