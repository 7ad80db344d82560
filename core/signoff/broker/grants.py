"""Grants in the ledger: given, used, revoked and looked up."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import datetime, timedelta

import structlog
from pydantic import JsonValue

from signoff.broker.change import Change, scope_key
from signoff.broker.consequences import settle
from signoff.broker.desk import REFUSALS, Desk
from signoff.broker.ledger import Ledger
from signoff.broker.records import legible_grant
from signoff.broker.store import to_ms
from signoff.core.approval import Approval, State
from signoff.core.errors import GrantNotFound, GrantRefused, RecordUnreadable
from signoff.core.events import Event
from signoff.core.grants import Grant, grant_id
from signoff.core.people import Person
from signoff.core.policy import Terms

log = structlog.get_logger(__name__)

Rules = Callable[[Approval, datetime], tuple[Terms, Collection[str]]]
"""Returns by which terms a call would be asked about now, and the ids of those asked first."""

Told = Callable[[Change, Approval, Grant], None]
"""Adds to a change what whoever gives a grant is told."""


class Grants:
    """Gives grants, decides by them and revokes them.

    Args:
        desk: Where answers become commits.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._ledger: Ledger = desk.ledger

    async def get(self, grant: str) -> Grant:
        """Return one grant, by its id or that of the approval it came from.

        Raises:
            GrantNotFound: There is none.
            RecordUnreadable: It does not hold what this version can read.
        """
        name = grant_id(grant) if grant.startswith("ap_") else grant
        record = await self._ledger.raw(f"grant:{name}")
        if record is None:
            raise GrantNotFound(grant)
        return legible_grant(name, record)

    async def all(self, *, limit: int | None = None) -> list[Grant]:
        """Return the grants, the latest first."""
        ids = await self._ledger.store.members("grants", newest_first=True, limit=limit)
        return await self._existing(ids)

    async def uses(self, grant: Grant) -> list[Approval]:
        """Return the approvals that a grant has decided, the first use first."""
        return await self._ledger.approvals(await self._ledger.store.members(f"uses:{grant.id}"))

    async def give(
        self,
        approval_id: str,
        person: Person,
        *,
        channel: str,
        span: timedelta,
        uses: int | None = None,
        limit: str = "",
        reason: str = "",
        also: Change | None = None,
        more: Mapping[str, JsonValue] | None = None,
        told: Told | None = None,
    ) -> Grant:
        """Give a grant for calls like one; one that still waits is approved by it.

        Args:
            approval_id: The call.
            person: Who, as the channel has proven it.
            channel: How it came.
            span: For how long.
            uses: How many calls it covers besides this one; None is as many as may be.
            limit: A CEL expression, to cover less than the policy allows.
            reason: In the person's words.
            also: What must happen in the same commit.
            more: What the audit shall know besides.
            told: Adds to the commit what whoever gives it is told. Whoever hands this in tells them
                of a refusal as well, and puts that into the audit; otherwise it is done here.

        Raises:
            GrantRefused: The person may not, or not as far as that; nothing was done.
            DecisionRefused: The person may not decide, or may not any more.
            PayloadError: There is something to be filled in.
        """
        given: list[Grant] = []

        def then(change: Change, approval: Approval, now: datetime) -> None:
            grant, events = Grant.give(
                approval,
                by=person.id,
                channel=channel,
                now=now,
                span=span,
                uses=uses,
                limit=limit,
                reason=reason,
            )
            change.put(grant, was=None).note(_with(events, more))
            if told is not None:
                told(change, approval, grant)
            given[:] = [grant]

        def approved(change: Change, approval: Approval) -> None:
            at = approval.decision.at if approval.decision else approval.opened_at
            then(change, approval, at)

        async def attempt() -> None:
            approval = await self._ledger.approval(approval_id)
            if await self._ledger.raw(f"grant:{grant_id(approval_id)}") is not None:
                raise GrantRefused(
                    f"Approval {approval_id} has given the grant {grant_id(approval_id)} already. "
                    "Give another one with the next call."
                )
            if approval.state is State.PENDING:
                await self._desk.approve(
                    approval_id,
                    person,
                    channel=channel,
                    reason=reason,
                    also=also,
                    more=more,
                    noted=approved,
                )
                return
            change = Change() if also is None else also.copy()
            then(change, approval, await self._ledger.now())
            await self._ledger.commit(change)

        try:
            await self._ledger.decide_again(attempt)
        except REFUSALS as error:
            if told is None:
                came = {"channel": channel, **(more or {})}
                await self._desk.note_refusal(approval_id, error, by=person.id, more=came)
            raise
        grant = given[0]
        log.info("grant.given", grant=grant.id, approval=approval_id, by=grant.by, uses=grant.uses)
        return grant

    async def revoke(
        self,
        grant: str,
        *,
        by: str,
        why: str,
        also: Change | None = None,
        more: Mapping[str, JsonValue] | None = None,
        told: Told | None = None,
    ) -> Grant:
        """Take a grant back: no call that is not decided yet is decided by it.

        Args:
            grant: Its id, or that of the approval it came from.
            by: Who does.
            why: Why.
            also: What must happen in the same commit.
            more: What the audit shall know besides.
            told: Adds to the commit what whoever does it is told; see `give`.

        Raises:
            GrantNotFound: There is none.
            GrantRefused: It has ended already.
        """

        async def attempt() -> Grant:
            was = await self.get(grant)
            revoked, events = was.revoke(by=by, why=why, now=await self._ledger.now())
            change = (Change() if also is None else also.copy()).put(revoked, was=was)
            change.note(_with(events, more))
            if told is not None:
                told(change, await self._ledger.approval(was.approval), revoked)
            await self._ledger.commit(change)
            return revoked

        try:
            done = await self._ledger.decide_again(attempt)
        except GrantRefused as error:
            if told is None:
                was = await self.get(grant)
                await self._desk.note_refusal(was.approval, error, by=by, more=more)
            raise
        log.info("grant.revoked", grant=done.id, by=by)
        return done

    async def decide(
        self,
        approval_id: str,
        rules: Rules,
        *,
        also: Change | None = None,
        told: Told | None = None,
    ) -> Approval | None:
        """Decide a call that nobody has been asked about by a grant, if one covers it.

        A use is taken in the commit of the decision it makes: with any number of processes a grant
        decides as many calls as it is for, and none after its end by the clock of the ledger.

        Args:
            approval_id: The call.
            rules: By which it would be asked about.
            also: What must happen in the same commit.
            told: Adds to the commit of the first and of the last use what the giver is told, about
                the approval that the grant came from.

        Returns:
            The approval, decided; None where no grant covers it.
        """

        async def attempt() -> Approval | None:
            was, run, now = await self._ledger.standing(approval_id)
            if was.state is not State.PENDING or was.terms is not None:
                return None
            terms, asked = rules(was, now)
            if terms.grants is None:
                return None
            for grant in await self._covering(was, now):
                try:
                    after, approval, events = grant.use(
                        was, terms, asked, self._desk.directory, now=now
                    )
                except GrantRefused as error:
                    log.info("grant.not_used", approval=was.id, why=str(error))
                    continue
                change = Change() if also is None else also.copy()
                change.put(approval, was=was).put(after, was=grant).note(events)
                settle(change.before(grant.expires_at), approval, run)
                if told is not None and (after.used == 1 or not after.left):
                    told(change, await self._ledger.approval(grant.approval), after)
                await self._ledger.commit(change)
                log.info("grant.used", approval=was.id, grant=grant.id, left=after.left)
                return approval
            return None

        return await self._ledger.decide_again(attempt)

    async def _covering(self, approval: Approval, now: datetime) -> list[Grant]:
        """Return the grants for such calls that have not expired, the next to expire first."""
        origin = approval.origin
        key = scope_key(origin.app, approval.call.name, origin.user)
        return await self._existing(await self._ledger.store.above(key, to_ms(now)))

    async def _existing(self, ids: Collection[str]) -> list[Grant]:
        records = await self._ledger.store.read([f"grant:{one}" for one in ids])
        found = []
        for one, record in zip(ids, records, strict=True):
            if record is None:
                continue
            try:
                found.append(legible_grant(one, record))
            except RecordUnreadable as error:
                # One that cannot be read covers nothing and hides no other.
                log.error("ledger.unreadable", grant=one, error=str(error))  # noqa: TRY400 -- the message says it all
        return found


def _with(events: Iterable[Event], more: Mapping[str, JsonValue] | None) -> list[Event]:
    """Return events with further details, under their own."""
    return [one.model_copy(update={"more": {**(more or {}), **one.more}}) for one in events]
