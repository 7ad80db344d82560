"""Looks up the members of the user groups that policies name, every few minutes.

Slack is not queried when a level begins: it may be down then, and the requester must not wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

import structlog

from signoff.broker.directory.groups import keep_groups
from signoff.broker.ledger.ledger import Ledger
from signoff.channels.slack.inbound.identity import Identities
from signoff.channels.slack.inbound.payloads import SlackUser
from signoff.channels.slack.web import SlackWeb
from signoff.core.base.errors import LedgerError, SlackError

log = structlog.get_logger(__name__)

EVERY: Final = 300.0
"""Seconds between two look-ups."""


class GroupKeeper:
    """Keeps the members of user groups in the ledger, for all processes.

    Any number of processes may run this: they all write the same.

    Args:
        ledger: The ledger, which keeps the members.
        web: The Web API.
        identities: Finds the people behind the users.
        groups: The ids of the groups that policies name.

    Attributes:
        groups: The same ids; they may change while it runs.
    """

    def __init__(
        self, ledger: Ledger, web: SlackWeb, identities: Identities, groups: Collection[str]
    ) -> None:
        self._ledger = ledger
        self._web = web
        self._identities = identities
        self.groups = groups

    async def once(self) -> None:
        """Look up all groups; a group whose look-up fails keeps its previous members.

        Raises:
            LedgerError: The members could not be committed.
        """
        found: dict[str, tuple[str, ...]] = {}
        for group in tuple(self.groups):
            try:
                found[group] = await self._members(group)
            except SlackError as error:
                log.error("slack.group_unknown", group=group, problem=str(error))  # noqa: TRY400 -- the message is enough
        if found and await keep_groups(self._ledger, found):
            log.info("slack.groups", groups={one: len(found[one]) for one in found})

    async def run_forever(self) -> None:
        """Repeat the look-up forever, and log failures."""
        while True:
            try:
                await self.once()
            except LedgerError as error:
                log.warning("slack.groups_not_kept", error=str(error))
            await asyncio.sleep(EVERY)

    async def _members(self, group: str) -> tuple[str, ...]:
        found: dict[str, None] = {}
        for user in await self._web.group(group):
            # Slack returns the team of a user when it is asked about the user.
            person = await self._identities.who(SlackUser(user=user, team=""))
            if person is None:
                log.warning("slack.member_unknown", group=group, user=user)
            else:
                found[person.id] = None
        return tuple(found)
