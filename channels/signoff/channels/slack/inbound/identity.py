"""Who a user of Slack is: ids only, never a name, and outsiders are nobody unless they are named.

Identity is the user's id together with the id of the team the user belongs to: in a channel that is
shared with another organisation (Slack Connect), its people press the same buttons.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final, NamedTuple

import structlog

from signoff.channels.slack.inbound.payloads import Actor
from signoff.channels.slack.web import Me, SlackWeb
from signoff.core.base.errors import SlackDeferred, SlackRefused
from signoff.core.directory.people import Directory, Person

log = structlog.get_logger(__name__)

_REMEMBERED: Final = 600.0
_MOST: Final = 10_000


class _Known(NamedTuple):
    person: str
    until: float


class Identities:
    """Finds the person behind a user of Slack.

    Args:
        web: The Web API, asked about users whose id nobody has configured.
        directory: The people.
    """

    def __init__(self, web: SlackWeb, directory: Directory) -> None:
        self._web = web
        self._directory = directory
        self._me: Me | None = None
        self._asking = asyncio.Lock()
        self._known: dict[tuple[str, str], _Known] = {}

    async def who(self, actor: Actor) -> Person | None:
        """Return who a user is; None for somebody who is not in the directory, or an outsider.

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

    async def _by_address(self, actor: Actor, me: Me, *, at_home: bool) -> Person | None:
        """Return whose address a user has; of another team, only within our own organisation."""
        key = (actor.team, actor.user)
        known = self._known.get(key)
        if known is not None and known.until > time.monotonic():
            return self._directory.get(known.person)
        try:
            member = await self._web.member(actor.user)
        except SlackRefused as error:
            log.warning("slack.user_unknown", user=actor.user, problem=str(error))
            return None
        own = at_home or (bool(me.enterprise) and member.enterprise == me.enterprise)
        if not actor.team:
            # The payload does not say whose user it is, and Slack does.
            own = own or (bool(member.team) and member.team == me.team)
        person = None
        if own and member.human:
            person = self._directory.by_slack(actor.user) or (
                self._directory.find(member.email) if "@" in member.email else None
            )
            if person is not None and person.slack and person.slack != actor.user:
                person = None  # configured with another id: that one is theirs
        if len(self._known) >= _MOST:
            self._known.clear()
        self._known[key] = _Known(person.id if person else "", time.monotonic() + _REMEMBERED)
        return person

    async def _whoami(self) -> Me:
        if self._me is None:
            # The first clicks after a start may come all at once: one of them asks.
            async with self._asking:
                if self._me is None:
                    try:
                        self._me = await self._web.whoami()
                    except SlackRefused as error:
                        raise SlackDeferred(str(error)) from error
        return self._me
