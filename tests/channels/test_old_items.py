"""Items of the last release in the outboxes do what they would have done there."""

from __future__ import annotations

from builders import MARA
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.port import Kind


async def replace(channels, stage: str, *bodies: dict) -> None:
    """Take out what waits at a stage, and put in what the last release would have."""
    waiting = (await channels.ledger.claim(stage)).items
    change = Change()
    for item, body in zip(waiting, bodies, strict=True):
        change.ack(item).send_raw(stage, item.id, body)
    await channels.ledger.commit(change)


async def test_an_approval_goes_its_way_by_items_of_the_last_release(channels):
    """It is routed, its card is delivered, and the person is told how it ended."""
    approval, mail = await channels.open(), stages.deliver("email")
    about = {"approval": approval.id, "person": "mara"}
    await replace(channels, stages.ROUTE, {"approval": approval.id})
    await channels.router.drain()
    await replace(channels, mail, {"kind": "card", **about, "token": "t" * 26})
    await channels.delivery.drain()
    change = Change()
    for name, body in {
        "notice:done:1": {"kind": "notice", "headline": "Noted", "token": "t" * 26},
        "notice:done:2": {"kind": "question", "headline": "Which team?", "address": "m@x.example"},
    }.items():
        change.send_raw(mail, name, {**about, **body})
    await channels.ledger.commit(change)
    await channels.delivery.drain()
    await channels.desk.approve(approval.id, MARA, channel="email")
    await replace(channels, mail, {"kind": "outcome", **about})
    change = Change()
    for name, body in {"unheard": {"problem": "gone"}, "end": {"end": True, "said": "x"}}.items():
        change.send_raw(mail, f"{name}:{approval.id}:mara", {"kind": "outcome", **about, **body})
    await channels.ledger.commit(change)
    await channels.delivery.drain()

    card, notice, question, outcome, *ends = channels.channel.delivered
    assert (card.kind, card.token, card.id) == (
        Kind.CARD,
        "t" * 26,
        f"card:{approval.id}:mara",
    )
    assert (notice.kind, notice.headline, notice.token) == (Kind.NOTICE, "Noted", "t" * 26)
    assert (question.kind, question.address) == (Kind.QUESTION, "m@x.example")
    assert (outcome.kind, outcome.good) == (Kind.OUTCOME, True)
    assert {(one.kind, one.good) for one in ends} == {(Kind.OUTCOME, False), (Kind.END, True)}
    assert "gone" in str([one.text for one in ends])
    assert (await channels.ledger.backlog())[mail] == 0


async def test_an_item_that_no_version_understands_stops_nobody(channels):
    """It is put back; what waits beside it is routed."""
    approval = await channels.open()
    odd = {"approval": approval.id, "turn": "", "votes": "many"}
    await channels.ledger.commit(Change().send_raw(stages.ROUTE, "odd", odd))
    await channels.router.drain()
    assert len((await channels.ledger.claim(stages.deliver("email"))).items) == 1
    assert (await channels.ledger.backlog())[stages.ROUTE] == 1
