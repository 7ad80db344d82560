"""Freezes in the ledger: `signoff freeze` and `signoff thaw`.

All of them are one record. The commit that notes a tool as started looks at it, so no tool starts
once a freeze is acknowledged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import Final

import structlog
from pydantic import JsonValue, TypeAdapter

from signoff.broker import stages
from signoff.broker.effects import rewrite
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import FreezeRefused
from signoff.core.base.freezes import Freeze, shown_place

KEY: Final = "freezes"

_RECORD: Final = TypeAdapter(tuple[Freeze, ...])
_CARDS: Final = 100
"""Approvals whose cards are rewritten by one commit."""

Also = Callable[[str], Change | None]
"""Returns what must happen in the same commit, given the id of a freeze; None for nothing."""

log = structlog.get_logger(__name__)


def _nothing_else(_: str) -> None:
    """Return nothing that must happen too."""


def read_freezes(record: tuple[int, str] | None) -> tuple[Freeze, ...]:
    """Return the freezes that a record holds, the oldest first; none where there is no record.

    Raises:
        RecordUnreadable: It does not hold what this version can read.
    """
    return legible(_RECORD, KEY, record, ())


class Freezes:
    """Freezes and thaws.

    Args:
        ledger: Where they are kept.
    """

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def all(self) -> tuple[Freeze, ...]:
        """Return what is frozen, the oldest freeze first.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
            RecordUnreadable: A newer version of Signoff has written it.
        """
        return (await self.all_now())[0]

    async def all_now(self) -> tuple[tuple[Freeze, ...], datetime]:
        """Return what is frozen, and the present, in one round trip; see `all`."""
        (record,), now = await self._ledger.store.read_now([KEY])
        return read_freezes(record), now

    async def freeze(
        self,
        *,
        app: str = "",
        tool: str = "",
        by: str,
        why: str,
        more: Mapping[str, JsonValue] | None = None,
        also: Also = _nothing_else,
    ) -> Freeze:
        """Stop tools from this moment on, and have the open cards say so.

        Args:
            app: The app whose tools are stopped; "" for those of all apps.
            tool: The tool; "" for all.
            by: Who freezes them.
            why: Why.
            more: How, for the audit.
            also: Returns what must happen in the same commit, given the id of the freeze.

        Raises:
            FreezeRefused: They are frozen already, or there is no reason.
            LedgerError: It could not be committed; nothing is frozen.
        """
        if not why.strip():
            raise FreezeRefused("Say why. Everybody who is asked reads it.")

        async def attempt() -> Freeze:
            record = await self._ledger.raw(KEY)
            now, freezes = await self._ledger.now(), read_freezes(record)
            for one in freezes:
                if one.place == (app, tool):
                    raise FreezeRefused(f"{one.by} has frozen {one.stops} already: {one.why}.")
            made = Freeze(
                id=f"fz_{secrets.token_hex(6)}", app=app, tool=tool, by=by, why=why.strip(), at=now
            )
            event = Event(what=What.FROZEN, at=now, by=by, why=made.why, more=_more(made, more))
            await self._write(record, (*freezes, made), event, also(made.id))
            return made

        made = await self._ledger.decide_again(attempt)
        log.info("frozen", freeze=made.id, stops=made.stops, by=by, why=made.why)
        await self._rewrite_cards(made)
        return made

    async def thaw(
        self,
        *,
        app: str = "",
        tool: str = "",
        by: str,
        why: str = "",
        more: Mapping[str, JsonValue] | None = None,
        also: Also = _nothing_else,
    ) -> Freeze:
        """Let tools start again, and what was held go on.

        Args:
            app: As it was frozen.
            tool: As it was frozen.
            by: Who thaws them.
            why: Why.
            more: How, for the audit.
            also: As for `freeze`.

        Raises:
            FreezeRefused: They are not frozen.
            LedgerError: It could not be committed; they stay frozen.
        """

        async def attempt() -> Freeze:
            record = await self._ledger.raw(KEY)
            freezes = read_freezes(record)
            was = next((one for one in freezes if one.place == (app, tool)), None)
            if was is None:
                others = ", ".join(one.stops for one in freezes) or "nothing"
                raise FreezeRefused(f"{shown_place(app, tool)} is not frozen. Frozen is {others}.")
            now = await self._ledger.now()
            event = Event(what=What.THAWED, at=now, by=by, why=why, more=_more(was, more))
            left = tuple(one for one in freezes if one is not was)
            await self._write(record, left, event, also(was.id))
            return was

        was = await self._ledger.decide_again(attempt)
        log.info("thawed", freeze=was.id, stops=was.stops, by=by, why=why)
        await self.wake(was.app)
        await self._rewrite_cards(was)
        return was

    async def wake(self, app: str = "") -> None:
        """Have runs that are held looked at now, not within a minute.

        Args:
            app: Of which app; "" for all.
        """
        found = [stages.run(app), stages.resume(app)] if app else await self._stages()
        if found:
            await self._ledger.store.script("wake", self._ledger.store.now_ms(), *found)
            await self._ledger.ring_overdue()

    async def _stages(self) -> list[str]:
        starts = (stages.run(""), stages.resume(""))
        return [one for one in await self._ledger.backlog() if one.startswith(starts)]

    async def _write(
        self,
        record: tuple[int, str] | None,
        freezes: Sequence[Freeze],
        event: Event,
        also: Change | None,
    ) -> None:
        data = _RECORD.dump_json(tuple(freezes), exclude_defaults=True).decode()
        change = also.copy() if also is not None else Change()
        change.put_raw(KEY, data, was=record[0] if record else 0)
        await self._ledger.commit(change.note([event]))

    async def _rewrite_cards(self, freeze: Freeze) -> None:
        """Have the open cards written anew that a freeze is about."""
        waiting = iter(
            one
            for one in await self._ledger.pending()
            if freeze.covers(one.origin.app, one.call.name)
        )
        while batch := list(islice(waiting, _CARDS)):
            await self._ledger.commit(_cards_of(batch))


def _cards_of(approvals: Sequence[Approval]) -> Change:
    change = Change()
    for approval in approvals:
        for asked in approval.asked:
            if asked.receipt and not asked.problem and asked.level_key == approval.level_key:
                rewrite(change, approval, asked)
    return change


def _more(freeze: Freeze, how: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    what = freeze.model_dump(include={"id", "app", "tool"}, mode="json", exclude_defaults=True)
    return {**what, **(how or {})}
