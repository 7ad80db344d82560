"""Whatever does not count is in the audit, once, by whatever door it came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from signoff.broker.batch import approve_together
from signoff.broker.collaboration import Handling

from builders import CLEO, MARA, RILEY, paused, people
from deciding import Desk
from signoff.broker.grants import Grants
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.text_channel import take_text
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import ApprovalError
from signoff.core.directory.people import Directory, Person

Refused = Callable[[Desk, Approval], Awaitable[object]]

REFUSED: dict[str, tuple[str, Refused]] = {
    "approve": ("riley", lambda desk, one: desk.approve(one.id, RILEY, channel="cli")),
    "reject": ("riley", lambda desk, one: desk.reject(one.id, RILEY, channel="cli")),
    "values": (
        "mara",
        lambda desk, one: desk.approve(one.id, MARA, channel="api", values={"amont": 3}),
    ),
    "confirm": ("mara", lambda desk, one: desk.confirm(one.id, MARA, channel="inbox", mark="x")),
    "withdraw": (
        "mara",
        lambda desk, one: desk.withdraw(one.id, by="mara", reason="x", requester=MARA),
    ),
    "together": ("mara", lambda desk, one: approve_together(desk, one.id, MARA, channel="inbox")),
    "claim": ("riley", lambda desk, one: Handling(desk).claim(one.id, RILEY)),
    "release": ("mara", lambda desk, one: Handling(desk).release(one.id, MARA)),
    "ask": ("riley", lambda desk, one: Handling(desk).ask_back(one.id, RILEY, text="Why?")),
    "comment": ("mara", lambda desk, one: Handling(desk).comment(one.id, MARA, text=" ")),
    "answer": ("mara", lambda desk, one: Handling(desk).answer_back(one.id, MARA, text="x")),
    "extend": (
        "mara",
        lambda desk, one: Handling(desk).extend(
            one.id, MARA, by=timedelta(days=9), reason="holidays"
        ),
    ),
    "reassign": (
        "mara",
        lambda desk, one: Handling(desk).reassign(one.id, MARA, of=MARA, to=CLEO, reason="x"),
    ),
    "remind": ("riley", lambda desk, one: Handling(desk).remind(one.id, CLEO)),
    "grant": (
        "mara",
        lambda desk, one: Grants(desk.ledger).give(one.id, MARA, channel="cli", span=timedelta(hours=1)),
    ),
}


async def refusals(ledger: Ledger, approval: Approval) -> list[Event]:
    """Return what the audit has of answers that do not count."""
    history = await ledger.history(approval.id)
    return [one for one in history if one.what is What.REFUSED_ANSWER]


@pytest.mark.parametrize("name", sorted(set(REFUSED) - {"remind"}))
async def test_a_refusal_at_the_desk_is_audited(ledger: Ledger, name: str) -> None:
    """Who, why, and by which channel where it has one; and nothing else has changed."""
    by, refused = REFUSED[name]
    _, (approval,) = await paused(ledger)
    with pytest.raises(ApprovalError) as error:
        await refused(Desk(ledger, people()), approval)
    (event,) = await refusals(ledger, approval)
    assert (event.by, event.why) == (by, str(error.value))
    after = await ledger.approval(approval.id)
    assert after == approval


async def test_a_late_answer_is_audited_at_every_door(ledger: Ledger) -> None:
    """Whoever comes second is noted, whatever they say."""
    desk = Desk(ledger, people())
    _, (approval,) = await paused(ledger)
    await desk.reject(approval.id, MARA, channel="cli")
    for channel in ("cli", "api", "inbox"):
        with pytest.raises(ApprovalError):
            await desk.approve(approval.id, CLEO, channel=channel)
    found = await refusals(ledger, approval)
    assert [one.more["channel"] for one in found] == ["cli", "api", "inbox"]


async def test_an_answer_that_is_told_of_is_audited_once(ledger: Ledger) -> None:
    """What the person is told of, and what the audit has, is one commit."""
    mara = MARA.model_copy(update={"addresses": {"chat": "m1"}})
    staff = Directory([mara, CLEO, RILEY])
    desk = Desk(ledger, staff)
    _, (approval,) = await paused(ledger)
    await desk.reject(approval.id, CLEO, channel="cli")
    await take_text(desk, "chat", "m1", f"{approval.id} approve", source="1")
    (event,) = await refusals(ledger, approval)
    assert (event.by, event.more["channel"]) == ("mara", "chat")


async def test_the_same_thing_that_comes_twice_is_no_refusal(ledger: Ledger) -> None:
    """What was done before is done; to note a refusal would be wrong."""
    from signoff.broker.ledger.change import Change

    desk = Desk(ledger, people())
    _, (approval,) = await paused(ledger)

    def once() -> Change:
        return Change().put_raw("form:1", "1", ttl=timedelta(hours=1))

    await desk.approve(approval.id, MARA, channel="inbox", also=once())
    with pytest.raises(ApprovalError):
        await desk.approve(approval.id, MARA, channel="inbox", also=once())
    assert await refusals(ledger, approval) == []


def test_the_doors_of_this_table_are_all() -> None:
    """Each public move of the desk, of handling and of grants is refused in the table above."""
    wanted = {"approve", "reject", "confirm", "withdraw"}
    moves = {name for name in vars(Handling) if not name.startswith("_")}
    named = {"ask_back": "ask", "answer_back": "answer"}
    assert wanted | {named.get(one, one) for one in moves} <= set(REFUSED)
    assert isinstance(MARA, Person)
