"""Freezes in the ledger: `signoff freeze` and `signoff thaw`.

All freezes are one record. The commit that records the start of a tool checks it, so no tool starts
after a freeze was acknowledged.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

import structlog
from pydantic import JsonValue, TypeAdapter

from signoff.broker import stages
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.events import Event, What
from signoff.core.base.errors import FreezeRefused, LedgerUnavailable
from signoff.core.base.freezes import Freeze, shown_place

KEY: Final = "freezes"

_RECORD: Final = TypeAdapter(tuple[Freeze, ...])
_CARDS: Final = 100
"""Approvals whose cards are rewritten in one commit."""

Also = Callable[[str], Change | None]
"""Returns a change to commit together with a freeze, given its id; None for nothing."""

log = structlog.get_logger(__name__)


def _nothing_else(_: str) -> None:
    """Commit nothing else."""


def read_freezes(record: tuple[int, str] | None) -> tuple[Freeze, ...]:
    """Return the freezes in a record, the oldest first; none if there is no record.

    Raises:
        RecordUnreadable: This version cannot read it.
    """
    return legible(_RECORD, KEY, record, ())


class Freezes:
    """Freezes and thaws."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def all(self) -> tuple[Freeze, ...]:
        """Return the freezes, the oldest first.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
            RecordUnreadable: A newer version of Signoff has written it.
        """
        return read_freezes(await self._ledger.raw(KEY))

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
        """Stop tools from now on, and show this on the open cards.

        Args:
            app: The app whose tools are stopped; "" for all apps.
            tool: The tool; "" for all.
            by: Who freezes them.
            why: The reason.
            more: Details for the audit.
            also: Returns a change to commit together with the freeze, given its id.

        Raises:
            FreezeRefused: They are frozen already, or there is no reason.
            LedgerError: The commit failed; nothing is frozen.
        """
        if not why.strip():
            raise FreezeRefused("A freeze needs a reason, which everybody who is asked can read.")

        async def attempt() -> Freeze:
            record = await self._ledger.raw(KEY)
            now, freezes = await self._ledger.now(), read_freezes(record)
            for one in freezes:
                if one.place == (app, tool):
                    raise FreezeRefused(f"{one.by} has already frozen {one.stops}: {one.why}.")
            made = Freeze(
                id=f"fz_{secrets.token_hex(6)}", app=app, tool=tool, by=by, why=why.strip(), at=now
            )
            event = Event(what=What.FROZEN, at=now, by=by, why=made.why, more=_more(made, more))
            await self._write(record, (*freezes, made), event, also(made.id))
            return made

        made = await self._ledger.decide_again(attempt)
        log.info("frozen", freeze=made.id, stops=made.stops, by=by, why=made.why)
        await self._rewrite_cards(made, cause=made.id)
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
        """Let tools start again, and resume the runs that were held.

        Args:
            app: The app of the freeze.
            tool: The tool of the freeze.
            by: Who thaws them.
            why: The reason.
            more: Details for the audit.
            also: As for `freeze`.

        Raises:
            FreezeRefused: They are not frozen.
            LedgerError: The commit failed; they stay frozen.
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
        await self._rewrite_cards(was, cause=f"{was.id}:thawed")
        return was

    async def wake(self, app: str = "") -> None:
        """Make held runs continue at once; otherwise they are checked within a minute.

        If Redis cannot be reached, this is logged.

        Args:
            app: The app; "" for all.
        """
        with _logged("freeze.not_woken"):
            found = [stages.run(app), stages.resume(app)] if app else await self._stages()
            if found:
                await self._ledger.store.script("wake", self._ledger.store.now_ms(), *found)
                await self._ledger.look()

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

    async def _rewrite_cards(self, freeze: Freeze, *, cause: str) -> None:
        """Rewrite the open cards of the approvals that a freeze covers.

        The cause identifies its beginning or its end.
        """
        with _logged("freeze.cards_not_rewritten"):
            waiting = iter(
                one
                for one in await self._ledger.pending()
                if freeze.covers(one.origin.app, one.call.name)
            )
            while batch := list(islice(waiting, _CARDS)):
                await self._ledger.commit(_cards_of(batch, cause))


@contextmanager
def _logged(event: str) -> Iterator[None]:
    """Log that Redis is unavailable; the freeze, the thaw or the move is committed already."""
    try:
        yield
    except LedgerUnavailable as error:
        log.warning(event, error=str(error))


def _cards_of(approvals: Sequence[Approval], cause: str) -> Change:
    from signoff.broker.effects import rewrite  # noqa: PLC0415 -- only freezing needs it

    change = Change()
    for approval in approvals:
        for asked in approval.asked:
            if asked.receipt and not asked.problem and asked.level_key == approval.level_key:
                rewrite(change, approval, asked, cause=cause)
    return change


def _more(freeze: Freeze, how: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    what = freeze.model_dump(include={"id", "app", "tool"}, mode="json", exclude_defaults=True)
    return {**what, **(how or {})}
