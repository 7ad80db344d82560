"""What every channel does; a new one is added to `harnesses` and has to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from builders import MARA, NOON, asked_approval, people
from signoff.channels.email.sender import EmailChannel
from signoff.channels.port import Channel, Delivered, Kind, Message, Refused, Retry
from signoff.channels.tokens import new_token
from signoff.core.card import card
from signoff.testing import FakeChannel

BAD = "nobody@example.com"


@dataclass
class Harness:
    """A channel, and how to make the other end of it misbehave."""

    channel: Channel
    sink: Any = None
    refused: set[str] = field(default_factory=set)

    def refuse(self, address: str) -> None:
        """Make the other end turn this address away for ever."""
        self.refused.add(address)
        if self.sink is not None:
            self.sink.answers[f"RCPT {address}"] = "550 5.1.1 No such user"

    def delay(self, address: str) -> None:
        """Make the other end turn this address away for now."""
        if self.sink is not None:
            self.sink.answers[f"RCPT {address}"] = "450 4.2.1 Greylisted"

    def arrived(self) -> int:
        """Return how many messages arrived at the other end."""
        return len(self.sink.mails) if self.sink else len(self.channel.delivered)


def message(approval: str = "", /, **parts: Any) -> Message:
    """Return a card for Mara, with other parts where they are given."""
    shown = card(asked_approval(), people())
    person = parts.pop("person", "mara")
    usual = Message(
        id=f"card:{approval or shown.approval}:{person}",
        kind=Kind.CARD,
        card=shown,
        person=person,
        name=MARA.shown,
        address=MARA.email,
        at=NOON,
        token=new_token(),
    )
    return replace(usual, **parts)


@pytest.fixture(params=["fake", "email"])
async def harness(request: pytest.FixtureRequest, start_sink: Any) -> AsyncIterator[Harness]:
    """Each channel in turn."""
    if request.param == "email":
        sink = await start_sink()
        yield Harness(EmailChannel(sink.settings()), sink)
        return
    made: Harness

    def respond(message: Message) -> Delivered | Refused | Retry:
        if message.address in made.refused:
            return Refused("no such user")
        return (
            Retry(0, "later") if message.address == "later@example.com" else Delivered(message.id)
        )

    made = Harness(FakeChannel(respond=respond))
    yield made


async def test_it_has_a_name(harness):
    """The name is the last part of its stage, so it is plain and without dots."""
    assert harness.channel.name.isidentifier()


async def test_nothing_to_deliver_is_nothing_to_do(harness):
    """An empty batch has no results."""
    assert await harness.channel.deliver([]) == []


@pytest.mark.parametrize("kind", list(Kind))
async def test_every_kind_is_delivered(harness, kind):
    """Cards, outcomes and notices arrive, each with a receipt."""
    parts = {} if kind is Kind.CARD else {"headline": "It is done", "text": "One.\n\nTwo."}
    (result,) = await harness.channel.deliver([message(kind=kind, **parts)])

    assert isinstance(result, Delivered)
    assert result.receipt
    assert harness.arrived() == 1


async def test_results_come_in_order_and_one_stops_no_other(harness):
    """A refused and a delayed message leave the others of their batch alone."""
    harness.refuse(BAD)
    harness.delay("later@example.com")
    batch = [
        message(person="one"),
        message(person="two", address=BAD),
        message(person="three", address="later@example.com"),
        message(person="four"),
    ]

    results = await harness.channel.deliver(batch)

    assert [type(one) for one in results] == [Delivered, Refused, Retry, Delivered]
    assert results[1].reason
    assert results[2].problem
    assert harness.arrived() == 2


async def test_the_same_message_has_the_same_receipt(harness):
    """A message that is delivered twice is the same message, so that it can be told."""
    again = message()
    first, second = await harness.channel.deliver([again, again])
    assert first == second


async def test_different_causes_have_different_receipts(harness):
    """Two people's cards, and a card and its outcome, are different messages."""
    batch = [
        message(person="mara"),
        message(person="cleo"),
        message(id="outcome:ap_1:mara", kind=Kind.OUTCOME, headline="Done"),
    ]
    results = await harness.channel.deliver(batch)
    assert len({one.receipt for one in results}) == 3


@pytest.mark.parametrize(
    "parts",
    [
        {"name": "Mara\r\nBcc: victim@example.com"},
        {"name": "\x00" * 50},
        {"headline": "x" * 10_000, "kind": Kind.NOTICE},
        {"thread": "<a@b>\r\nBcc: victim@example.com", "kind": Kind.OUTCOME, "headline": "Done"},
        {"reply_to": "not an id at all", "kind": Kind.NOTICE, "headline": "Nothing is decided"},
        {"address": "mara@example.com\r\nRCPT TO:<victim@example.com>"},
        {"address": "\ud800@example.com"},
        {"address": ""},
    ],
)
async def test_hostile_parts_are_results_and_never_exceptions(harness, parts):
    """Whatever stands in a message, the channel returns one result and sends no second one."""
    (result,) = await harness.channel.deliver([message(**parts)])

    assert isinstance(result, Delivered | Refused)
    assert harness.arrived() <= 1
