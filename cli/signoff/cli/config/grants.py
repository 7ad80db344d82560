"""Checks the grants of the policies."""

from __future__ import annotations

from collections.abc import Iterator

from signoff.cli.config.faults import Found, defect, suggest, warning
from signoff.cli.config.levels import never_true
from signoff.cli.config.settings import Settings
from signoff.core.base.errors import ConditionError
from signoff.core.policies import conditions
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Routing


def check(settings: Settings) -> Iterator[Found]:
    """Find grants that can never be given or used, or that probably cover more than is meant."""
    known = [person.id for person in settings.people]
    for loc, rule in settings.rules:
        for person in (one for one in rule.break_glass if one not in known):
            remedy = suggest(person, known) or "Name somebody of [[people]]."
            yield (*loc, "break_glass"), defect(f"{person!r} is not the id of anybody", remedy)
        if rule.grants is None:
            continue
        here = (*loc, "grants")
        for person in rule.grants.who:
            if person not in known:
                remedy = suggest(person, known) or "Name somebody of [[people]]."
                yield (*here, "who"), defect(f"{person!r} is not the id of anybody", remedy)
            elif person not in (first := _first_asked(rule)) and set(first) <= set(known):
                message = f"{person!r} is not asked first: a grant of theirs would decide nothing"
                yield (*here, "who"), warning(message, "Ask them at the first level.")
        try:
            if rule.grants.limit:
                conditions.check(rule.grants.limit)
        except ConditionError as error:
            remedy = "For instance: args.amount <= 500."
            yield (*here, "limit"), defect(str(error).rstrip("."), remedy)
        yield from never_true((*here, "limit"), rule.grants.limit)
        if rule.grants.vary and not rule.grants.limit:
            message = "a grant would cover all values of these arguments"
            remedy = "Limit them: limit = 'args.amount <= 500'."
            yield (*here, "vary"), warning(message, remedy)
        if rule.second_step.strip() == "true":
            message = "a grant never decides a call with a second step"
            yield here, warning(message, "Remove either grants or second_step.")
        askings: list[Asking] = [level.over(rule) for level in rule.levels] or [rule]
        in_groups = rule.all_of or any(level.all_of for level in rule.levels)
        if in_groups or any(one.quorum != 1 or one.until for one in askings):
            message = "a grant has no effect if a level needs more than one approval"
            yield here, warning(message, "Remove grants, or ask for one approval at each level.")


def _first_asked(rule: Routing) -> tuple[str, ...]:
    return rule.levels[0].references if rule.levels else rule.references
