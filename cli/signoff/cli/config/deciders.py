"""Checks that the people of each level may decide: they are active, and not always barred."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice, product
from typing import Final, NamedTuple

from signoff.cli.config.faults import Fault, Found, Loc, warning
from signoff.cli.config.settings import Settings
from signoff.core.directory.people import Directory
from signoff.core.policies.comparisons import Alternative, alternatives
from signoff.core.policies.policy import Fallback, Policy
from signoff.core.routing.selection import owners_of
from signoff.core.routing.vacancies import unmet

_AT: Final = datetime(2026, 1, 1, tzinfo=UTC)  # any moment: absences are left out
_MOST: Final = 100
_NOBODY: Final[Mapping[str, Collection[str]]] = {}


class Unmet(NamedTuple):
    """A level that cannot approve.

    Attributes:
        loc: Its place in the settings.
        calls: The calls for which it cannot: "finance", or "" for all of its policy.
        why: In words.
    """

    loc: Loc
    calls: str
    why: str


def check(settings: Settings) -> Iterator[Found]:
    """Yield a warning for each level that can never approve, or never for an agent or a user.

    Absences are left out, because they pass; `signoff doctor` knows them.
    """
    present = [one.model_copy(update={"away": ()}) for one in settings.everybody if one.away]
    for one in unmet_levels(settings, settings.everybody.changed(present), _AT):
        yield one.loc, fault_of(one)


def unmet_levels(
    settings: Settings,
    directory: Directory,
    now: datetime,
    apps: Mapping[str, Collection[str]] = _NOBODY,
) -> Iterator[Unmet]:
    """Yield the levels that cannot approve; see `unmet`.

    Args:
        settings: The settings with the policies and the owners of agents.
        directory: The people.
        now: The moment at which people may be absent (UTC).
        apps: The agents that have a tool, by the name of the tool, as far as they are known.
    """
    for loc, rule in settings.rules:
        never = set[int]()
        for facts in _calls(settings, rule, apps):
            barred, terms = owners_of(settings.agents.owners, facts), rule.terms(facts)
            found = dict(unmet(terms, directory, facts, barred=barred, now=now))
            for index, why in found.items():
                phase = {at for at in range(len(terms.ladder)) if terms.same_phase(at, index)}
                # A level that some calls pass over is no fault if another one of its phase decides.
                if index not in never and (not facts or phase <= found.keys()):
                    here: Loc = (*loc, "levels", index) if rule.levels else (*loc, "ask")
                    yield Unmet(here, ", ".join(facts.values()), why)
            never |= found.keys() if not facts else set()


def _calls(
    settings: Settings, rule: Policy | Fallback, apps: Mapping[str, Collection[str]]
) -> Iterator[dict[str, str]]:
    """Yield what is known of the calls of a policy: first nothing, then each agent and user."""
    yield {}
    ways = alternatives(rule.when) if isinstance(rule, Policy) else alternatives("")
    for way in ways:
        if way.contrary:
            continue
        names = {name: way.texts(name) for name in ("app", "agent", "user")}
        if not names["app"] and not names["agent"]:
            names["app"] = tuple(_apps(settings, way, apps))
        known = {name: found for name, found in names.items() if found}
        for values in islice(product(*known.values()), _MOST):
            yield dict(zip(known, values, strict=True))


def _apps(
    settings: Settings, way: Alternative, apps: Mapping[str, Collection[str]]
) -> Iterator[str]:
    """Yield the agents whose calls surely reach a policy that names no agent."""
    if not way.parts:
        yield from settings.agents.owners
    for tool in way.texts("tool"):
        yield from apps.get(tool, ())


def fault_of(one: Unmet) -> Fault:
    """Return the warning about a level."""
    calls = f"for calls of {one.calls}, " if one.calls else ""
    remedy = "Ask somebody else as well"
    if one.calls:
        remedy += ": the requester and the agent's owner never decide"
    return warning(f"{calls}{one.why}", f"{remedy}.")
