"""A process that knows how people are reached addresses the messages about its own commits."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from builders import CLEO, MARA, RILEY
from channels.conftest import Channels
from channels.test_informing import ANN, Firm, told, usual
from signoff.broker.announcements import Announcer
from signoff.broker.heartbeat import TTL, beat
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval, State
from signoff.core.directory.people import Directory
from signoff.core.routing.targets import Reach
from signoff.testing import VirtualClock

MAIL = Reach(["email"])
SLACK = Reach(["slack", "email"])


def said(reach: Reach | str = MAIL, *, rules: str = "r") -> str:
    """Return what a channels process says of itself."""
    text = reach if isinstance(reach, str) else reach.text
    return json.dumps({"rules": rules, "problem": "", "reach": text})


@pytest.fixture
def firm(still_channels: Channels) -> Firm:
    """Return a firm in which Riley has Slack."""
    firm = Firm(still_channels)
    firm.staff(MARA, CLEO, ANN, RILEY.model_copy(update={"slack": "U0RILEY"}))
    return firm


async def decided(firm: Firm, *states: str) -> Approval:
    """Approve a request in a process that has heard these channels processes."""
    approval = await firm.channels.open()
    await firm.work()
    firm.ledger.announcer = announcer = Announcer(firm.channels.directory)
    announcer.listen(states, "r")
    return await firm.channels.decider.approve(approval.id, MARA, channel="email")


async def waiting(firm: Firm) -> dict[str, int]:
    """Return how many items wait in the stages of the channels."""
    found = await firm.ledger.backlog()
    return {one: count for one, count in found.items() if count and not one.startswith("resume")}


@pytest.mark.parametrize("reach", [MAIL, SLACK], ids=["mail", "Slack"])
async def test_the_commit_of_the_decision_addresses_its_messages(firm: Firm, reach: Reach) -> None:
    """Ann gets a mail, and Riley a message in Slack, if it is set up; `route` has nothing to do."""
    await decided(firm, said(reach), said(reach))
    mails, others = (3, {}) if reach is MAIL else (2, {"deliver.slack": 1})
    assert await waiting(firm) == {"deliver.email": mails, **others}


@pytest.mark.parametrize(
    "states",
    [
        (),
        ("1",),
        ("",),
        ('{"rules": "r", "problem": ""}',),
        (said(), '{"rules": "r", "problem": ""}'),
        (said(), said(SLACK)),
        (said(), said(Reach(["email"], ["partner.example"]))),
        (said(), said(rules="other people")),
        (said(rules="other people"),),
        (said('{"in": "a later form"}'),),
        (said("7"),),
        (said("no JSON"),),
    ],
)
async def test_the_stage_route_addresses_otherwise(firm: Firm, states: tuple[str, ...]) -> None:
    """No channels process is alive, one is of another release, or they do not agree."""
    await decided(firm, *states)
    assert await waiting(firm) == {"route": 1, "deliver.email": 1}
    assert ("ann", "Mara Lind approved reimburse") in told(await firm.work())


async def test_people_of_a_reload_are_not_addressed_at_once(firm: Firm) -> None:
    """The channels processes may not have read the new people yet."""
    approval = await firm.channels.open()
    await firm.work()
    firm.ledger.announcer = announcer = Announcer(firm.channels.directory)
    announcer.listen([said()], "r")
    firm.channels.directory.become(Directory([MARA, CLEO, ANN]))
    await firm.channels.decider.approve(approval.id, MARA, channel="email")
    assert await waiting(firm) == {"route": 1, "deliver.email": 1}


async def test_an_escalation_goes_through_route(firm: Firm, clock: VirtualClock) -> None:
    """The stage knows who gets a card, and therefore no message."""
    levels = [{"ask": ["mara"], "within": "1h"}, {"ask": ["cleo"], "within": "1h"}]
    firm.channels.policies = (usual(ask=(), levels=levels),)
    approval = await firm.channels.open()
    await firm.work()
    firm.ledger.announcer = announcer = Announcer(firm.channels.directory)
    announcer.listen([said()], "r")
    clock.advance(timedelta(hours=1))
    await firm.channels.decider.time_out(approval.id)
    assert (await waiting(firm))["route"] == 2


async def test_a_message_that_cannot_be_addressed_does_not_stop_the_decision(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stage `route` tries again."""

    def broken(*_args: object) -> None:
        raise RuntimeError("no such person")

    monkeypatch.setattr("signoff.broker.announcements.statuses", broken)
    approval = await decided(firm, said())
    assert approval.state is State.APPROVED
    assert await waiting(firm) == {"route": 1, "deliver.email": 1}


async def test_a_heartbeat_hears_living_channels_processes(
    still_ledger: Ledger, clock: VirtualClock
) -> None:
    """It does not hear other processes, or those that have ended."""
    await beat(still_ledger, "channels", "old/1", "gone")
    clock.advance(timedelta(seconds=TTL))
    await beat(still_ledger, "channels", "host/1", said())
    await beat(still_ledger, "channels", "host/2")
    await beat(still_ledger, "gateway", "host/3", "not heard")
    heard = await beat(still_ledger, "worker", "host/4", "not heard")
    assert (heard.set_back, sorted(heard.channels)) == (0, ["1", said()])
