"""Starts approved calls once and records their end, in all frameworks."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.core.approvals.approval import Approval
from signoff.core.approvals.lifecycle import Handoff
from signoff.core.base.errors import ApprovalExpired, Conflict, ReceiptRefused, ToolInDoubt
from signoff.worker.port import Fence

log = structlog.get_logger(__name__)

Prepare = Callable[[Approval, datetime], Awaitable[Iterable[str] | None]]
"""Checks that a call may start now.

It returns the names of the tools that start; None if nothing has to be started.
"""


def copied(args: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of arguments, which only the tool itself can change afterwards.

    A value that cannot be copied is not JSON, so nobody can approve it.
    """
    try:
        return copy.deepcopy(args)
    except Exception:  # noqa: BLE001 -- a class may raise anything when it is copied
        return dict(args)


class ApprovedCalls:
    """Marks approved calls as started, each only once, and as finished.

    Args:
        ledger: Stores the approvals, and has the keys of receipts, if there are any.
        valid_for: How long an approval is valid if its policy does not say.
    """

    def __init__(self, ledger: Ledger, valid_for: timedelta) -> None:
        self._ledger = ledger
        self._valid_for = valid_for
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def start(self, approval_id: str, fence: Fence, prepare: Prepare) -> bool:
        """Mark a call as started, despite concurrent writes to its approval and a failover.

        Args:
            approval_id: The id of its approval.
            fence: Adds to a change the condition that we still hold the session's lease.
            prepare: Checks the call; it may be called several times.

        Returns:
            Whether there was anything to start.

        Raises:
            Frozen: The call is frozen.
            LeaseLost: Another worker runs the session by now.
            LedgerUnavailable: Redis cannot be reached.
            SignoffError: Whatever `prepare` raises.
        """
        sent = False

        async def attempt() -> bool:
            nonlocal sent
            approval, now = await self._ledger.approval_now(approval_id)
            if sent and approval.handoff is Handoff.STARTED:
                # An earlier attempt was committed, but its reply was lost: only we can have started
                # the call while we hold its lock and the session's lease.
                await self._ledger.commit(fence(Change()))
                return True
            starts = await prepare(approval, now)
            if starts is None:
                return False
            sent = True
            try:
                await self.hand_on(approval, Handoff.STARTED, fence, now, starts=starts)
            except Conflict:
                # It was not committed: if the call is started now, somebody else started it.
                sent = False
                raise
            log.info("tool.started", approval=approval.id, tool=approval.call.name)
            return True

        async with self._locks.setdefault(approval_id, asyncio.Lock()):
            return await self._ledger.insist(partial(self._ledger.decide_again, attempt))

    async def finish(
        self,
        approval_id: str,
        fence: Fence,
        *,
        why: str = "",
        result: str = "",
        add: Callable[[Change], object] | None = None,
    ) -> Approval | None:
        """Mark a started call as finished, before anything else can fail.

        A late delivery may write to the approval at the same time, and Redis may fail over. Neither
        may leave a tool in doubt that has finished.

        Args:
            approval_id: The id of its approval.
            fence: Adds to a change the condition that we still hold the session's lease.
            why: The reason, "" if the tool has ended normally.
            result: The result as JSON text.
            add: Adds to the commit.

        Returns:
            The approval as it was; None if its call was not started, or has finished already.

        Raises:
            LeaseLost, LedgerUnavailable: See `Ledger.commit`.
        """

        async def attempt() -> Approval | None:
            approval, now = await self._ledger.approval_now(approval_id)
            if approval.handoff is not Handoff.STARTED:
                return None
            await self.hand_on(
                approval, Handoff.FINISHED, fence, now, why=why, result=result, add=add
            )
            log.info("tool.finished", approval=approval.id, tool=approval.call.name)
            return approval

        return await self._ledger.insist(partial(self._ledger.decide_again, attempt))

    async def hand_on(
        self,
        approval: Approval,
        handoff: Handoff,
        fence: Fence,
        now: datetime,
        *,
        why: str = "",
        result: str = "",
        starts: Iterable[str] = (),
        add: Callable[[Change], object] | None = None,
    ) -> None:
        """Commit the next step of an approved call; the tools in `starts` must not be frozen."""
        after, events = approval.hand_on(handoff, now=now, why=why, result=result)
        change = Change().put(after, was=approval).note(events)
        change.starting(approval.origin.app, starts, despite=approval.despite)
        if add is not None:
            add(change)
        await self._ledger.commit(fence(change))

    def require_startable(self, approval: Approval, now: datetime) -> None:
        """Refuse to start a call that was started before, or whose approval is not good any more.

        Raises:
            ToolInDoubt: It was started, and not seen to finish.
            ReceiptRefused: No valid receipt proves the approval.
            KeyUnknown: The receipt is signed with an unknown key.
            ApprovalExpired: The approval has expired since the run was resumed.
        """
        what = f"{approval.call.name}() of approval {approval.id}"
        if approval.handoff is not Handoff.RECORDED:
            raise ToolInDoubt(f"{what} is {approval.handoff}.")
        receipts = self._ledger.receipts
        if receipts is not None and (why := receipts.why_refused(approval, now)):
            raise ReceiptRefused(f"{what}: {why}.")
        if approval.has_expired(now, self._valid_for):
            raise ApprovalExpired(
                f"Approval {approval.id} has expired, and {approval.call.name}() was not run. Ask "
                "the agent again."
            )
