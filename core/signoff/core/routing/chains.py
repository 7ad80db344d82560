"""Chains of managers: a phase for each manager, until the limit of an approver covers the call."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from pydantic import JsonValue

from signoff.core.base.errors import ConditionError
from signoff.core.directory.people import Directory, Person
from signoff.core.policies import conditions
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Terms

_LONGEST = 64
"""Characters of the name of a level."""


def climb(
    terms: Terms,
    directory: Directory,
    facts: Mapping[str, JsonValue],
    *,
    never: Collection[str],
    notes: list[str],
) -> Terms | None:
    """Return terms in which each chain of managers is replaced by one phase for each manager.

    The phases go up to the top, because a manager whose limit covers the call may be away or not
    answer. The limit of each manager is checked again when they are asked.

    Args:
        terms: The terms of the policy.
        directory: The people.
        facts: The facts of the call.
        never: Identities of people who never decide; the next manager up is asked instead.
        notes: Extended with why nobody can approve this.

    Returns:
        The terms, None if no manager's limit covers the call.
    """
    if not any(level.is_chain for level in terms.ladder):
        return terms
    levels, chains = list[Level](), list[tuple[int, int]]()
    for number, level in enumerate(terms.ladder):
        people = list(_upwards(level, directory, facts, never)) if level.is_chain else []
        if level.until:
            if why := _uncovered(level, people, directory, facts):
                notes.append(why)
                return None
            chains.append((len(levels), len(levels) + len(people) - 1))
        levels += [_level(level, person, number) for person in people] or [level]
    update = {"levels": tuple(levels), "chains": tuple(chains), "ask": ()}
    return terms.model_copy(update=update)


def _upwards(
    level: Level, directory: Directory, facts: Mapping[str, JsonValue], never: Collection[str]
) -> Iterator[Person]:
    """Yield the first person of a chain and the managers above.

    People who never decide or are not active are left out.
    """
    reference = level.ask[0]
    skip, person = 0, directory.record(reference)
    if person is None:
        requester = directory.record(str(facts.get("user", "")))
        person = directory.record(requester.manager) if requester is not None else None
        # requester.manager is the first manager, requester.manager.manager the second.
        skip = max(reference.count(".") - 1, 0)
    seen = set[str]()
    while person is not None and person.id not in seen:
        seen.add(person.id)
        one = person
        if one.active and not any(directory.may_be(one, other) for other in never):
            skip -= 1
            if skip < 0:
                yield one
        person = directory.record(one.manager)


def _level(level: Level, person: Person, number: int) -> Level:
    """Return the phase of one manager, with the manager's name unless the level has a name."""
    update = {
        "ask": (person.id,),
        "name": level.name or person.shown[:_LONGEST],
        "phase": f"{level.phase or number + 1}/{person.id}",
    }
    return level.model_copy(update=update)


def _uncovered(
    level: Level, people: list[Person], directory: Directory, facts: Mapping[str, JsonValue]
) -> str:
    """Return why no manager's limit covers a call, "" if one does."""
    for person in people:
        try:
            limits: dict[str, JsonValue] = {**directory.limits(person.id)}
            if conditions.holds(level.until, {**facts, "limit": limits}):
                return ""
        except ConditionError as error:
            return str(error).rstrip(".")
    names = ", ".join(one.shown for one in people) or "nobody is above the requester"
    return f"nobody's limit covers this ({names})"
