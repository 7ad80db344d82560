"""The members of groups on a channel's platform, as last read, in the ledger."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible

Groups = Mapping[str, tuple[str, ...]]
"""The ids of people by the id of a Slack user group."""

KEY = "groups"
_RECORD: TypeAdapter[dict[str, tuple[str, ...]]] = TypeAdapter(dict[str, tuple[str, ...]])


def read_groups(record: tuple[int, str] | None) -> Groups:
    """Return the groups in a record.

    Raises:
        RecordUnreadable: A newer version of Signoff has written it.
    """
    return legible(_RECORD, KEY, record, {})


async def keep_groups(ledger: Ledger, found: Groups) -> bool:
    """Record the members of groups, besides the known groups, and return whether that is new.

    Raises:
        LedgerError: The commit failed.
    """

    async def attempt() -> bool:
        record = await ledger.raw(KEY)
        known = read_groups(record)
        after = {**known, **found}
        if after == dict(known):
            return False
        data = _RECORD.dump_json(after).decode()
        await ledger.commit(Change().put_raw(KEY, data, was=record[0] if record else 0))
        return True

    return await ledger.decide_again(attempt)
