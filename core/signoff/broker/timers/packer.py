"""Packs what has waited for some time: approvals, their runs, and entries of the audit.

Quick answers cost nothing more, because a record is packed in the background. Any change writes it
in its plain form again. A process that packs a record which another one changes meanwhile does
nothing, and one that dies leaves the record in either form.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, Final

import structlog

from signoff.broker.heartbeat import states
from signoff.broker.ledger import audit
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.packing import pack

log = structlog.get_logger(__name__)

READS: Final = {"reads": "packed"}
"""What a process that can read packed records says of itself in its heartbeat."""

EVERY: Final = 30.0
"""Seconds from one round of a process to the next."""

_LEASE: Final = 75.0
"""Seconds after which another process takes over from one that died."""

_PAGE: Final = 200
"""Approvals in one round trip, which takes Redis about a millisecond."""

_MOST: Final = 10_000
"""The most approvals in one round; the next one goes on behind them."""


class Packer:
    """Packs records and entries of the audit that are older than an age.

    Earlier releases cannot read the packed form: as long as one of their processes is alive,
    nothing is packed.

    Args:
        ledger: The ledger.
        age: How long an approval, and an entry of the audit, must have waited.
    """

    def __init__(self, ledger: Ledger, age: timedelta) -> None:
        self._ledger = ledger
        self._age = age
        self._token = secrets.token_hex(8)
        self._place = 0

    async def again(self) -> None:
        """Pack what is old enough, unless another process does it.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if await self._ledger.take_lease("lease:packing", self._token, lease=_LEASE):
            said = await states(self._ledger)
            if earlier := [one for one, own in said.items() if not READS.items() <= own.items()]:
                log.warning("ledger.not_packed", because_of=earlier)
            else:
                await self.once()

    async def once(self) -> int:
        """Pack what is old enough, and return how many records and entries were packed.

        With very many pending approvals, it takes several calls to look at all of them.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        store, count, ms = self._ledger.store, 0, self._age // timedelta(milliseconds=1)
        for _ in range(0, _MOST, _PAGE):
            last = self._place + _PAGE - 1
            looked, *flat = await store.script("plain", store.now_ms(), ms, self._place, last)
            if flat:
                # In a thread, because it would block the event loop for some milliseconds.
                records = await asyncio.to_thread(_packed, flat)
                count += await store.script("pack", *records)
            self._place += _PAGE
            if looked < _PAGE:
                self._place = 0
                break
        return count + await audit.pack_entries(store, age=self._age)


def _packed(flat: Sequence[str]) -> list[str | bytes]:
    """Return the arguments of the script that packs records.

    Args:
        flat: The key of each record, and the record.
    """
    return [
        part
        for key, record in zip(flat[::2], flat[1::2], strict=True)
        for part in _one(key, *record.split(" ", 2))
    ]


def _one(key: str, version: str, mark: str, data: str) -> Iterator[str | bytes]:
    try:
        packed = pack(data, *_outside(key, json.loads(data)))
    except (ValueError, TypeError, LookupError, AttributeError) as error:
        # It stays as it is.
        log.debug("record.not_packed", record=key, error=str(error))
        return
    yield from (key, f"{version} {mark} ", packed)


def _outside(key: str, fields: dict[str, Any]) -> tuple[str, ...]:
    """Return what scripts read of a record.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: Scripts would read it in another way.
    """
    if key.startswith("run:"):
        ids = " ".join(fields.get("approvals", ()))
        found: tuple[str, ...] = (fields["app"], fields["user"], fields["session"], ids)
    else:
        found = (fields["origin"]["run"], fields.get("terms", {}).get("policy", ""))
    if any("\n" in one or json.dumps(one, ensure_ascii=False) != f'"{one}"' for one in found):
        raise ValueError("A name is not written as it is in JSON.")
    return found
