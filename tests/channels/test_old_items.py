"""Outbox items of the last release have the same effect here."""

from __future__ import annotations

from pydantic import JsonValue

from builders import MARA
from channels.conftest import Channels
from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.channels.pipeline.port import Kind


async def replace(channels: Channels, stage: str, *bodies: dict[str, JsonValue]) -> None:
    """Replace a stage's waiting items by those of the last release."""
    waiting = (await channels.ledger.claim(stage)).items
    change = Change()
    for item, body in zip(waiting, bodies, strict=True):
        change.ack(item).send_raw(stage, item.id, body)
    await channels.ledger.commit(change)


async def test_items_of_the_last_release_are_processed(channels: Channels) -> None:
    """It is routed, its card is delivered, and the person is told about the end."""
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
    await channels.decider.approve(approval.id, MARA, channel="email")
    await replace(channels, mail, {"kind": "outcome", **about})
    change = Change()
    ends: dict[str, dict[str, JsonValue]] = {
        "unheard": {"problem": "gone"},
        "end": {"end": True, "said": "x"},
    }
    for name, end in ends.items():
        change.send_raw(mail, f"{name}:{approval.id}:mara", {"kind": "outcome", **about, **end})
    await channels.ledger.commit(change)
    await channels.delivery.drain()

    said = {(one.kind, one.good): one for one in channels.channel.delivered}
    assert len(said) == len(channels.channel.delivered) == 6
    card = said[Kind.CARD, False]
    assert (card.token, card.id) == ("t" * 26, f"card:{approval.id}:mara")
    notice, question = said[Kind.NOTICE, False], said[Kind.QUESTION, False]
    assert (notice.headline, notice.token) == ("Noted", "t" * 26)
    assert question.address == "m@x.example"
    assert said[Kind.OUTCOME, True].thread == said[Kind.END, True].thread != ""
    assert "gone" in said[Kind.OUTCOME, False].text
    assert (await channels.ledger.backlog())[mail] == 0


async def test_unknown_item_is_put_back_and_does_not_block_others(channels: Channels) -> None:
    """It is put back, and the item beside it is routed."""
    approval = await channels.open()
    odd = {"approval": approval.id, "turn": "", "votes": "many"}
    await channels.ledger.commit(Change().send_raw(stages.ROUTE, "odd", odd))
    await channels.router.drain()
    assert len((await channels.ledger.claim(stages.deliver("email"))).items) == 1
    assert (await channels.ledger.backlog())[stages.ROUTE] == 1
