"""Compares the frozen terms of pending approvals with other settings; nothing is changed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Final, TypeGuard

from pydantic import BaseModel, ConfigDict, JsonValue, ValidationError

from signoff.channels.forecast import Rulebook, call_facts
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.parts import Origin, ToolCall
from signoff.core.directory.people import Directory
from signoff.core.policies.levels import Asking
from signoff.core.policies.policy import Facts, Terms
from signoff.core.routing.selection import choose, owners_of, terms_for


@dataclass(frozen=True, slots=True)
class Difference:
    """A field of the frozen terms that would have another value.

    Attributes:
        field: The path of the field, such as ``levels[1].within``.
        frozen: The value that applies to the approval until its end.
        new: The value that would apply if the call were asked about now; None without such a field.
    """

    field: str
    frozen: JsonValue
    new: JsonValue


@dataclass(frozen=True, slots=True)
class Changed:
    """A pending approval whose terms would differ.

    Attributes:
        approval: The approval.
        differences: The fields that differ; at least one.
        notes: Why the preferred policy or approvers could not be chosen, in words.
    """

    approval: Approval
    differences: tuple[Difference, ...]
    notes: tuple[str, ...]


def differences(
    pending: Iterable[Approval], rules: Rulebook, directory: Directory
) -> list[Changed]:
    """Return the pending approvals whose terms would differ under these settings.

    The people have their current absences. Approvals that are not routed yet are left out: the
    channels route them by their own settings.
    """
    known: _Known = {}
    return [found for one in pending if (found := _changed(one, rules, directory, known))]


class _Ruled(BaseModel):
    """The part of a record that is compared; the rest, such as votes, is most of the record."""

    model_config = ConfigDict(defer_build=True)

    origin: Origin
    call: ToolCall
    opened_at: datetime
    terms: Terms | None = None


def may_differ(record: str, rules: Rulebook, directory: Directory) -> bool:
    """Return whether the terms of a record may differ under these settings.

    Most of the pending approvals keep their terms, and seeing that needs only a part of the record.

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
    """Return whether a call would certainly have these terms."""
    barred = owners_of(rules.owners, facts)
    new = terms_for(rules.policies, directory, facts, now=now, barred=barred)
    # A changed condition that still matches changes only the version.
    return new is not None and all(getattr(new, one) == getattr(frozen, one) for one in _COMPARED)


_Known = dict[tuple[str, str], tuple[Difference, ...]]
"""Differences by the JSON of both terms: thousands of approvals share the same terms."""

_COMPARED: Final = tuple(name for name in Terms.model_fields if name != "version")


def _changed(
    approval: Approval, rules: Rulebook, directory: Directory, differing: _Known
) -> Changed | None:
    frozen = approval.terms
    if frozen is None:
        return None
    known, barred = approval.facts, owners_of(rules.owners, approval.facts)
    now = approval.opened_at
    choice = choose(rules.policies, rules.default, directory, known, now=now, barred=barred)
    new, notes = choice.terms, choice.notes
    if frozen.policy != new.policy and any(one.problem or one.away for one in approval.asked):
        # The default was asked because nobody of the policy could be reached.
        default = rules.default.terms(known)
        new, notes = (default, ()) if default.policy == frozen.policy else (new, notes)
    if frozen.second_step:
        new = new.model_copy(update={"second_step": True})
    both = frozen.model_dump_json(), new.model_dump_json()
    if (found := differing.get(both)) is None:
        found = differing[both] = _between(frozen, new)
    return Changed(approval, found, notes) if found else None


def _between(frozen: Terms, new: Terms) -> tuple[Difference, ...]:
    found = tuple(_compare("", _plain(frozen), _plain(new)))
    if len(frozen.ladder) == len(new.ladder) == 1:
        found = tuple(
            Difference(one.field.removeprefix("levels[0]."), one.frozen, one.new) for one in found
        )
    return found


def _plain(terms: Terms) -> dict[str, JsonValue]:
    """Return terms as JSON with explicit levels, however the settings write them."""
    plain: dict[str, JsonValue] = terms.model_dump(
        mode="json", exclude={"version", "ask", "levels", *Asking.model_fields}
    )
    return plain | {"levels": [level.model_dump(mode="json") for level in terms.ladder]}


def _compare(at: str, frozen: JsonValue, new: JsonValue) -> Iterable[Difference]:
    """Yield the differences, as deep as both values have the same shape."""
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
