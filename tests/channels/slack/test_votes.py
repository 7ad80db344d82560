"""Open cards in Slack show the votes, and end up with the correct state."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY
from channels.slack.office import CLEO_AT, MARA_AT, Office
from channels.slack.workspace import BOT, NoLimit
from signoff.broker.timers.reconciler import Reconciler
from signoff.channels.pipeline.deliver import Delivery
from signoff.channels.pipeline.port import Kind, Message, Result
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.outbound.conversations import Conversations
from signoff.core.approvals import moves
from signoff.core.approvals.approval import State
from signoff.core.directory.people import Person
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Policy

TOM = Person(id="tom", name="Tom Weber", email="tom@example.com", slack="U0TOM")


@pytest.fixture
def three(office: Office) -> Office:
    """Return the office; two of Mara, Cleo and Tom have to approve."""
    office.workspace.add("U0TOM", TOM.email)
    office.staff(
        MARA.model_copy(update={"slack": MARA_AT}),
        CLEO.model_copy(update={"slack": CLEO_AT}),
        TOM,
        RILEY,
    )
    office.policy = Policy(
        name="expenses", ask=("mara", "cleo", "tom"), quorum=2, veto=False, within="4h"
    )
    return office


def shown(office: Office, user: str) -> str:
    """Return the text of a person's card."""
    return str(office.card(user)["blocks"])


async def test_all_open_cards_show_votes_and_remaining_approvers(three: Office) -> None:
    """An approval shows on all three cards, also the voter's; the second one ends them."""
    approval = await three.open()
    assert "0 of 2 have approved\\nStill asked: Mara Lind, Cleo Park, Tom Weber" in shown(
        three, MARA_AT
    )
    await three.press("approve")
    await three.deliver()
    for user in (MARA_AT, CLEO_AT, "U0TOM"):
        said = "1 of 2 have approved: Mara Lind\\nStill asked: Cleo Park, Tom Weber"
        assert said in shown(three, user)
        assert three.card(user)["edits"] == 1
        assert "signoff.approve" in shown(three, user)
    await three.press("approve", user="U0TOM", card=three.card("U0TOM"))
    await three.deliver()
    assert (await three.ledger.approval(approval.id)).state is State.APPROVED
    for user in (MARA_AT, CLEO_AT, "U0TOM"):
        assert three.card(user)["edits"] == 2
        assert "signoff.approve" not in shown(three, user)


async def test_several_moves_cause_one_card_update(three: Office) -> None:
    """A card is written once for all moves before."""
    approval = await three.open()
    for number in range(10):
        await three.decider.made(approval.id, moves.Comment(text=f"comment {number}"), MARA)
    await three.decider.approve(approval.id, MARA, channel="cli")
    await three.decider.reject(approval.id, MARA, channel="cli")
    await three.deliver()
    for user in (MARA_AT, CLEO_AT, "U0TOM"):
        assert three.card(user)["edits"] == 1
        assert "comment 9" in shown(three, user)
        assert "0 of 2 have approved; against it: Mara Lind" in shown(three, user)


async def test_cards_are_not_updated_with_votes_after_the_end(three: Office) -> None:
    """Votes that are not on the cards at the end are not added."""
    approval = await three.open()
    await three.decider.approve(approval.id, MARA, channel="cli")
    await three.decider.approve(approval.id, CLEO, channel="cli")
    await three.deliver()
    await three.deliver()
    assert [one["edits"] for one in three.workspace.cards() if one.get("metadata")] == [1, 1, 1]
    assert "Mara Lind and Cleo Park approved" in shown(three, "U0TOM")


class _Overtaken(SlackChannel):
    """Delivers its first update only after a newer one has been delivered."""

    def __init__(self, office: Office, approval: str, person: Person) -> None:
        super().__init__(
            office.web,
            Conversations(office.web, office.ledger, app=BOT),
            NoLimit(office.ledger),
        )
        self.office, self.approval, self.person = office, approval, person
        self.overtaken = False

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """See `Channel`."""
        if not self.overtaken and any(one.kind is Kind.UPDATE for one in messages):
            self.overtaken = True
            await self.office.decider.approve(self.approval, self.person, channel="cli")
            await self.office.deliver()
        return await super().deliver(messages)


@pytest.mark.parametrize("ends", [False, True])
async def test_an_update_that_was_overtaken_does_not_stay(three: Office, *, ends: bool) -> None:
    """An older update that arrives last is corrected, on an open or an ended card."""
    three.policy = three.policy.model_copy(update={"quorum": 2 if ends else 3})
    approval = await three.open()
    await three.decider.approve(approval.id, MARA, channel="cli")
    slow = Delivery(three.ledger, _Overtaken(three, approval.id, CLEO), directory=three.directory)
    await slow.drain()
    await three.deliver()
    for user in (MARA_AT, CLEO_AT, "U0TOM"):
        if ends:
            assert "signoff.approve" not in shown(three, user)
            assert "approved reimburse" in shown(three, user)
        else:
            assert "2 of 3 have approved: Mara Lind, Cleo Park" in shown(three, user)


async def test_cards_of_earlier_approvers_show_the_current_level_and_its_votes(
    three: Office,
) -> None:
    """An approver of an earlier level sees the current level and its votes."""
    three.policy = Policy(
        name="expenses",
        levels=(
            Level(name="first", ask=("mara",), within="1h"),
            Level(name="second", ask=("cleo", "tom"), quorum=2, within="1h", earlier="stay"),
        ),
    )
    await three.open()
    three.clock.advance(timedelta(hours=1))
    await Reconciler(three.decider.roster).once()
    await three.route()
    await three.deliver()
    assert "Level second" in shown(three, MARA_AT)
    assert "Still asked: Cleo Park, Tom Weber, Mara Lind" in shown(three, MARA_AT)
    await three.press("approve", user=CLEO_AT, card=three.card(CLEO_AT))
    await three.deliver()
    for user in (MARA_AT, CLEO_AT, "U0TOM"):
        assert "1 of 2 have approved: Cleo Park" in shown(three, user)
