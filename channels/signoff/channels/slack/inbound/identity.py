"""Finds the person of a Slack user by ids, never by names.

A user is identified by their id and the id of their team: in a channel that is shared with another
organisation (Slack Connect), its people see the same buttons. An outsider counts only if the
directory names their id.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import structlog

from signoff.channels.slack.inbound.payloads import SlackUser
from signoff.channels.slack.web import Me, SlackWeb
from signoff.core.base.errors import SlackDeferred, SlackRefused
from signoff.core.directory.people import Directory, Person

log = structlog.get_logger(__name__)

Who = Callable[[SlackUser], Awaitable[Person | None]]
"""Finds the person of a user, as `Identities.who` does."""

_REMEMBERED: Final = 600.0
_MOST: Final = 10_000
_UNKNOWN: Final = frozenset({"user_not_found", "user_not_visible"})
"""The errors for users who do not exist, or whom the app may not see."""


class _Known(NamedTuple):
    person: str
    until: float


class Identities:
    """Finds the person behind a user of Slack.

    The Web API is asked about users whose id is not configured.
    """

    def __init__(self, web: SlackWeb, directory: Directory) -> None:
        self._web = web
        self._directory = directory
        self._me: Me | None = None
        self._asking = asyncio.Lock()
        self._known: dict[tuple[str, str, int], _Known] = {}

    async def who(self, actor: SlackUser) -> Person | None:
        """Return the person of a user, None if they are not in the directory or are an outsider.

        Raises:
            SlackDeferred: Slack had to be asked and did not answer.
        """
        named = self._directory.by_slack(f"{actor.team}/{actor.user}")
        if named is not None:
            return named
        me = await self._whoami()
        at_home = bool(actor.team) and actor.team == me.team
        if at_home and (person := self._directory.by_slack(actor.user)) is not None:
            return person
        if actor.team and not at_home and not me.enterprise:
            return None
        return await self._by_address(actor, me, at_home=at_home)

    async def _by_address(self, actor: SlackUser, me: Me, *, at_home: bool) -> Person | None:
        """Return the person with the address of a user of our own team or organisation."""
        # After a reload of the directory, another person may have the address.
        key = (actor.team, actor.user, self._directory.generation)
        known = self._known.get(key)
        if known is not None and known.until > time.monotonic():
            return self._directory.get(known.person)
        try:
            member = await self._web.member(actor.user)
        except SlackRefused as error:
            log.warning("slack.user_unknown", user=actor.user, problem=str(error))
            if error.code not in _UNKNOWN:
                # Slack refuses our token, which says nothing about the user.
                raise SlackDeferred(str(error)) from error
            return None
        own = at_home or (bool(me.enterprise) and member.enterprise == me.enterprise)
        if not actor.team:
            # The payload does not name the team, but Slack does.
            own = own or (bool(member.team) and member.team == me.team)
        person = None
        if not actor.team and member.team:
            # An outsider, too, may be configured by team and user.
            person = self._directory.by_slack(f"{member.team}/{actor.user}")
        if person is None and own and member.human:
            person = self._directory.by_slack(actor.user) or (
                self._directory.find(member.email) if "@" in member.email else None
            )
            if person is not None and person.slack and person.slack != actor.user:
                person = None  # another id is configured for this person
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = _Known(person.id if person else "", time.monotonic() + _REMEMBERED)
        return person

    async def _whoami(self) -> Me:
        if self._me is None:
            # Of several first clicks, only one asks.
            async with self._asking:
                if self._me is None:
                    try:
                        self._me = await self._web.whoami()
                    except SlackRefused as error:
                        raise SlackDeferred(str(error)) from error
        return self._me
