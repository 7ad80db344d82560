"""An index lists the approvals that reach nobody, so no other record is read."""

from __future__ import annotations

from builders import CLEO, MARA, paused
from signoff.broker.ledger.change import UNREACHABLE, Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.rebuild import rebuild
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval


async def _refused(ledger: Ledger, was: Approval) -> Approval:
    """Mark every card of an approval as refused."""
    new = was
    for person in (MARA, CLEO):
        new, _ = deliveries.undelivered(new, person.id, "email", "no mailbox", now=was.opened_at)
    await ledger.commit(Change().put(new, was=was))
    return await ledger.approval(was.id)


async def _found(ledger: Ledger) -> list[str]:
    return [one.id for one in await ledger.unreachable()]


async def _indexed(ledger: Ledger) -> list[str]:
    return list(await ledger.store.members(UNREACHABLE))


async def test_an_unreachable_approval_is_indexed_until_a_card_arrives(ledger: Ledger) -> None:
    """An approval is listed from its last refused card until a card arrives or it ends."""
    _, made = await paused(ledger, siblings=3)
    assert await _indexed(ledger) == []
    first, second = [await _refused(ledger, one) for one in made[:2]]
    assert sorted(await _indexed(ledger)) == sorted([first.id, second.id])
    assert await _found(ledger) == await _indexed(ledger)
    now = first.opened_at
    reached, _ = deliveries.delivered(first, "cleo", "email", "<1@x>", now=now)
    ended, _ = second.withdraw(by="riley", now=now, reason="over")
    await ledger.commit(Change().put(reached, was=first))
    await ledger.commit(Change().put(ended, was=second))
    assert await _found(ledger) == []
    assert await _indexed(ledger) == []


async def test_records_of_the_last_release_are_found(ledger: Ledger) -> None:
    """They are not in the index: the next due ones are checked, and a rebuild adds all."""
    _, (made,) = await paused(ledger)
    await _refused(ledger, made)
    async with ledger.store.translated_client() as client:
        await client.delete(ledger.store.prefix + UNREACHABLE)
    assert await _found(ledger) == [made.id]
    assert await _indexed(ledger) == []
    await rebuild(ledger)
    assert await _indexed(ledger) == [made.id]
