"""Allowances in the ledger: calls that a policy decides without asking anybody."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime

import structlog
from pydantic import TypeAdapter

from signoff.broker.effects import settle
from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.broker.ledger.records import legible
from signoff.broker.ledger.store import to_ms
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.model import stored_json
from signoff.core.policies.allowance import Allowance, Rate
from signoff.core.routing.selection import Choice

log = structlog.get_logger(__name__)

_ALLOWANCE = TypeAdapter(Allowance)

Choose = Callable[[Approval, datetime], Choice]
"""Returns what the policies decide about a call at a moment."""


def allowance_key(policy: str) -> str:
    """Return the key of the record that counts the calls that a policy has allowed."""
    return f"allowance:{hashlib.sha256(policy.encode()).hexdigest()[:32]}"


class Allowances:
    """Decides calls that a policy allows or denies without asking anybody."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def decide(
        self, approval_id: str, choose: Choose, *, also: Change | None = None
    ) -> Approval | None:
        """Decide a call by its policy, before anybody is asked.

        The call is counted in the commit that allows it. So a policy never allows more calls than
        its `at_most`, however many processes use it.

        Args:
            approval_id: The id of the call's approval.
            choose: Returns what the policies decide.
            also: A change to commit together with the decision.

        Returns:
            The decided approval, None if people have to be asked.
        """

        async def attempt() -> Approval | None:
            was, run, now = await self._ledger.current(approval_id)
            if was.state is not State.PENDING or was.terms is not None or was.has_closed(now):
                return None
            choice = choose(was, now)
            change = Change() if also is None else also.copy()
            if choice.refused:
                after, events = was.refuse(reason=choice.refused, now=now, terms=choice.terms)
            elif choice.allowed is not None and not was.why_not_allowed:
                policy = choice.terms.policy
                if not await self._take(change, policy, choice.allowed, to_ms(now)):
                    log.warning("allowance.used_up", policy=policy, at_most=str(choice.allowed))
                    return None
                after, events = was.allow(choice.terms, now=now)
            else:
                return None
            after = self._ledger.sealed(after, events)
            settle(change.put(after, was=was).note(events).before(was.window), after, run)
            await self._ledger.commit(change)
            log.info("approval.by_policy", approval=after.id, state=after.state.value)
            return after

        return await self._ledger.decide_again(attempt)

    async def _take(self, change: Change, policy: str, rate: Rate, now_ms: int) -> bool:
        """Add one call to the allowance of a policy in a change, if the rate allows it."""
        key = allowance_key(policy)
        record = await self._ledger.raw(key)
        after = legible(_ALLOWANCE, key, record, Allowance()).take(rate, now_ms)
        if after is None:
            return False
        change.put_raw(key, stored_json(after), was=record[0] if record else 0, ttl=rate.period)
        return True
