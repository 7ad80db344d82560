"""The Slack channel: posts cards and notices, and rewrites cards."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final, TypeVar

import structlog
from slack_sdk.models.blocks import Block

from signoff.channels.pipeline.port import Delivered, Kind, Message, Refused, Result, Retry
from signoff.channels.slack.outbound import blocks
from signoff.channels.slack.outbound.conversations import Conversations
from signoff.channels.slack.outbound.rate_limit import (
    HISTORY,
    POST,
    UPDATE,
    WHISPER,
    Call,
    SlackRateLimit,
)
from signoff.channels.slack.outbound.rows import extent
from signoff.channels.slack.references import Receipt, read_receipt
from signoff.channels.slack.web import UNUSABLE, SlackWeb
from signoff.core.approvals.parts import Shown
from signoff.core.base.errors import LedgerError, LedgerUnavailable, SlackDeferred, SlackRefused

T = TypeVar("T")

log = structlog.get_logger(__name__)

NAME: Final = "slack"

_CONVERSATIONS: Final = frozenset("CGD")
"""The first letters of conversation ids."""

_AT_ONCE: Final = 8
_LOOK_BACK: Final = timedelta(days=2)
_CLOCKS_DIFFER: Final = timedelta(hours=1)
"""Allows for a difference between Slack's clock and the ledger's."""

_DEFAULT_PAUSE: Final = 1.0
"""Seconds to wait if Slack limits us and does not say for how long."""

_LEDGER_RETRY: Final = 5.0
_SENT_BY_MAIL: Final = frozenset({Kind.CARD, Kind.STATUS, Kind.BUNDLE})
"""The messages that go out by mail as soon as Slack refuses them."""

_GONE: Final = frozenset(
    {"message_not_found", "cant_update_message", "edit_window_closed", "is_inactive"}
    | {"channel_not_found", "is_archived", "thread_not_found", "not_in_channel"}
)
"""Errors for a card that is gone or cannot be changed, which does not affect the decision."""

_TOO_LONG: Final = frozenset(
    {"msg_blocks_too_long", "msg_too_long", "invalid_blocks", "invalid_blocks_format"}
)
"""Errors for a message that Slack finds too long; it does not document how it counts."""

_NO_THREAD: Final = frozenset({"thread_not_found", "message_not_found", "cannot_reply_to_message"})
"""Errors for a reply below a card that is gone."""


class SlackChannel:
    """Delivers through the Web API. The receipt is the location of the message.

    Args:
        web: The Web API.
        conversations: Finds the direct conversations of users.
        rate_limit: Delays calls above Slack's limits.
    """

    name = NAME
    rewrites = True
    bundles = True

    def __init__(
        self, web: SlackWeb, conversations: Conversations, rate_limit: SlackRateLimit
    ) -> None:
        self._web = web
        self._conversations = conversations
        self._rate_limit = rate_limit

    async def deliver(self, messages: Sequence[Message]) -> list[Result]:
        """Deliver a batch concurrently; see `Channel`.

        Messages above Slack's limits are delayed, those with the latest deadlines first.
        """
        gate = asyncio.Semaphore(_AT_ONCE)

        async def limited(step: Callable[[], Awaitable[T]], of: Message) -> T | Result:
            async with gate:
                return await self._translated(step, of)

        calls = await asyncio.gather(
            *(limited(partial(self._call_for, message), message) for message in messages)
        )
        places = [at for at, call in enumerate(calls) if isinstance(call, Call)]
        wishes = [
            (messages[at].id, call, messages[at].card.deadline)
            for at, call in enumerate(calls)
            if isinstance(call, Call)
        ]
        waits = dict(zip(places, await self._waits(wishes), strict=True))

        async def one(message: Message, call: Call | Result, wait: float | None) -> Result:
            if not isinstance(call, Call):
                return call
            if wait:
                problem = f"It waits for its turn: {call.method}."
                return Retry(wait, problem, counted=False, unsure=message.unsure)
            return await limited(partial(self._deliver, message, call), message)

        return list(
            await asyncio.gather(
                *(one(message, calls[at], waits.get(at)) for at, message in enumerate(messages))
            )
        )

    async def _waits(self, wishes: Sequence[tuple[str, Call, datetime | None]]) -> list[float]:
        try:
            return await self._rate_limit.take(wishes)
        except LedgerUnavailable as error:
            log.warning("slack.pace_unknown", problem=str(error))
            return [_LEDGER_RETRY] * len(wishes)

    async def _translated(self, step: Callable[[], Awaitable[T]], message: Message) -> T | Result:
        """Run a step, and return an error as a result."""
        try:
            return await step()
        except SlackDeferred as error:
            return _retry_later(error, message)
        except SlackRefused as error:
            return _refused(error, message)
        except LedgerError as error:
            return Retry(_LEDGER_RETRY, str(error), counted=False, unsure=message.unsure)
        except Exception as error:
            log.exception("slack.not_delivered", message=message.id)
            return Retry(0, f"{type(error).__name__}: {error}")

    async def _call_for(self, message: Message) -> Call | Result:
        """Return the call that delivers a message, or its result if none is needed."""
        if message.kind is Kind.CARD:
            return Call(POST, await self._conversation(message.address))
        thread = read_receipt(message.thread)
        if message.kind is Kind.BUNDLE:
            there = Call(UPDATE) if thread else None
            return there or Call(POST, await self._conversation(message.address))
        if message.kind in {Kind.OUTCOME, Kind.UPDATE}:
            return Call(UPDATE) if thread or message.unsure else Delivered(message.thread)
        if _is_whispered(message):
            return Call(WHISPER)
        return Call(POST, thread.channel if thread else await self._conversation(message.address))

    async def _deliver(self, message: Message, call: Call) -> Result:
        try:
            match call.method:
                case "chat.update":
                    return await self._rewrite(message)
                case "chat.postEphemeral":
                    return await self._whisper(message)
            if message.kind in {Kind.CARD, Kind.BUNDLE}:
                return await self._post_card(message, call.channel)
            return await self._post_notice(message, call.channel)
        except SlackDeferred as error:
            await self._pause_calls(call, error)
            raise
        except SlackRefused as error:
            if error.code == "channel_not_found" and await self._conversations.forget(
                blocks.place_and_group(message.address)[0]
            ):
                raise SlackDeferred(f"{error} It is looked up again.") from error
            raise

    async def _post_card(self, message: Message, channel: str) -> Result:
        metadata = blocks.metadata(message)
        seen = extent(message.card) if message.kind is Kind.CARD else Shown.CUT
        looked = False
        if message.unsure:
            try:
                there, looked = await self._posted_before(channel, message)
            except SlackDeferred as error:
                # Slack limited the history, not the post.
                return _retry_later(error, message)
            if there is not None:
                log.info("slack.reconciled", message=message.id)
                return Delivered(str(there), copy="reconciled", shown=seen)
        text, shown = blocks.opening(message)
        try:
            receipt = await self._web.post(channel, text, shown, metadata=metadata)
        except SlackDeferred as error:
            if looked and not error.unsure and not error.limited:
                # The search has shown that the card was not posted.
                return Retry(error.after, str(error), unsure=False)
            raise
        return Delivered(str(receipt), shown=seen)

    async def _posted_before(self, channel: str, message: Message) -> tuple[Receipt | None, bool]:
        """Search for a card that an earlier attempt posted, whose response was lost.

        Returns:
            The location of the card, None if it was not found; and whether the search was complete.
        """
        payload = blocks.metadata(message)["event_payload"]
        since, until = message.at - _LOOK_BACK, message.at + _CLOCKS_DIFFER
        await self._take_slot(HISTORY)
        try:
            return await self._web.find_card(
                channel, payload, since=since.timestamp(), until=until.timestamp()
            )
        except SlackDeferred as error:
            await self._pause_calls(Call(HISTORY), error)
            raise
        except SlackRefused as error:
            # Without this scope a second card is possible; a click on it reconciles it.
            log.warning("slack.cannot_look_back", message=message.id, problem=str(error))
            return None, False

    async def _rewrite(self, message: Message) -> Result:
        text, shown = blocks.summary(message), blocks.outcome_blocks(message)
        if message.kind in {Kind.UPDATE, Kind.BUNDLE}:
            text, shown = blocks.opening(message)
        first, lost = read_receipt(message.thread), ""
        if first is None and message.unsure:
            channel = await self._conversation(message.address)
            first, _ = await self._posted_before(channel, message)
            lost = "reconciled"
        if first is None:
            return Delivered(message.thread)
        for receipt in (first, *filter(None, map(read_receipt, message.copies))):
            try:
                await self._update(receipt, message, text, shown)
            except SlackRefused as error:
                if error.code not in _GONE:
                    raise
                log.info("slack.copy_lost", message=message.id, receipt=str(receipt))
                lost = "lost" if receipt == first else lost
        shown_now = extent(message.card) if message.kind is Kind.UPDATE else Shown.UNKNOWN
        return Delivered(message.thread or str(first), copy=lost or "updated", shown=shown_now)

    async def _update(
        self, receipt: Receipt, message: Message, text: str, shown: Sequence[Block]
    ) -> None:
        """Rewrite a card. One that has ended loses its buttons, however long it is."""
        metadata = blocks.metadata(message)
        try:
            await self._web.update(receipt, text, shown, metadata)
        except SlackRefused as error:
            if error.code not in _TOO_LONG or message.kind is not Kind.OUTCOME:
                raise
            log.warning("slack.shortened", message=message.id, problem=str(error))
            await self._web.update(receipt, text, blocks.notice_blocks(message)[:1], metadata)

    async def _whisper(self, message: Message) -> Result:
        """Show a user a notice in the conversation in which they clicked."""
        channel, _, user = message.address.partition("/")
        said, text = blocks.notice_blocks(message), blocks.summary(message)
        try:
            return Delivered(f"{channel}/{await self._web.whisper(channel, user, text, said)}")
        except SlackRefused as error:
            # A person who has left the conversation still gets the notice.
            log.info("slack.told_directly", message=message.id, problem=str(error))
            return Delivered(str(await self._web.post(await self._conversation(user), text, said)))

    async def _post_notice(self, message: Message, channel: str) -> Result:
        thread = read_receipt(message.thread)
        said, text = blocks.notice_blocks(message), blocks.summary(message)
        try:
            receipt = await self._web.post(channel, text, said, thread=thread.ts if thread else "")
        except SlackRefused as error:
            if error.code not in _NO_THREAD:
                raise
            receipt = await self._web.post(channel, text, said)
        return Delivered(str(receipt))

    async def _conversation(self, address: str) -> str:
        """Return the conversation for an address, which is an id or an email address."""
        place, _ = blocks.place_and_group(address)
        if place[:1] in _CONVERSATIONS and "@" not in place:
            return place
        called = ""

        async def ready(method: str) -> None:
            nonlocal called
            called = ""
            await self._take_slot(method)
            called = method

        try:
            return await self._conversations.of(place, ready)
        except SlackDeferred as error:
            if called:
                await self._pause_calls(Call(called), error)
            raise

    async def _pause_calls(self, call: Call, error: SlackDeferred) -> None:
        """Stop such calls, in all processes, for as long as Slack asked."""
        if error.limited and error.after:
            await self._rate_limit.pause(call, error.after)

    async def _take_slot(self, method: str) -> None:
        """Take a slot for a look-up.

        Raises:
            SlackDeferred: No slot is free.
        """
        (wait,) = await self._rate_limit.take([(method, Call(method), None)])
        if wait:
            raise SlackDeferred(f"It waits for its turn: {method}.", after=wait, limited=True)


def _refused(error: SlackRefused, message: Message) -> Result:
    """Return the result of a message that Slack has refused."""
    if error.code in UNUSABLE:
        log.error("slack.unusable", error=str(error))
        if message.kind not in _SENT_BY_MAIL:
            return Retry(0, str(error), unsure=message.unsure)
    return Refused(str(error))


def _retry_later(error: SlackDeferred, message: Message) -> Retry:
    """Return when to try again; a call that Slack limited does not count as an attempt."""
    after = error.after or (_DEFAULT_PAUSE if error.limited else 0)
    unsure = message.unsure or error.unsure
    return Retry(after, str(error), counted=not error.limited, unsure=unsure)


def _is_whispered(message: Message) -> bool:
    """Return whether only one user sees the notice in a conversation: ``C0OPS/U0CLEO``."""
    channel, _, user = message.address.partition("/")
    return bool(user) and channel[:1] in _CONVERSATIONS and "@" not in user
