"""Signing in: an address and a code, so many tries, and one answer to whatever fails."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

import structlog

from signoff.broker.limits.throttle import Rule, Throttle, hashed, network_of
from signoff.channels.inbox.auth.factors import Factors
from signoff.core.directory.people import (
    Directory,
    Person,
    identity_key,
)

log = structlog.get_logger(__name__)

_LIMITS: Final = ((5, timedelta(minutes=15)), (30, timedelta(days=1)))
"""Attempts that fail, for one person: a code is one of a million, and three count at a time."""

_PEER_LIMIT: Final = (60, timedelta(minutes=15))
"""Attempts that fail, from one place: an office comes from one address."""


class TooManyAttempts(Exception):
    """Nothing was looked at; the same for people who are there and people who are not."""


class SignIn:
    """Checks who somebody is.

    Args:
        factors: The second factors.
        throttle: Counts the attempts.
        directory: The people.
    """

    def __init__(self, factors: Factors, throttle: Throttle, directory: Directory) -> None:
        self._factors = factors
        self._throttle = throttle
        self._directory = directory

    async def by_address(self, address: str, code: str, *, peer: str) -> Person | None:
        """Return the person with this address, whose code it is.

        Returns:
            None if there is no such person, who has no second factor, or the code is not right.

        Raises:
            TooManyAttempts: For this address, or from this peer.
        """
        wanted = identity_key(address)
        person = self._directory.find(wanted) if "@" in wanted else None
        rules = [_of_peer(peer), *limited(f"tries:address:{hashed(wanted)}")]
        await self._refuse_too_many(rules, peer)
        # By person as well, because an alias gives no further attempts. That this is over is not
        # told: it would tell that two addresses are one person's.
        more = limited(f"tries:person:{hashed(person.id if person is not None else wanted)}")
        known = person if await self._throttle.allow(*more) else None
        return person if await self._checked(known, code, peer, [*rules, *more]) else None

    async def again(self, person: Person, code: str, *, peer: str) -> bool:
        """Say whether the code of somebody who is signed in is right.

        Raises:
            TooManyAttempts: Of this person, or from this peer.
        """
        # Counted apart: who knows an address can use up its attempts, and must not get at those
        # of a session.
        rules = [_of_peer(peer), *limited(f"tries:again:{hashed(person.id)}")]
        await self._refuse_too_many(rules, peer)
        return await self._checked(person, code, peer, rules)

    async def _refuse_too_many(self, rules: Sequence[Rule], peer: str) -> None:
        # Counted before anything is looked at, so that many at once are not more.
        if not await self._throttle.allow(*rules):
            log.warning("inbox.too_many_attempts", peer=peer)
            raise TooManyAttempts

    async def _checked(
        self, person: Person | None, code: str, peer: str, rules: Sequence[Rule]
    ) -> bool:
        right = await self._factors.check(person, code)
        who = person.id if person is not None else ""
        if not right:
            log.warning("inbox.code_refused", person=who, peer=peer)
            return False
        await self._throttle.refund(*rules)
        log.info("inbox.code_taken", person=who, peer=peer)
        return True


def _of_peer(peer: str) -> Rule:
    return Rule(f"tries:peer:{hashed(network_of(peer))}", *_PEER_LIMIT)


def limited(key: str, limits: Sequence[tuple[int, timedelta]] = _LIMITS) -> list[Rule]:
    """Return the rules under which something is counted, by default those for codes."""
    return [Rule(f"{key}:{window.days}d", most, window) for most, window in limits]
