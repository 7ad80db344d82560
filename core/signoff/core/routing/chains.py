"""Going up the managers: a phase for each, until the limit of one who approves covers the call."""

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
    """Return terms with one phase for each manager, where a level goes up the managers.

    The phases go up to the top: somebody whose limit is high enough may be away, or not answer.
    Which of them covers the call is found anew when each is asked.

    Args:
        terms: The terms as the policy says them.
        directory: The people.
        facts: What is known of the call.
        never: Identities of those who never decide; the next one up is asked in their place.
        notes: Added to: why nobody can approve this.

    Returns:
        The terms; None where nobody's limit covers the call.
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
    """Yield whom a level asks first, and the managers above, without those who never decide.

    Those who are not active are passed over.
    """
    reference = level.ask[0]
    skip, person = 0, directory.record(reference)
    if person is None:
        requester = directory.record(str(facts.get("user", "")))
        person = directory.record(requester.manager) if requester is not None else None
        # requester.manager is the first, requester.manager.manager the second.
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
    """Return the phase of one manager; its name says who that is."""
    update = {
        "ask": (person.id,),
        "name": level.name or person.shown[:_LONGEST],
        "phase": f"{level.phase or number + 1}/{person.id}",
    }
    return level.model_copy(update=update)


def _uncovered(
    level: Level, people: list[Person], directory: Directory, facts: Mapping[str, JsonValue]
) -> str:
    """Say why nobody's limit covers a call, "" where somebody's does."""
    for person in people:
        try:
            limits: dict[str, JsonValue] = {**directory.limits(person.id)}
            if conditions.holds(level.until, {**facts, "limit": limits}):
                return ""
        except ConditionError as error:
            return str(error).rstrip(".")
    names = ", ".join(one.shown for one in people) or "nobody is above the requester"
    return f"nobody's limit covers this ({names})"
