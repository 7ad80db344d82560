"""Answers over a channel that has only text."""

from __future__ import annotations

import asyncio

import pytest

from builders import MARA
from channels.conftest import Channels
from signoff.channels.text_channel import take_text
from signoff.core.approvals.approval import Approval, State
from signoff.core.approvals.events import What
from signoff.core.directory.people import Directory


@pytest.fixture
async def asked(channels: Channels) -> Approval:
    """Return an approval that waits for Mara, who has an address in the channel."""
    approval, _ = await channels.ask()
    mara = MARA.model_copy(update={"addresses": {"chat": "u1"}})
    others = (one for one in channels.directory if one.id != "mara")
    channels.directory.become(Directory([mara, *others]))
    return approval


async def test_a_message_that_comes_twice_is_handled_once(
    channels: Channels, asked: Approval
) -> None:
    """A platform repeats a message whose reply was lost; the comment appears once."""

    async def send(source: str) -> str:
        text = f"{asked.id} comment: I look at it"
        return await take_text(channels.decider, "chat", "u1", text, source=source)

    replies = await asyncio.gather(*(send("1") for _ in range(2)))
    replies.append(await send("1"))
    assert len(set(replies)) == 1
    assert len((await channels.ledger.approval(asked.id)).comments) == 1
    await send("2")
    assert len((await channels.ledger.approval(asked.id)).comments) == 2


async def test_a_refusal_that_comes_twice_is_noted_once(
    channels: Channels, asked: Approval
) -> None:
    """The audit has one entry for one message."""
    for _ in range(2):
        await take_text(channels.decider, "chat", "u1", f"{asked.id} who is that?", source="1")
    events = await channels.ledger.history(asked.id)
    assert [one.what for one in events].count(What.NOT_UNDERSTOOD) == 1


@pytest.mark.parametrize("text", ["{} approve", "{}\napprove\n", "  {}\tapprove"])
async def test_the_answer_may_begin_on_a_line_of_its_own(
    channels: Channels, asked: Approval, text: str
) -> None:
    """Any white space separates the id from the answer."""
    await take_text(channels.decider, "chat", "u1", text.format(asked.id), source="1")
    assert (await channels.ledger.approval(asked.id)).state is State.APPROVED


@pytest.mark.parametrize("text", ["", "   ", "approve"])
async def test_a_text_without_an_id_decides_nothing(
    channels: Channels, asked: Approval, text: str
) -> None:
    """The reply says that there is no such approval."""
    reply = await take_text(channels.decider, "chat", "u1", text, source="1")
    assert "There is no approval" in reply
    assert (await channels.ledger.approval(asked.id)).state is State.PENDING
