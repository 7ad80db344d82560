"""The contract of all channels; a new channel is added to `harnesses` and has to pass."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Protocol

import pytest
from aiohttp.test_utils import TestServer

from builders import MARA, NOON, asked_approval, people
from channels.conftest import Sink, SinkFactory
from channels.mattermost import Server, example, mattermost
from channels.slack.workspace import APP, BOT, Workspace, fast_channel
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.outbound.channel import EmailChannel
from signoff.channels.pipeline.port import Channel, Delivered, Kind, Message, Refused, Retry
from signoff.channels.pipeline.reply_tokens import new_token
from signoff.channels.slack.outbound.channel import SlackChannel
from signoff.channels.slack.settings import SlackSettings
from signoff.channels.slack.web import SlackWeb
from signoff.core.cards.card import card
from signoff.testing import FakeChannel

BAD = "nobody@example.com"


LATER = "later@example.com"


class Harness(Protocol):
    """A channel, and ways to make its other end fail."""

    @property
    def channel(self) -> Channel:
        """The channel."""

    def refuse(self, address: str) -> None:
        """Let the other end refuse this address permanently."""

    def delay(self, address: str) -> None:
        """Let the other end refuse this address temporarily."""

    def arrived(self) -> int:
        """Return the number of new or updated messages at the other end."""


class Fake:
    """The fake channel."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.delayed: set[str] = set()
        self.channel = FakeChannel(respond=self._respond)

    def _respond(self, message: Message) -> Delivered | Refused | Retry:
        if message.address in self.refused:
            return Refused("no such user")
        return Retry(0, "later") if message.address in self.delayed else Delivered(message.id)

    def refuse(self, address: str) -> None:
        """See `Harness`."""
        self.refused.add(address)

    def delay(self, address: str) -> None:
        """See `Harness`."""
        self.delayed.add(address)

    def arrived(self) -> int:
        """See `Harness`."""
        return len(self.channel.delivered)


class Mail:
    """Email with a mail server."""

    def __init__(self, sink: Sink) -> None:
        self.sink, self.channel = sink, EmailChannel(sink.settings())

    def refuse(self, address: str) -> None:
        """See `Harness`."""
        self.sink.answers[f"RCPT {address}"] = "550 5.1.1 No such user"

    def delay(self, address: str) -> None:
        """See `Harness`."""
        self.sink.answers[f"RCPT {address}"] = "450 4.2.1 Greylisted"

    def arrived(self) -> int:
        """See `Harness`."""
        return len(self.sink.mails)


class Slack:
    """Slack with a workspace."""

    def __init__(self, workspace: Workspace, channel: SlackChannel) -> None:
        self.workspace, self.channel = workspace, channel

    def refuse(self, address: str) -> None:
        """Remove the address from the workspace."""

    def delay(self, address: str) -> None:
        """See `Harness`."""
        self.workspace.busy.add(address)

    def arrived(self) -> int:
        """See `Harness`."""
        cards = self.workspace.cards()
        return len(cards) + sum(int(one.get("edits", 0)) for one in cards)


class Mattermost:
    """The example of a custom channel, with a server."""

    def __init__(self, there: Server) -> None:
        self.there = there
        self.channel = example().Mattermost("mattermost", there.settings)

    def refuse(self, address: str) -> None:
        """Remove the user from the server."""

    def delay(self, address: str) -> None:
        """See `Harness`."""
        self.there.busy.add(address)

    def arrived(self) -> int:
        """See `Harness`."""
        return len(self.there.posts) + self.there.edits


def message(approval: str = "", /, **parts: Any) -> Message:
    """Return a card for Mara; the given parts replace the defaults."""
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


@pytest.fixture(params=["fake", "email", "slack", "mattermost"])
async def harness(
    request: pytest.FixtureRequest, start_sink: SinkFactory, still_ledger: Ledger
) -> AsyncIterator[Harness]:
    """Yield each channel in turn."""
    match request.param:
        case "email":
            yield Mail(await start_sink())
        case "slack":
            workspace = Workspace(now=NOON.timestamp)
            workspace.add("U0MARA", MARA.email)
            async with TestServer(workspace.app()) as server:
                url = str(server.make_url("/api/"))
                settings = SlackSettings(bot_token=BOT, app_token=APP, base_url=url)
                web = SlackWeb(settings)
                yield Slack(workspace, fast_channel(web, still_ledger))
                await web.close()
        case "mattermost":
            async with mattermost(MARA.email) as there:
                yield Mattermost(there)
        case _:
            yield Fake()


async def test_channel_name_is_an_identifier(harness: Harness) -> None:
    """The name is the last part of a stage's name, so it has no dots."""
    assert harness.channel.name.isidentifier()


async def test_empty_batch_has_no_results(harness: Harness) -> None:
    """An empty batch has no results."""
    assert await harness.channel.deliver([]) == []


@pytest.mark.parametrize("kind", list(Kind))
async def test_every_kind_is_delivered(harness: Harness, kind: Kind) -> None:
    """Cards and their later messages or updates arrive, each with a receipt."""
    (card,) = await harness.channel.deliver([message()])
    assert isinstance(card, Delivered)
    assert harness.arrived() == 1
    if kind is Kind.CARD:
        return
    below = message(
        kind=kind, id=f"{kind}:1", headline="It is done", text="One.\n\nTwo.", thread=card.receipt
    )

    (result,) = await harness.channel.deliver([below])

    assert isinstance(result, Delivered)
    assert result.receipt
    assert harness.arrived() == 2


async def test_results_keep_their_order_and_failures_stay_separate(harness: Harness) -> None:
    """A refused and a delayed message do not affect the others of their batch."""
    harness.refuse(BAD)
    harness.delay(LATER)
    batch = [
        message(person="one"),
        message(person="two", address=BAD),
        message(person="three", address=LATER),
        message(person="four"),
    ]

    results = await harness.channel.deliver(batch)

    assert [type(one) for one in results] == [Delivered, Refused, Retry, Delivered]
    _, refused, delayed, _ = results
    assert isinstance(refused, Refused)
    assert isinstance(delayed, Retry)
    assert refused.reason
    assert delayed.problem
    assert harness.arrived() == 2


async def test_retried_delivery_has_the_same_receipt(harness: Harness) -> None:
    """If the first delivery got no answer, the second is recognised, and it arrives once."""
    (first,) = await harness.channel.deliver([message()])
    (second,) = await harness.channel.deliver([replace(message(), attempt=2, unsure=True)])
    assert isinstance(first, Delivered)
    assert isinstance(second, Delivered)
    assert first.receipt == second.receipt


async def test_different_causes_have_different_receipts(harness: Harness) -> None:
    """Cards for two people and a notice below one of them are three messages."""
    batch = [
        message(person="mara"),
        message(person="cleo"),
        message(id="notice:ap_1:mara", kind=Kind.NOTICE, headline="Not understood"),
    ]
    results = await harness.channel.deliver(batch)
    assert len({one.receipt for one in results if isinstance(one, Delivered)}) == 3


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
async def test_hostile_parts_are_results_and_never_exceptions(
    harness: Harness, parts: dict[str, str] | dict[str, object]
) -> None:
    """Any message gives one result, and does not send a second message."""
    (result,) = await harness.channel.deliver([message(**parts)])

    assert isinstance(result, Delivered | Refused)
    assert harness.arrived() <= 1
