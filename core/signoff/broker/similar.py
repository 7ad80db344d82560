"""Earlier decisions of a person about similar requests: counted and read from an index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from signoff.broker.ledger import listing
from signoff.broker.ledger.change import similar_key
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lists.similar import Similar, answers, likeness
from signoff.core.policies.levels import Verdict

_READ: Final = 50


async def count_similar(ledger: Ledger, wanted: Sequence[tuple[str, Approval]]) -> list[Similar]:
    """Count, for pairs of a person and an approval, the similar requests that the person decided.

    It takes one round trip for any number of requests, and reads none of them.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    pairs = [
        (similar_key(person, one), similar_key(person, one, rejected=True))
        if person and likeness(one)
        else None
        for person, one in wanted
    ]
    # Most requests of a batch are similar to each other.
    keys = dict.fromkeys(key for pair in pairs if pair for key in pair)
    sizes = dict(zip(keys, await ledger.store.sizes(keys), strict=True))
    found = []
    for (person, one), pair in zip(wanted, pairs, strict=True):
        decided, rejected = (sizes[key] for key in pair) if pair else (0, 0)
        # The approval itself does not count.
        own = answers(one).get(person)
        rejected -= own is Verdict.REJECT
        found.append(Similar(decided - (own is not None) - rejected, rejected))
    return found


async def latest_similar(ledger: Ledger, person: str, approval: Approval) -> list[Approval]:
    """Return the last fifty similar requests that a person has decided, the newest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    if not likeness(approval):
        return []
    index = similar_key(person, approval)
    rows = await listing.approvals(ledger, index=index, limit=_READ)
    return [one for _, one in rows if one is not None]
