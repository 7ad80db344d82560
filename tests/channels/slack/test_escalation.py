"""Levels in Slack: reminders, escalations, and refusals of expired cards."""

from __future__ import annotations

from datetime import timedelta

from builders import MARA
from channels.slack.office import CLEO_AT, MARA_AT, Office
from signoff.broker.timers.reconciler import Reconciler
from signoff.core.approvals.approval import State
from signoff.core.policies.levels import Level
from signoff.core.policies.policy import Policy

HOUR = timedelta(hours=1)


async def later(office: Office, time: timedelta) -> None:
    """Advance the clock, and do the due work."""
    office.clock.advance(time)
    await Reconciler(office.decider.roster).once()
    await office.route()
    while await office.deliver():
        pass


def texts(office: Office, user: str) -> str:
    """Return all texts of a person's conversation with the app."""
    return str([one["blocks"] for one in office.workspace.cards(f"D{user[1:]}")])


async def test_a_card_of_a_level_that_is_over(office: Office) -> None:
    """It names the next level; a click gets that answer, and the next level decides."""
    office.policy = Policy(
        name="expenses",
        levels=(
            Level(ask=("mara",), within="1h", remind=("30m",), channels=("slack",)),
            Level(name="finance", ask=("cleo",), within="1h", channels=("slack",)),
        ),
    )
    approval = await office.open()
    click = office.click("approve")

    await later(office, HOUR / 2)
    (_, reminder, *_) = office.workspace.messages[f"D{MARA_AT[1:]}"].values()
    assert "A reminder: reimburse waits for your answer" in str(reminder["blocks"])
    assert reminder["thread_ts"] == office.card()["ts"]

    await later(office, HOUR / 2)
    assert "was escalated to finance" in texts(office, MARA_AT)
    assert "'signoff.approve'" not in texts(office, MARA_AT)

    await office.handler.handle(click)
    await office.deliver()
    assert "went on to finance" in str(office.workspace.whispers[-1]["blocks"])
    assert (await office.ledger.approval(approval.id)).state is State.PENDING

    await office.press("approve", user=CLEO_AT, card=office.card(CLEO_AT))
    after = await office.ledger.approval(approval.id)
    assert after.decision is not None
    assert (after.state, after.decision.by) == (State.APPROVED, "cleo")
    assert MARA.id not in after.decided_by
