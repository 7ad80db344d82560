"""Compares settings entry by entry, and finds pending approvers that new settings remove."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pydantic import BaseModel

from signoff.cli.config.settings import RULES, Settings
from signoff.core.approvals.approval import Approval

_NAMED: Final = {"people": "id", "queues": "name", "schedules": "name", "policies": "name"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A difference: a person, queue, schedule or policy, or a table without names.

    Attributes:
        section: Its table: ``people``.
        name: Its id or name; the name of the table if it has no names.
        change: ``added``, ``removed`` or ``changed``.
        fields: Which of its fields have changed.
    """

    section: str
    name: str
    change: str
    fields: tuple[str, ...] = ()


def entries(old: Settings, new: Settings) -> Iterator[Entry]:
    """Yield the differences, in the order of the sections."""
    for section, key in _NAMED.items():
        before: dict[str, BaseModel] = {getattr(one, key): one for one in getattr(old, section)}
        after: dict[str, BaseModel] = {getattr(one, key): one for one in getattr(new, section)}
        for name in dict.fromkeys((*before, *after)):
            if name not in after or name not in before:
                yield Entry(section, name, "added" if name in after else "removed")
            elif fields := _fields(before[name], after[name]):
                yield Entry(section, name, "changed", fields)
        order = [name for name in before if name in after]
        if section == "policies" and order != [name for name in after if name in before]:
            yield Entry(section, "the order", "changed")
    for section in sorted(RULES - set(_NAMED)):
        if fields := _fields(getattr(old, section), getattr(new, section)):
            yield Entry(section, section, "changed", fields)


def gone(pending: Iterable[Approval], new: Settings) -> dict[str, list[str]]:
    """Return the approvers, by approval, who are asked but not active in the new settings."""
    people = new.everybody
    found = {
        one.id: [who for who in one.ballot.awaited if people.get(who) is None] for one in pending
    }
    return {approval: left for approval, left in found.items() if left}


def _fields(before: BaseModel, after: BaseModel) -> tuple[str, ...]:
    names = type(after).model_fields
    return tuple(name for name in names if getattr(before, name) != getattr(after, name))
