"""Looks up and uses grants in the ledger; `Decisions` gives and revokes them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime

import structlog

from signoff.broker.ledger.change import Change, scope_key
from signoff.broker.ledger.ledger import Ledger, all_legible
from signoff.broker.ledger.records import legible_grant
from signoff.broker.ledger.store import to_ms
from signoff.core.approvals.approval import Approval, State
from signoff.core.base.errors import GrantNotFound, GrantRefused
from signoff.core.directory.people import Directory
from signoff.core.grants.grant import Grant, grant_id
from signoff.core.policies.policy import Terms

log = structlog.get_logger(__name__)

Rules = Callable[[Approval, datetime], tuple[Terms, Collection[str]]]
"""Returns the terms that a call would have now, and the ids of the people to ask first."""

TellGiver = Callable[[Change, Approval, Grant], None]
"""Adds a message about the use of a grant, for the person who gave it, to a change."""


class Grants:
    """Looks up grants, and decides calls by them."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def get(self, grant: str) -> Grant:
        """Return a grant by its id or the id of the approval that gave it.

        Raises:
            GrantNotFound: The grant does not exist.
            RecordUnreadable: This version cannot read it.
        """
        name = grant_id(grant) if grant.startswith("ap_") else grant
        record = await self._ledger.raw(f"grant:{name}")
        if record is None:
            raise GrantNotFound(grant)
        return legible_grant(name, record)

    async def all(self) -> list[Grant]:
        """Return the grants, the latest first."""
        ids = await self._ledger.store.members("grants", newest_first=True)
        return await self._existing(ids)

    async def uses(self, grant: Grant) -> list[Approval]:
        """Return the approvals that a grant has decided, the earliest first."""
        return await self._ledger.approvals(await self._ledger.store.members(f"uses:{grant.id}"))

    async def decide(
        self,
        approval_id: str,
        rules: Rules,
        directory: Directory,
        *,
        also: Change | None = None,
        tell: TellGiver | None = None,
    ) -> Approval | None:
        """Decide a call by a grant that covers it, before anybody is asked.

        The use is counted in the commit of the decision. So a grant never decides more calls than
        it allows, or any after its expiry by the ledger's clock, however many processes use it.

        Args:
            approval_id: The id of the call's approval.
            rules: Returns the terms of the call.
            directory: The people.
            also: A change to commit together with the decision.
            tell: Adds a message to the giver to the commits of the first and the last use. It is
                about the approval that gave the grant.

        Returns:
            The decided approval, None if no grant covers it.
        """

        async def attempt() -> Approval | None:
            was, run, now = await self._ledger.current(approval_id)
            if was.state is not State.PENDING or was.terms is not None or was.has_closed(now):
                return None
            terms, asked = rules(was, now)
            if terms.grants is None:
                return None
            for grant in await self._covering(was, now):
                try:
                    after, approval, events = grant.use(was, terms, asked, directory, now=now)
                except GrantRefused as error:
                    log.info("grant.not_used", approval=was.id, why=str(error))
                    continue
                change = Change() if also is None else also.copy()
                approval = self._ledger.sealed(approval, events)
                change.put(approval, was=was).put(after, was=grant).note(events)
                from signoff.broker.effects import settle  # noqa: PLC0415 -- only uses need it

                settle(change.before(grant.expires_at).before(was.window), approval, run)
                if tell is not None and (after.used == 1 or not after.left):
                    tell(change, await self._ledger.approval(grant.approval), after)
                await self._ledger.commit(change)
                log.info("grant.used", approval=was.id, grant=grant.id, left=after.left)
                return approval
            return None

        return await self._ledger.decide_again(attempt)

    async def _covering(self, approval: Approval, now: datetime) -> list[Grant]:
        """Return the unexpired grants for such calls, the next to expire first."""
        origin = approval.origin
        key = scope_key(origin.app, approval.call.name, origin.user)
        return await self._existing(await self._ledger.store.above(key, to_ms(now)))

    async def _existing(self, ids: Collection[str]) -> list[Grant]:
        records = await self._ledger.store.read([f"grant:{one}" for one in ids])
        return [one for one in all_legible(legible_grant, ids, records) if one is not None]
