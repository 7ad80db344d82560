"""The versions of the policies in the ledger, recorded by each process that routes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from pydantic import TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.core.approvals.events import Event, What
from signoff.core.policies.history import PolicyVersion, fresh_versions
from signoff.core.policies.policy import Fallback, Policy

KEY: Final = "policies"

_RECORD: Final = TypeAdapter(tuple[PolicyVersion, ...])
_MOST: Final = 1000
"""How many of the latest versions are stored, and the latest of each policy; the audit has all."""


async def history(ledger: Ledger) -> tuple[PolicyVersion, ...]:
    """Return the stored versions, the oldest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
        RecordUnreadable: A newer version of Signoff has written the record.
    """
    return _read(await ledger.raw(KEY))


async def note_policies(
    ledger: Ledger, policies: Sequence[Policy], fallback: Fallback, *, by: str
) -> tuple[PolicyVersion, ...]:
    """Record the policies that are new or have changed, and return their versions.

    Args:
        ledger: The ledger.
        policies: The policies of the settings, in order.
        fallback: The default.
        by: Who has loaded the settings, for the audit.

    Raises:
        LedgerError: The commit failed.
    """

    async def attempt() -> tuple[PolicyVersion, ...]:
        record = await ledger.raw(KEY)
        known = _read(record)
        fresh = fresh_versions(known, policies, fallback, now=await ledger.now(), by=by)
        if not fresh:
            return ()
        was = {one.policy: one.version for one in known}
        every = (*known, *fresh)
        # Without its latest version, an unchanged policy would count as new at the next load.
        latest = {one.policy: one for one in every}.values()
        kept = (*(one for one in every[:-_MOST] if one in latest), *every[-_MOST:])
        data = _RECORD.dump_json(kept, exclude_defaults=True).decode()
        change = Change().put_raw(KEY, data, was=record[0] if record else 0)
        change.note(_event(one, was.get(one.policy, "")) for one in fresh)
        await ledger.commit(change)
        return fresh

    return await ledger.decide_again(attempt)


def _event(one: PolicyVersion, was: str) -> Event:
    more = {"policy": one.policy, "version": one.version, "was": was}
    return Event(
        what=What.POLICY_CHANGED,
        at=one.at,
        by=one.by,
        more={name: value for name, value in more.items() if value},
    )


def _read(record: tuple[int, str] | None) -> tuple[PolicyVersion, ...]:
    return legible(_RECORD, KEY, record, ())
