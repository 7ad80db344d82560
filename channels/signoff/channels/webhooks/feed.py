"""Copies the audit into the outboxes of the webhooks: each entry once, none left out.

The audit has everything that webhooks need, so commits cost the same with and without them. The
position in the audit is a record in the ledger. One commit moves it and adds the work, so any
number of processes may read at the same time.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Final

import structlog
from pydantic import JsonValue

from signoff.broker.ledger import audit
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.follow import latest
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
"""Shorter than the socket timeout of the client, which would take the server for dead."""


class Feed:
    """Reads the audit and adds work for the webhooks."""

    def __init__(self, ledger: Ledger, hooks: Sequence[Webhook]) -> None:
        self._ledger = ledger
        self._hooks = tuple(hooks)

    async def run_forever(self) -> None:
        """Read until cancelled; while Redis cannot be reached, try again."""
        while True:
            try:
                if not await self.once():
                    await self._wait()
            except LedgerError as error:
                log.warning("webhooks.ledger_unavailable", error=str(error))
                await asyncio.sleep(1)

    async def once(self) -> int:
        """Add the work for the next entries, and return how many entries there were.

        The first call only notes the end of the audit: earlier entries are not posted.
        """
        store = self._ledger.store
        record = await self._ledger.raw(_RECORD)
        rows: list[audit.Entry] = []
        if record is None:
            last = await latest(store)
            start, version = last if last != "0" else "0-0", 0
        else:
            version, start = record
            rows = await audit.following(store, start, limit=_MOST)
            if not rows:
                return 0
        change = Change()
        for start, text, _ in rows:
            self._put(change, start, text)
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
        """Return when there is something new."""
        record = await self._ledger.raw(_RECORD)
        store = self._ledger.store
        behind = {f"{store.prefix}audit": record[1] if record else "0-0"}
        async with store.translated_client() as client:
            while not await client.xread(behind, count=1, block=_BLOCK_MS):
                pass


def message(event: Event) -> dict[str, JsonValue]:
    """Return the message about an event: what happened and to what, but no contents."""
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
