"""Vacancies: references in policies for which nobody can be asked."""

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from signoff.core.base.model import Value
from signoff.core.base.moments import moment_text
from signoff.core.directory.people import Directory, Person, Role
from signoff.core.directory.queues import QUEUE
from signoff.core.policies.levels import MANAGERS, Earlier, Level
from signoff.core.policies.policy import Facts, Fallback, Policy, Terms
from signoff.core.routing.departures import why_gone
from signoff.core.routing.on_call import shifts
from signoff.core.routing.resolve import ASKED, SCHEDULE, SLACK_GROUP, find, is_managers
from signoff.core.routing.selection import too_few_seats

_NAMED: Final = 5


class Vacancy(Value):
    """A reference or a role without a person.

    Attributes:
        seat: The reference as in policies: ``queue:finance``, ``schedule:on-call``,
            ``requester.manager``, the id of a person; or ``role operator``.
        why: In words: who is missing, and until when.
    """

    seat: str
    why: str

    def __str__(self) -> str:
        return f"{self.seat}: {self.why}"


def vacancies(
    policies: Sequence[Policy],
    fallback: Fallback,
    directory: Directory,
    *,
    now: datetime,
    ahead: timedelta = timedelta(),
) -> list[Vacancy]:
    """Return the references and roles for which nobody can be asked.

    Args:
        policies: The policies whose references are checked.
        fallback: The default, whose references are checked too.
        directory: The people, with the known absences. All its queues are checked.
        now: The present (UTC).
        ahead: How far ahead schedules are checked for gaps.
    """
    asked = (one for rules in (*policies, fallback) for one in rules.references)
    references = dict.fromkeys((*asked, *(QUEUE + name for name in directory.queues)))
    found = list[Vacancy]()
    for reference in references:
        if reference.startswith(ASKED):
            continue
        if is_managers(reference) or reference == MANAGERS:
            found += _without_manager(reference, directory)
        else:
            found += _without_people(reference, directory, now, ahead)
    return [*dict.fromkeys(found), *_roles(directory, now)]


def unmet(
    terms: Terms, directory: Directory, facts: Facts, *, barred: Collection[str], now: datetime
) -> Iterator[tuple[int, str]]:
    """Yield each level that cannot approve because people are left out: its index, and why.

    Levels whose people are only known when they start are not judged: those with a schedule, a
    Slack group, or managers of an unknown requester. Neither are those that name unknown people.

    Args:
        terms: The terms with the levels.
        directory: The people.
        facts: The facts of a call, as far as they are known.
        barred: Identities of people who never decide, besides the requester.
        now: The moment at which people may be absent (UTC).
    """
    user = str(facts.get("user", ""))
    never, asked = (*barred, *filter(None, [user])), tuple[str, ...]()
    for index, level in enumerate(terms.ladder):
        if level.is_chain or any(_is_open(one, user, asked, directory) for one in level.references):
            asked = ()
            continue
        found = find(level, directory, facts=facts, barred=never, now=now, asked=asked)
        helped = index > 0 and level.earlier is Earlier.STAY and terms.same_phase(index - 1, index)
        asked = found.meant
        if not found.seats:
            yield index, f"nobody can be asked: {_why(found.notes)}"
        elif found.notes and not helped and (short := [*too_few_seats(level, found.seats)]):
            yield index, "; ".join([*short, _why(found.notes)])


def _is_open(reference: str, user: str, asked: Collection[str], directory: Directory) -> bool:
    """Say whether it is not known whom a reference means."""
    if is_managers(reference):
        return not (asked if reference.startswith(ASKED) else user)
    if reference.startswith((SCHEDULE, SLACK_GROUP)):
        return True
    queue = directory.queues.get(reference.removeprefix(QUEUE))
    members = queue.members if queue is not None and reference.startswith(QUEUE) else (reference,)
    return any(directory.record(one) is None for one in members)


def _without_people(
    reference: str, directory: Directory, now: datetime, ahead: timedelta
) -> Iterator[Vacancy]:
    # Only schedules are looked up ahead: other absences are known to those who set them.
    length = ahead if reference.startswith(SCHEDULE) else timedelta()
    for one in shifts(Level(ask=(reference,)), directory, now=now, ahead=length):
        if not one.people:
            zone = directory.zone_of("")
            when = "" if one.start == now else f"from {moment_text(one.start, zone)} on "
            yield Vacancy(seat=reference, why=f"{when}{_why(one.notes)}")
            return


def _why(notes: Sequence[str]) -> str:
    if not notes:
        return "nobody is in it"
    shown = list(notes[:_NAMED])
    more = len(notes) - len(shown)
    return "; ".join([*shown, *([f"and {more:,} more"] if more else [])])


def _without_manager(reference: str, directory: Directory) -> Iterator[Vacancy]:
    """Name the people whose manager is missing, except managers at the top."""
    managers = {one.id: directory.manager_of(one) for one in directory}
    above = {one.id for one in managers.values() if one is not None}
    people = [
        one
        for one in directory
        # People at the top never had a manager, unless one is recorded who has left.
        if managers[one.id] is None and (one.id not in above or directory.record(one.manager))
    ]
    if people:
        left = (directory.record(one.manager) for one in people)
        gone = [f"{one.shown} is not active" for one in dict.fromkeys(left) if one is not None]
        why = f" ({_why(gone)})" if gone else ""
        have = "have" if len(people) > 1 else "has"
        yield Vacancy(seat=reference, why=f"{_names(people)} {have} no manager{why}")


def _roles(directory: Directory, now: datetime) -> Iterator[Vacancy]:
    """Yield the roles whose holders are all away or not active."""
    for role in Role:
        holders = [one for one in (*directory, *directory.inactive) if role in one.roles]
        reasons = [why_gone(one.id, directory, now) for one in holders]
        if holders and all(reasons):
            yield Vacancy(seat=f"role {role.value}", why=_why(reasons))


def _names(people: Sequence[Person]) -> str:
    more = len(people) - _NAMED
    named = ", ".join(one.shown for one in people[:_NAMED])
    return named + (f" and {more:,} more" if more > 0 else "")
