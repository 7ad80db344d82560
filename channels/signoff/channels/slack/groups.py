"""Who is in the user groups that policies ask, looked up in Slack every few minutes.

Slack is not asked when a level begins: it may be away then, and the person who asks must not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import structlog

from signoff.broker.directory.groups import keep_groups
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.payloads import Actor
from signoff.channels.slack.web import SlackWeb
from signoff.core.base.errors import LedgerError, SlackError

log = structlog.get_logger(__name__)

EVERY: Final = 300.0
"""Seconds between two looks."""


class GroupKeeper:
    """Keeps the members of user groups in the ledger, for all processes.

    Any number of processes may do it: what they write is the same.

    Args:
        ledger: Where they are kept.
        web: The Web API.
        identities: Says who the users are.
        groups: The ids of the groups that policies ask.

    Attributes:
        groups: The same; they may change while it runs.
    """

    def __init__(
        self, ledger: Ledger, web: SlackWeb, identities: Identities, groups: Collection[str]
    ) -> None:
        self._ledger = ledger
        self._web = web
        self._identities = identities
        self.groups = groups

    async def once(self) -> None:
        """Look at all groups; one that cannot be looked up stays as it was.

        Raises:
            LedgerError: It could not be committed.
        """
        found: dict[str, tuple[str, ...]] = {}
        for group in tuple(self.groups):
            try:
                found[group] = await self._members(group)
            except SlackError as error:
                log.error("slack.group_unknown", group=group, problem=str(error))  # noqa: TRY400 -- the message says it all
        if found and await keep_groups(self._ledger, found):
            log.info("slack.groups", groups={one: len(found[one]) for one in found})

    async def run_forever(self) -> None:
        """Look again and again; failures are logged."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("slack.groups_not_kept", error=str(error))
            await asyncio.sleep(EVERY)

    async def _members(self, group: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for user in await self._web.group(group):
            # Whose team a user is of, Slack says when it is asked about the user.
            person = await self._identities.who(Actor(user=user, team=""))
            if person is None:
                log.warning("slack.member_unknown", group=group, user=user)
            else:
                found[person.id] = None
        return tuple(found)
