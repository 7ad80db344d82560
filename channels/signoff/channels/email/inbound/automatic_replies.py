"""Handles automatic mail, which decides nothing and gets no reply.

If a card bounces, the default is asked, as after a refused delivery. The same happens after an
out-of-office reply, if the policy says so. Anybody can forge such mail, but it can at most cause
one more person to be asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import structlog

from signoff.broker.ledger.change import Change
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.email.message_ids import approval_named, bundle_named, is_caused_by, is_ours
from signoff.channels.email.parsing.incoming import IncomingMail, Sort
from signoff.channels.pipeline.bundles import find_bundle
from signoff.channels.pipeline.reply_tokens import Holder, Role
from signoff.channels.pipeline.results import refuse
from signoff.channels.pipeline.route import route_again
from signoff.core.approvals import deliveries
from signoff.core.approvals.approval import Approval, Asked, State
from signoff.core.approvals.events import What
from signoff.core.base.errors import ApprovalNotFound

log = structlog.get_logger(__name__)

_LONGEST_WHY: Final = 200


class AutomaticMail:
    """Handles automatic mail."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    async def holder(
        self, mail: IncomingMail, known: Sequence[Holder], *, key: bytes = b""
    ) -> Holder | None:
        """Return the holder of a mail's card, by its token or by a Message-ID that it returns.

        `known` has the holders of its tokens; for the key, see `MessageKey`.

        Raises:
            LedgerUnavailable: Redis cannot be reached.
        """
        if known:
            return known[0]
        for one in mail.returned:
            if (bundle := bundle_named(one)) and is_ours(one, bundle, key=key):
                known_bundle = await find_bundle(self._ledger, bundle)
                if known_bundle is not None:
                    return Holder(bundle, known_bundle.person, known_bundle.channel, Role.BUNDLE)
            named = approval_named(one)
            if not named:
                continue
            try:
                approval = await self._ledger.approval(named)
            except ApprovalNotFound:
                continue
            for asked in approval.asked:
                holder = Holder(approval.id, asked.person, asked.channel, level_key=asked.level_key)
                # The previous version put no code into it, but it is the receipt of the card.
                if asked.receipt == one or is_caused_by(one, holder.card, named, key=key):
                    return holder
        return None

    async def take(self, holder: Holder, mail: IncomingMail, *, also: Change) -> None:
        """Apply the effect of a mail to its card, in the change that acknowledges the mail.

        Raises:
            ApprovalNotFound: There is no such approval.
            LedgerError: It could not be committed; nothing was done.
        """

        async def attempt() -> None:
            now, change = await self._ledger.now(), also.copy()
            for one in await self._cards(holder):
                approval = await self._ledger.approval(one.approval)
                change = _change(change, approval, one, mail, now=now)
            await self._ledger.commit(change)

        await self._ledger.decide_again(attempt)
        log.info(
            "mail.automatic",
            approval=holder.approval,
            person=holder.person,
            sort=mail.sort.value,
            sign=mail.automatic,
        )

    async def _cards(self, holder: Holder) -> Sequence[Holder]:
        """Return the cards that a mail is about: all cards of a bundle, or one."""
        if holder.role is not Role.BUNDLE:
            return (holder,)
        known = await find_bundle(self._ledger, holder.approval)
        if known is None:
            raise ApprovalNotFound(holder.approval)
        return [
            Holder(one.approval, holder.person, holder.channel, level_key=one.level_key)
            for one in known.listed
        ]


def _change(
    change: Change,
    approval: Approval,
    holder: Holder,
    mail: IncomingMail,
    *,
    now: datetime,
) -> Change:
    asked = _asked(approval, holder)
    person, channel = holder.person, holder.channel
    waits = approval.state is State.PENDING and asked is not None and not asked.problem
    if asked is not None and waits:
        match mail.sort:
            case Sort.RETURNED:
                reason = "the mail system sent the card back"
                refuse(change, approval, person, channel=channel, reason=reason, now=now)
                return change
            case Sort.DELAYED:
                why = "a mail server says that the card is still under way"
                return change.note(
                    [approval.note(What.DELAYED, now=now, by=channel, why=why, more={"to": person})]
                )
            case Sort.AWAY if not asked.away:
                after, events = deliveries.away(
                    approval,
                    person,
                    channel,
                    mail.subject[:_LONGEST_WHY] or mail.automatic,
                    now=now,
                )
                change.put(after, was=approval).note(events)
                if not (deliveries.is_reachable(after) and deliveries.can_be_met(after)):
                    route_again(change, after)
                return change
    why = f"no person wrote it: {mail.automatic}"
    return change.note([approval.note(What.IGNORED_MAIL, now=now, by=person, why=why)])


def _asked(approval: Approval, holder: Holder) -> Asked | None:
    same = (holder.person, holder.channel, holder.level_key)
    found = (one for one in approval.asked if (one.person, one.channel, one.level_key) == same)
    return next(found, None)
