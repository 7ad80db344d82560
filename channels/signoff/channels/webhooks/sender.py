"""The stages `webhook.<name>`: post signed messages, and retry those that were not accepted."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import httpx
import structlog

from signoff.broker import stages
from signoff.broker.ledger.change import Change, Item
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.monitoring import metrics
from signoff.broker.work import PostWebhook
from signoff.channels.pipeline.outbox import StageWork, dead_letter, post_each, work_of
from signoff.channels.web.signatures import sign
from signoff.channels.webhooks.addresses import PrivateAddress, Resolve, resolve
from signoff.channels.webhooks.feed import body_of
from signoff.channels.webhooks.posting import Poster
from signoff.channels.webhooks.settings import Webhook

log = structlog.get_logger(__name__)

PAUSES: Final = (5, 30, 120, 600, 1800, 3600, 7200, 14400, 28800, 36000)
"""Seconds before each further attempt, about 26 hours in all; then it is a dead letter."""

_GONE: Final = 410
_LONGEST_RETRY_AFTER: Final = 3600


@dataclass(frozen=True, slots=True)
class Attempt:
    """The result of an attempt.

    Attributes:
        problem: What went wrong, "" if the server took the message.
        after: The seconds in `Retry-After`, 0 if there are none.
        final: Whether further attempts are useless.
    """

    problem: str = ""
    after: float = 0
    final: bool = False


class Sender(StageWork):
    """Posts to one webhook.

    Args:
        ledger: The ledger.
        hook: The webhook: its URL and its keys.
        lookup: Finds the addresses of its host.
        transport: Replaces the connections, for tests.
    """

    def __init__(
        self,
        ledger: Ledger,
        hook: Webhook,
        *,
        lookup: Resolve = resolve,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        super().__init__(ledger, stages.webhook(hook.name))
        self._hook = hook
        self._poster = Poster(timeout=hook.timeout, lookup=lookup, transport=transport)

    async def close(self) -> None:
        """Close the connections."""
        await self._poster.close()

    async def work(self, items: Sequence[Item]) -> None:
        """Post leased items, a few at a time; one that fails stops no other."""
        await post_each(self._ledger, items, self._change)

    async def _change(self, item: Item) -> Change:
        outcome = await self._post(item)
        came = "delivered" if not outcome.problem else "refused" if outcome.final else "retry"
        metrics.record(metrics.DELIVERIES, item.stage, came)
        return self._record(item, outcome)

    def _record(self, item: Item, outcome: Attempt) -> Change:
        about = {"webhook": self._hook.name, "item": item.id, "attempt": item.attempts}
        if not outcome.problem:
            log.info("webhook.taken", **about)
            return Change().ack(item)
        if outcome.final or item.attempts > len(PAUSES):
            return dead_letter(Change(), item, outcome.problem)
        pause = PAUSES[item.attempts - 1] * random.uniform(0.8, 1.2)  # noqa: S311 -- no secret
        after = max(pause, min(outcome.after, _LONGEST_RETRY_AFTER))
        log.warning("webhook.retry", **about, problem=outcome.problem, after=round(after))
        return Change().retry(item, after=after)

    async def _post(self, item: Item) -> Attempt:
        work = work_of(item)
        if not isinstance(work, PostWebhook):
            return Attempt("this version cannot read what is to be posted")
        now, body = await self._ledger.now(), body_of(work.message)
        try:
            async with asyncio.timeout(self._hook.timeout):
                return await self._posted(f"msg_{item.id}", body, now)
        except TimeoutError:
            return Attempt(f"it took longer than {self._hook.timeout:g} seconds")
        except (httpx.HTTPError, OSError, PrivateAddress) as error:
            return Attempt(f"{type(error).__name__}: {error}")
        except Exception as error:
            # A message that fails must not stop the others.
            log.exception("webhook.failed", webhook=self._hook.name, item=item.id)
            return Attempt(f"{type(error).__name__}: {error}")

    async def _posted(self, name: str, body: bytes, now: datetime) -> Attempt:
        hook = self._hook
        signed = sign(hook.keys, name, now, body)
        answer = await self._poster.post(hook.url, body, signed, allow_private=hook.allow_private)
        if answer.is_success:
            return Attempt()
        return Attempt(
            f"it answered {answer.status}", after=answer.after, final=answer.status == _GONE
        )
