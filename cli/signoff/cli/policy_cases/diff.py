"""What other settings would change for what is pending; nothing is changed by asking."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeGuard

from pydantic import BaseModel, JsonValue, ValidationError

from signoff.channels.forecast import Rulebook, call_facts
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Facts, Terms
from signoff.core.routing.selection import choose, owners_of, terms_for


@dataclass(frozen=True, slots=True)
class Difference:
    """One field of the frozen terms that would be another one.

    Attributes:
        field: Which; ``levels[1].within`` of a level.
        frozen: What rules the approval to its end.
        new: What would rule it if it were asked about now; None where there is no such field.
    """

    field: str
    frozen: JsonValue
    new: JsonValue


@dataclass(frozen=True, slots=True)
class Changed:
    """A pending approval whose terms would be others.

    Attributes:
        approval: The approval.
        differences: Field by field; at least one.
        notes: What stood in the way of choosing, in words.
    """

    approval: Approval
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def differences(
    pending: Iterable[Approval], rules: Rulebook, directory: Directory
) -> list[Changed]:
    """Return the pending approvals whose terms would be others under these settings.

    What has not been routed yet is left out: the settings that the channels run with rule it then.

    Args:
        pending: The approvals that wait.
        rules: The settings.
        directory: The people of these settings, with the absences that were set since.
    """
    return [found for one in pending if (found := _changed(one, rules, directory)) is not None]


class _Ruled(BaseModel):
    """What is looked at of each record: who is asked, and who has voted, is most of it."""

    origin: Origin
    call: ToolCall
    opened_at: datetime
    terms: Terms | None = None


def may_differ(record: str, rules: Rulebook, directory: Directory) -> bool:
    """Say whether the terms of a record may be others under these settings.

    Of thousands that wait most keep their terms, which is seen without reading the whole record.

    Args:
        record: An approval as the ledger has it.
        rules: As for `differences`.
        directory: As for `differences`.
    """
    try:
        seen = _Ruled.model_validate_json(record)
    except ValidationError:
        return True  # reading all of it says what is wrong
    call, origin = seen.call, seen.origin
    facts = call_facts(call.name, call.args, app=origin.app, agent=origin.agent, user=origin.user)
    return seen.terms is not None and not _same(seen.terms, facts, rules, directory, seen.opened_at)


def _same(
    frozen: Terms, facts: Facts, rules: Rulebook, directory: Directory, now: datetime
) -> bool:
    """Say whether a call would have these terms, where that is plain at once."""
    barred = owners_of(rules.owners, facts)
    return terms_for(rules.policies, directory, facts, now=now, barred=barred) == frozen


def _changed(approval: Approval, rules: Rulebook, directory: Directory) -> Changed | None:
    frozen = approval.terms
    if frozen is None:
        return None
    known, barred = approval.facts, owners_of(rules.owners, approval.facts)
    now = approval.opened_at
    if _same(frozen, known, rules, directory, now):
        return None
    choice = choose(rules.policies, rules.default, directory, known, now=now, barred=barred)
    new, notes = choice.terms, choice.notes
    if frozen.policy != new.policy and any(one.problem or one.away for one in approval.asked):
        # It went on to the default because nobody of its policy could be reached.
        default = rules.default.terms(known)
        new, notes = (default, ()) if default.policy == frozen.policy else (new, notes)
    if frozen.second_step:
        new = new.model_copy(update={"second_step": True})
    found = tuple(_compare("", _plain(frozen), _plain(new)))
    if len(frozen.ladder) == len(new.ladder) == 1:
        found = tuple(
            Difference(one.field.removeprefix("levels[0]."), one.frozen, one.new) for one in found
        )
    return Changed(approval, found, notes) if found else None


def _plain(terms: Terms) -> dict[str, JsonValue]:
    """Return terms with their levels spelled out, whichever way the settings have them."""
    plain: dict[str, JsonValue] = terms.model_dump(
        mode="json", exclude={"ask", "levels", *Asking.model_fields}
    )
    return plain | {"levels": [level.model_dump(mode="json") for level in terms.ladder]}


def _compare(at: str, frozen: JsonValue, new: JsonValue) -> Iterable[Difference]:
    """Yield what differs, as deep as both have the same shape."""
    if frozen == new:
        return
    if isinstance(frozen, dict) and isinstance(new, dict):
        for key in dict.fromkeys((*frozen, *new)):
            yield from _compare(f"{at}.{key}" if at else key, frozen.get(key), new.get(key))
    elif _tables(frozen) and _tables(new):
        for index in range(max(len(frozen), len(new))):
            pair = (one[index] if index < len(one) else None for one in (frozen, new))
            yield from _compare(f"{at}[{index}]", *pair)
    else:
        yield Difference(at, frozen, new)


def _tables(value: JsonValue) -> TypeGuard[list[JsonValue]]:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)
