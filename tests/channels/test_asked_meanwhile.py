"""People are asked even if the work that asks them is under way when they get their seat."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from signoff.broker.ledger.change import Change
from signoff.broker.work import AskOthers
from signoff.channels.pipeline.results import refuse
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.collaboration import Operator
from signoff.core.base.errors import LedgerError
from signoff.core.directory.people import Directory, Person
from signoff.core.policies.policy import Policy

DAN = Person(id="dan", name="Dan Roe", email="dan@example.com")
EVE = Person(id="eve", name="Eve Moss", email="eve@example.com")
OPERATOR = Operator(name="root (cli)")


@pytest.fixture
def directory() -> Directory:
    """The usual people, and two more."""
    return Directory([MARA, CLEO, RILEY, DAN, EVE])


async def hand_on(office: Channels, approval: Approval, of: Person, to: Person) -> None:
    """Reassign a seat as an operator."""
    move = moves.Reassign(of=of, to=to, reason="on holiday")
    await office.decider.made(approval.id, move, OPERATOR)


def before_the_commit(
    office: Channels, monkeypatch: pytest.MonkeyPatch, happens: Callable[[], Awaitable[None]]
) -> None:
    """Let something happen after `route` has read the approval, and before its first commit."""
    commit, waiting = office.ledger.commit_together, [happens]

    async def later(changes: Sequence[Change]) -> list[LedgerError | None]:
        while waiting:
            await waiting.pop()()
        return await commit(changes)

    monkeypatch.setattr(office.ledger, "commit_together", later)


async def test_a_seat_that_is_handed_on_while_nobody_had_to_be_asked(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mara gets her seat back, for which no card is missing; Eve gets the seat meanwhile."""
    office = channels
    approval, _ = await office.ask()
    await hand_on(office, approval, MARA, DAN)
    await office.router.drain()
    await hand_on(office, approval, DAN, MARA)

    before_the_commit(office, monkeypatch, lambda: hand_on(office, approval, MARA, EVE))
    await office.router.drain()

    after = await office.ledger.approval(approval.id)
    assert after.approvers == {"eve"}
    assert "eve" in {one.person for one in after.asked}


async def test_cards_that_are_refused_while_enough_people_could_answer(
    channels: Channels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The default is asked, although the search for others had just found that nobody is needed."""
    office = channels
    office.policies = (Policy(name="expenses", ask=("mara", "dan"), within="4h"),)
    approval, _ = await office.ask()
    work = AskOthers(approval=approval.id, level_key=approval.level_key)
    await office.ledger.commit(Change().send(work))

    async def refused() -> None:
        for person in ("mara", "dan"):
            was, now = await office.ledger.approval_now(approval.id)
            change = Change()
            refuse(change, was, person, channel="email", reason="no such mailbox", now=now)
            await office.ledger.commit(change)

    before_the_commit(office, monkeypatch, refused)
    await office.router.drain()

    after = await office.ledger.approval(approval.id)
    assert "cleo" in after.approvers
