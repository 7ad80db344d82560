"""The stage `sign_in`: mails sign-in links to people of the directory."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

import structlog

from signoff.broker import stages
from signoff.broker.decisions import Decisions
from signoff.broker.ledger.change import Change, Item
from signoff.broker.limits.throttle import Rule, Throttle, hashed
from signoff.broker.work import MailLink
from signoff.channels.inbox.auth.links import LASTS, make_link
from signoff.channels.inbox.auth.sessions import How
from signoff.channels.inbox.settings import InboxSettings, own_path
from signoff.channels.pipeline.outbox import StageWork, backoff, dead_letter, work_of
from signoff.channels.pipeline.port import Delivered, LinkMail, MailsLinks, Result, Retry
from signoff.core.base.errors import LeaseLost
from signoff.core.directory.people import Person

log = structlog.get_logger(__name__)

_MOST: Final = 10
"""The most links for one person in the time that a link is valid, for all addresses together."""


class LinkMails(StageWork):
    """Mails sign-in links.

    Args:
        decisions: The ledger and the people.
        channel: Sends the mails.
        settings: The page that the links lead to.
    """

    def __init__(self, decisions: Decisions, channel: MailsLinks, settings: InboxSettings) -> None:
        super().__init__(decisions.ledger, stages.SIGN_IN)
        self._decisions = decisions
        self._channel = channel
        self._settings = settings
        self._throttle = Throttle(decisions.ledger.store)

    async def work(self, items: Sequence[Item]) -> None:
        """Mail the links of leased items, and commit each separately.

        If the process dies in between, a mail is sent again, with another link.
        """
        now = await self._ledger.now()
        mails: dict[str, LinkMail] = {}
        for item in items:
            work = work_of(item)
            person = await self._person(item, work, now) if isinstance(work, MailLink) else None
            if isinstance(work, MailLink) and person is not None:
                mails[item.id] = await self._mail(item, work, person, now)
        results = await self._channel.deliver_links(list(mails.values())) if mails else []
        outcomes = dict(zip(mails, results, strict=True))
        changes = [self._done(item, outcomes.get(item.id)) for item in items]
        for item, problem in zip(items, await self._ledger.commit_all(changes), strict=True):
            if isinstance(problem, LeaseLost):
                log.info("outbox.lease_lost", stage=item.stage, item=item.id)

    async def _person(self, item: Item, work: MailLink, now: datetime) -> Person | None:
        """Return the person who gets a link, None if nobody does."""
        if now >= work.asked + LASTS:
            log.warning("inbox.link_too_late", item=item.id)
            return None
        person = self._decisions.directory.find(work.address) if "@" in work.address else None
        if person is None:
            log.info("inbox.link_for_nobody", item=item.id)
            return None
        rule = Rule(f"tries:links:person:{hashed(person.id)}", _MOST, LASTS)
        if item.attempts == 1 and not await self._throttle.allow(rule):
            log.warning("inbox.too_many_links", person=person.id)
            return None
        return person

    async def _mail(self, item: Item, work: MailLink, person: Person, now: datetime) -> LinkMail:
        path, until = await make_link(
            self._ledger,
            person.id,
            how=How.LINK,
            to=own_path(work.to),
            bound=work.bound,
        )
        return LinkMail(
            id=f"{item.id}:{item.attempts}",
            person=person.id,
            name=person.shown,
            # The address of the settings, even if the person typed an alias.
            address=person.email,
            at=now,
            until=until,
            link=f"{self._settings.url}{path}",
            browser=work.browser,
            zone=self._decisions.directory.zone_of(person.id),
        )

    @staticmethod
    def _done(item: Item, result: Result | None) -> Change:
        if work_of(item) is None:
            return dead_letter(Change(), item, "this version cannot read it")
        if isinstance(result, Retry) and not result.counted:
            # It waits for its turn, until its link has expired.
            return Change().retry(item, after=result.after)
        if isinstance(result, Retry):
            log.warning("inbox.link_not_mailed", item=item.id, problem=result.problem)
            return Change().retry(item, after=max(result.after, backoff(item.attempts)))
        if isinstance(result, Delivered):
            log.info("inbox.link_mailed", item=item.id)
        elif result is not None:
            log.error("inbox.link_refused", item=item.id, reason=result.reason)
        return Change().ack(item)
