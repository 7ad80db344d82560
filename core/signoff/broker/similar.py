"""What people have decided before about requests like one: counted and read from an index."""

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
    """Return how many requests like some ones their people have decided.

    However many that are, it takes one round trip and reads none of them.

    Args:
        ledger: The ledger.
        wanted: Ids of people, each with the approval that they look at.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    able = [(person, one) for person, one in wanted if person and likeness(one)]
    keys = [similar_key(person, one, rejected=no) for person, one in able for no in (False, True)]
    counts = iter([count for count, _ in await ledger.store.extents(keys)])
    found = []
    for pair in wanted:
        decided, rejected = (next(counts), next(counts)) if pair in able else (0, 0)
        # It is not like itself.
        own = answers(pair[1]).get(pair[0])
        rejected -= own is Verdict.REJECT
        found.append(Similar(decided - (own is not None) - rejected, rejected))
    return found


async def latest_similar(ledger: Ledger, person: str, approval: Approval) -> list[Approval]:
    """Return the last fifty requests like one that a person has decided, the newest first.

    Raises:
        LedgerUnavailable: Redis cannot be reached.
    """
    if not likeness(approval):
        return []
    index = similar_key(person, approval)
    rows = await listing.approvals(ledger, index=index, limit=_READ)
    return [one for _, one in rows if one is not None]
