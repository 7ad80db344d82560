"""Cards of people who have lost their seat at the present level have no buttons."""

from __future__ import annotations

from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY
from channels.slack.office import CLEO_AT, MARA_AT, Office
from signoff.broker.timers.departures import Departures
from signoff.core.approvals import moves
from signoff.core.directory.hours import Absence
from signoff.core.directory.people import Person
from signoff.core.policies.policy import Policy

TOM = Person(id="tom", name="Tom Weber", email="tom@example.com", slack="U0TOM")
IN_SLACK = [MARA.model_copy(update={"slack": MARA_AT}), CLEO.model_copy(update={"slack": CLEO_AT})]


@pytest.fixture
def three(office: Office) -> Office:
    """Return the office with Mara, Cleo and Tom in Slack."""
    office.workspace.add("U0TOM", TOM.email)
    office.staff(*IN_SLACK, TOM, RILEY)
    return office


def shown(office: Office, user: str) -> str:
    """Return the text of a person's card."""
    return str(office.card(user)["blocks"])


async def go_on(office: Office) -> None:
    """Route and deliver until nothing is left to do."""
    await office.route()
    await office.deliver()


async def test_a_card_whose_seat_was_reassigned(three: Office) -> None:
    """It says who decides now, and has its buttons again when the seat comes back."""
    approval = await three.open()
    mara, cleo = IN_SLACK
    await three.decider.made(approval.id, moves.Reassign(of=mara, to=cleo, reason="a trip"), mara)
    await go_on(three)
    assert "Cleo Park decides reimburse now" in shown(three, MARA_AT)
    assert "signoff.approve" not in shown(three, MARA_AT)
    assert "signoff.approve" in shown(three, CLEO_AT)

    await three.decider.made(approval.id, moves.Reassign(of=cleo, to=mara, reason="back"), cleo)
    await go_on(three)
    assert "signoff.approve" in shown(three, MARA_AT)
    assert "Mara Lind decides reimburse now" in shown(three, CLEO_AT)
    assert "signoff.approve" not in shown(three, CLEO_AT)


async def test_a_card_whose_place_was_filled_by_a_delegate(three: Office) -> None:
    """Mara leaves after she was asked. Tom answers in her place, and Cleo is still asked."""
    three.policy = Policy(name="large", ask=("mara", "cleo"), quorum=2, within="4h")
    await three.open()
    today = (await three.ledger.now()).date()
    away = Absence(start=today, end=today + timedelta(days=3), delegate="tom")
    mara, cleo = IN_SLACK
    three.staff(mara.model_copy(update={"away": (away,)}), cleo, TOM, RILEY)
    await Departures(three.decider.roster).once()
    await go_on(three)
    assert "signoff.approve" in shown(three, MARA_AT)

    await three.press("approve", user="U0TOM", card=three.card("U0TOM"))
    await go_on(three)
    assert "Somebody has answered reimburse in your place" in shown(three, MARA_AT)
    assert "signoff.approve" not in shown(three, MARA_AT)
    assert "signoff.approve" in shown(three, CLEO_AT)
