"""A channel for tests: it stores the messages that are delivered, and the test answers them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence

from pydantic import JsonValue

from signoff.broker.decisions import Decisions
from signoff.channels.pipeline.port import Delivered, Kind, Message, Result
from signoff.core.approvals import moves
from signoff.core.approvals.approval import Approval, Shown


class FakeChannel:
    """Delivers into a list.

    Args:
        name: Its name; the router sends cards to the channel ``email``.
        respond: Returns the result for a message; by default every message is delivered.
        bundles: Whether it accepts several cards in one message; see `Bundles` of the port.

    Attributes:
        respond: Returns the result for a message; a test may replace it.
        delivered: The messages that were delivered, the oldest first; a test may empty it.
    """

    def __init__(
        self,
        name: str = "email",
        *,
        respond: Callable[[Message], Result] | None = None,
        bundles: bool = False,
    ) -> None:
        self.name = name
        self.bundles = bundles
        self.delivered: list[Message] = []
        self.respond = respond or (
            lambda message: Delivered(f"fake:{message.id}", shown=Shown.COMPLETE)
        )
        self._news = asyncio.Event()

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Store each message for which `respond` returns `Delivered`; see `Channel.deliver`."""
        results = [self.respond(message) for message in messages]
        self.delivered += [
            message
            for message, result in zip(messages, results, strict=True)
            if isinstance(result, Delivered)
        ]
        self._news.set()
        return results

    def find(self, approval_id: str, kind: Kind = Kind.CARD) -> Message | None:
        """Return the latest message of a kind about an approval; None if there is none."""
        for message in reversed(self.delivered):
            if (message.card.approval, message.kind) == (approval_id, kind):
                return message
        return None

    async def wait_for(
        self, approval_id: str, kind: Kind = Kind.CARD, *, patience: float = 10
    ) -> Message:
        """Return the message of a kind about an approval, as soon as it has been delivered.

        Raises:
            TimeoutError: It was not delivered within `patience` seconds.
        """
        async with asyncio.timeout(patience):
            while (message := self.find(approval_id, kind)) is None:
                self._news.clear()
                await self._news.wait()
        return message

    async def approve(
        self,
        decisions: Decisions,
        message: Message,
        *,
        reason: str = "",
        values: Mapping[str, JsonValue] | None = None,
        by: str = "",
    ) -> Approval:
        """Approve as the person to whom a card was delivered, or as another one.

        Raises:
            DecisionRefused: The person may not decide, or no longer may.
            PayloadError: The values do not fit the template.
            LookupError: There is no such person.
        """
        move = moves.Approve(values=values, reason=reason)
        return await self._take(decisions, message, move, by)

    async def reject(
        self, decisions: Decisions, message: Message, *, reason: str = "", by: str = ""
    ) -> Approval:
        """Reject as the person to whom a card was delivered, or as another one; see `approve`."""
        return await self._take(decisions, message, moves.Reject(reason=reason), by)

    async def _take(
        self, decisions: Decisions, message: Message, move: moves.Move, by: str
    ) -> Approval:
        person = decisions.directory.get(by or message.person)
        if person is None:
            raise LookupError(f"{by or message.person} is not in the directory of these decisions.")
        actor = moves.Actor(person, self.name)
        return (await decisions.take(message.card.approval, move, actor)).approval_or_raise()
