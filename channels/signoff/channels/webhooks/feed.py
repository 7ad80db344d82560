"""From the audit into the outboxes of the webhooks: each entry once, none left out.

The audit is what happened, so nothing else has to be written for webhooks, and commits cost the
same with and without them. How far it was read is a record in the ledger; to move it on and to put
the work in is one commit, so any number of processes may read at the same time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from pydantic import JsonValue

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import read_event
from signoff.broker.work import PostWebhook
from signoff.channels.webhooks.settings import Webhook
from signoff.core.approvals.events import Event
from signoff.core.base.errors import Conflict, LedgerError

log = structlog.get_logger(__name__)

_RECORD: Final = "webhooks"
_MOST: Final = 200
_BLOCK_MS: Final = 2000
"""Under the socket timeout of the client: longer would be taken for a dead server."""


class Feed:
    """Reads the audit and puts in what the webhooks want to know.

    Args:
        ledger: The ledger.
        hooks: Who wants to know what.
    """

    def __init__(self, ledger: Ledger, hooks: Sequence[Webhook]) -> None:
        self._ledger = ledger
        self._hooks = tuple(hooks)

    async def run_forever(self) -> None:
        """Read on until cancelled; a ledger that is away is waited for."""
        while True:
            try:
                if not await self.once():
                    await self._wait()
            except LedgerError as error:
                log.warning("webhooks.ledger_unavailable", error=str(error))
                await asyncio.sleep(1)

    async def once(self) -> int:
        """Put in what the next entries mean, and return how many entries there were.

        The first time it only notes where the audit ends: what was before is nobody's news.
        """
        store = self._ledger.store
        record = await self._ledger.raw(_RECORD)
        key = f"{store.prefix}audit"
        async with store.translated_client() as client:
            if record is None:
                last = await client.xrevrange(key, count=1)
                start, rows, version = last[0][0] if last else "0-0", [], 0
            else:
                version, start = record
                rows = await client.xrange(key, f"({start}", "+", count=_MOST)
        if record is not None and not rows:
            return 0
        change = Change()
        for start, fields in rows:
            self._put(change, start, fields.get("e", ""))
        try:
            await self._ledger.commit(change.put_raw(_RECORD, start, was=version))
        except Conflict:
            # Another process was faster, with the same entries.
            return len(rows)
        return len(rows)

    def _put(self, change: Change, entry: str, text: str) -> None:
        event = read_event(text)
        if event is None:
            return
        for hook in self._hooks:
            if event.what in hook.events:
                change.send(PostWebhook(hook=hook.name, entry=entry, message=message(event)))

    async def _wait(self) -> None:
        """Return when there is something new, or after a while."""
        record = await self._ledger.raw(_RECORD)
        store = self._ledger.store
        async with store.translated_client() as client:
            await client.xread(
                {f"{store.prefix}audit": record[1] if record else "$"}, count=1, block=_BLOCK_MS
            )


def message(event: Event) -> dict[str, JsonValue]:
    """Return what is posted about an event: what happened, to what, and nothing of its contents."""
    about = "approval" if event.approval else "run" if event.run else "signoff"
    return {
        "type": f"{about}.{event.what.value}",
        "timestamp": event.at.isoformat(),
        "data": {
            "approval": event.approval,
            "run": event.run,
            "by": event.by,
            "why": event.why,
        },
    }


def body_of(posted: Mapping[str, JsonValue]) -> bytes:
    """Return the bytes that are posted and signed: the same for each attempt."""
    return json.dumps(posted, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "backslashreplace"
    )
