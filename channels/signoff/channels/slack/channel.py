"""The Slack channel: cards and notices as messages, cards rewritten once they are over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog

from signoff.channels.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.slack import blocks
from signoff.channels.slack.references import Receipt, read_receipt
from signoff.channels.slack.rows import extent
from signoff.channels.slack.web import SlackWeb
from signoff.core.errors import SlackDeferred, SlackRefused
from signoff.core.parts import Shown

log = structlog.get_logger(__name__)

NAME: Final = "slack"

_CONVERSATIONS: Final = frozenset("CGD")
"""What the ids of conversations begin with."""

_AT_ONCE: Final = 8
_LOOK_BACK: Final = timedelta(days=2)
_GONE: Final = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"}
    | {"channel_not_found", "is_archived", "thread_not_found"}
)
"""Our copy is not there any more, or nobody can change it: nothing is wrong with the decision."""


class SlackChannel:
    """Delivers by the Web API. The receipt is where the message stands.

    Args:
        web: The Web API.
    """

    name = NAME
    rewrites = True

    def __init__(self, web: SlackWeb) -> None:
        self._web = web
        self._conversations: dict[str, str] = {}

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver a batch, several at once; see `Channel`."""
        gate = asyncio.Semaphore(_AT_ONCE)

        async def one(message: Message) -> Result:
            async with gate:
                return await self._delivered(message)

        return list(await asyncio.gather(*(one(message) for message in messages)))

    async def _delivered(self, message: Message) -> Result:
        try:
            match message.kind:
                case Kind.CARD:
                    return await self._card(message)
                case Kind.OUTCOME | Kind.UPDATE:
                    return await self._rewritten(message)
                case _:
                    return await self._notice(message)
        except SlackDeferred as error:
            return Retry(error.after, str(error))
        except SlackRefused as error:
            return Refused(str(error))
        except Exception as error:
            log.exception("slack.not_delivered", message=message.id)
            return Retry(0, f"{type(error).__name__}: {error}")

    async def _card(self, message: Message) -> Result:
        channel = await self._conversation(message.address)
        metadata = blocks.metadata(message)
        if message.attempt > 1 and (there := await self._posted_before(channel, message)):
            log.info("slack.reconciled", message=message.id)
            return Delivered(str(there), copy="reconciled", shown=extent(message.card))
        text, shown = blocks.card_message(message)
        receipt = await self._web.post(channel, text, shown, metadata=metadata)
        return Delivered(str(receipt), shown=extent(message.card))

    async def _posted_before(self, channel: str, message: Message) -> Receipt | None:
        """Look whether an earlier attempt, whose answer was lost, has posted the card."""
        payload = blocks.metadata(message)["event_payload"]
        since = (message.at - _LOOK_BACK).timestamp()
        try:
            return await self._web.find_card(channel, payload, since)
        except SlackRefused as error:
            # Without the scope for it a second card is possible; whoever presses it reconciles it.
            log.warning("slack.cannot_look_back", message=message.id, problem=str(error))
            return None

    async def _rewritten(self, message: Message) -> Result:
        text, shown = blocks.summary(message), blocks.outcome_blocks(message)
        if message.kind is Kind.UPDATE:
            text, shown = blocks.card_message(message)
        first = read_receipt(message.thread)
        if first is None:
            return Delivered(message.thread)
        lost = ""
        for receipt in (first, *filter(None, map(read_receipt, message.copies))):
            try:
                await self._web.update(receipt, text, shown, blocks.metadata(message))
            except SlackRefused as error:
                if error.code not in _GONE:
                    raise
                log.info("slack.copy_lost", message=message.id, receipt=str(receipt))
                lost = "lost" if receipt == first else lost
        shown_now = extent(message.card) if message.kind is Kind.UPDATE else Shown.UNKNOWN
        return Delivered(message.thread, copy=lost or "updated", shown=shown_now)

    async def _notice(self, message: Message) -> Result:
        channel, _, user = message.address.partition("/")
        said, text = blocks.notice_blocks(message), blocks.summary(message)
        thread, where = read_receipt(message.thread), message.address
        if user and channel[:1] in _CONVERSATIONS and "@" not in user:
            try:
                return Delivered(f"{channel}/{await self._web.whisper(channel, user, text, said)}")
            except SlackRefused as error:
                # Whoever has left the conversation meanwhile still gets an answer.
                log.info("slack.told_directly", message=message.id, problem=str(error))
                thread, where = None, user
        where = thread.channel if thread else await self._conversation(where)
        receipt = await self._web.post(where, text, said, thread=thread.ts if thread else "")
        return Delivered(str(receipt))

    async def _conversation(self, address: str) -> str:
        """Return the conversation of an address: an id, or the address of somebody's mail."""
        place = address if "@" in address else blocks.place_and_group(address)[0]
        if place[:1] in _CONVERSATIONS and "@" not in place:
            return place
        if place not in self._conversations:
            user = place.rpartition("/")[2]
            if "@" in place:
                user = await self._web.user_of(place)
            self._conversations[place] = await self._web.direct(user)
        return self._conversations[place]
